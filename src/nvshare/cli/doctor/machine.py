"""The machine that doctor checks."""

from pathlib import Path

from nvshare.config import (
    DEFAULT_OPERATOR_SOCKET,
    DEFAULT_READER_SOCKET,
    DEFAULT_SOCKET,
    OPERATOR_SOCKET_VARIABLE,
    READER_SOCKET_VARIABLE,
    SOCKET_VARIABLE,
)
from nvshare.record import Record


class CheckedMachine(Record, frozen=True):
    """The machine to check; in tests `root` is another directory than /."""

    environment: dict[str, str]
    root: Path = Path("/")
    socket: str = DEFAULT_SOCKET
    operator_socket: str = DEFAULT_OPERATOR_SOCKET
    reader_socket: str = DEFAULT_READER_SOCKET
    """For users who may not open the operator's."""

    def path(self, absolute: str) -> Path:
        return self.root / absolute.lstrip("/")


def machine_of(environment: dict[str, str]) -> CheckedMachine:
    """This machine, with the sockets that the environment names."""
    return CheckedMachine(
        environment,
        socket=environment.get(SOCKET_VARIABLE) or DEFAULT_SOCKET,
        operator_socket=environment.get(OPERATOR_SOCKET_VARIABLE) or DEFAULT_OPERATOR_SOCKET,
        reader_socket=environment.get(READER_SOCKET_VARIABLE) or DEFAULT_READER_SOCKET,
    )

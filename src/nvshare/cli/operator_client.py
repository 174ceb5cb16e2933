"""A blocking client of the operator's socket."""

import contextlib
import os
import socket
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TypeVar

from nvshare import admin
from nvshare.config import (
    DEFAULT_OPERATOR_SOCKET,
    DEFAULT_READER_SOCKET,
    OPERATOR_SOCKET_VARIABLE,
    READER_SOCKET_VARIABLE,
)
from nvshare.record import Record

TIMEOUT_S = 10.0
AnswerT = TypeVar("AnswerT", bound=admin.Answer)


class UnreachableError(Exception):
    """No scheduler answers; the text names the remedy."""


class NotAllowedError(UnreachableError):
    """This user may not open the socket."""


class RefusedError(Exception):
    """The scheduler refused the request; the text is its reason."""


class Found(Record, frozen=True):
    """The socket of a scheduler, and how it was found."""

    path: str
    is_private: bool = False
    """Nobody named it: it is a private one, because the machine has none."""
    others: tuple[str, ...] = ()
    """The sockets of this user's other private schedulers, if it is one."""


def default_socket() -> str:
    """The path of `find`."""
    return find().path


def find(named: str | None = None) -> Found:
    """The socket: the named one, that of the environment, the machine's, or that of a private scheduler. Of the
    machine's two, the one for reading is for users who may not open the operator's."""
    named = named or os.environ.get(OPERATOR_SOCKET_VARIABLE) or os.environ.get(READER_SOCKET_VARIABLE)
    if named:
        return Found(named)
    for path in (DEFAULT_OPERATOR_SOCKET, DEFAULT_READER_SOCKET):
        if _is_usable(path):
            return Found(path)
    from nvshare.cli.run.scheduler_paths import private_schedulers

    first, *others = [paths.operator_socket for paths in private_schedulers()] or [""]
    return Found(first, True, tuple(others)) if first else Found(DEFAULT_OPERATOR_SOCKET)


def note_others(found: Found) -> None:
    """One line on stderr if more private schedulers run than the one that is shown."""
    if found.others:
        one = len(found.others) == 1
        sys.stderr.write(
            f"note: this is the private scheduler at {found.path}; {'another one runs' if one else 'others run'} at"
            f" {', '.join(found.others)} (--socket)\n"
        )


def _is_usable(path: str) -> bool:
    from nvshare.cli.errors import CommandError
    from nvshare.cli.run.scheduler_paths import is_answering

    try:
        return is_answering(path)
    except CommandError:
        return False  # this user may not open it


def ask_for(kind: type[AnswerT], path: str, request: admin.Request, *, timeout_s: float = TIMEOUT_S) -> AnswerT:
    """`ask`, and check the type of the answer."""
    answer = ask(path, request, timeout_s=timeout_s)
    if not isinstance(answer, kind):
        raise admin.AdminError(f"unexpected answer of the scheduler ({answer}); does it have another version?")
    return answer


def ask(path: str, request: admin.Request, *, timeout_s: float = TIMEOUT_S) -> admin.AnyAnswer:
    """One request, one answer; raises RefusedError if the scheduler refuses it."""
    with contextlib.closing(answers(path, request, timeout_s=timeout_s)) as lines:
        answer = next(lines, None)
    if answer is None:
        raise UnreachableError(f"the scheduler at {path} closed the connection; see its log")
    if isinstance(answer, admin.Failed):
        raise RefusedError(answer.reason)
    return answer


def answers(
    path: str, request: admin.Request, *, timeout_s: float, forever: bool = False
) -> Generator[admin.AnyAnswer, None, None]:
    """One request, answers until the scheduler closes. `forever`: wait for each without a timeout."""
    question = _encoded(request)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        _connect(connection, path)
        try:
            with contextlib.suppress(BrokenPipeError):  # Refused before the request was sent: the answer can be read.
                connection.sendall(question)
            for line in _lines(connection, None if forever else timeout_s):
                yield admin.decode_answer(line)
        except TimeoutError:
            raise UnreachableError(f"the scheduler at {path} does not answer; is it stopped?") from None
        except ConnectionError:
            raise UnreachableError(f"the scheduler at {path} closed the connection; see its log") from None


def _encoded(request: admin.Request) -> bytes:
    try:
        return admin.encode(request)
    except UnicodeEncodeError:
        raise RefusedError("a name in the command is not UTF-8, and the scheduler knows none that is not") from None


def _lines(connection: socket.socket, timeout_s: float | None) -> Iterator[bytes]:
    """Lines until the scheduler closes. The time is for each whole line, also for one that comes byte by byte."""
    rest, began = b"", time.monotonic()
    while True:
        left_s = None if timeout_s is None else began + timeout_s - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise TimeoutError
        connection.settimeout(left_s)
        data = connection.recv(1 << 16)
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
        if lines:
            began = time.monotonic()
        if not data:
            if rest:
                yield rest
            return


def _connect(connection: socket.socket, path: str) -> None:
    try:
        connection.connect(path)
    except FileNotFoundError:
        raise UnreachableError(f"no scheduler at {path}; start nvshare-scheduler, or use --socket") from None
    except ConnectionRefusedError:
        if not Path(path).is_socket():
            raise UnreachableError(f"{path} is not a socket; name that of a scheduler's operator") from None
        raise UnreachableError(f"the scheduler at {path} is not running; start nvshare-scheduler") from None
    except TimeoutError:
        raise UnreachableError(f"the scheduler at {path} does not answer; is it stopped?") from None
    except PermissionError:
        raise NotAllowedError(f"this user has no permission to open {path}; use sudo") from None
    except OSError as error:
        raise UnreachableError(f"cannot use {path}: {error.strerror or error}") from None

"""Makes sure that a GPU of this node is offered in one way only: by the device plugin or by the DRA driver.

Otherwise both would give out the same memory. Each program holds a shared lock on a file of its own for every GPU, and
looks whether anybody holds the other program's. Locks end with the process. Two instances of one program may run at the
same time, as in a rolling update."""

import fcntl
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO

DEVICE_PLUGIN = "nvshare-device-plugin"
DRA_DRIVER = "nvshare-dra-driver"
_OTHER = {DEVICE_PLUGIN: DRA_DRIVER, DRA_DRIVER: DEVICE_PLUGIN}


class GpuServedError(RuntimeError):
    """The other program offers this GPU, or that is not known; the text names the remedy."""


class ServedGpus:
    """The locks of one program. `directory` is on the host, and not visible to pods."""

    def __init__(self, directory: Path, program: str) -> None:
        self._directory = directory
        self._program = program
        self._held: list[IO[bytes]] = []

    def take(self, uuids: Iterable[str]) -> None:
        """Raises GpuServedError, also if it cannot be checked: both programs would give out the same memory."""
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            for uuid in uuids:
                self._take(uuid)
        except OSError as error:
            self.release()
            raise GpuServedError(
                f"cannot check whether {_OTHER[self._program]} offers the same GPUs: {error}; mount {self._directory}"
                " of the host, writable, at this path"
            ) from error

    def _take(self, uuid: str) -> None:
        own = self._open(uuid, self._program)
        self._held.append(own)
        fcntl.flock(own, fcntl.LOCK_SH)
        with self._open(uuid, _OTHER[self._program]) as other:
            try:
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.release()
                raise GpuServedError(
                    f"GPU {uuid} is offered by {_OTHER[self._program]} on this node; exclude the node from one of the"
                    " two DaemonSets (nodeSelector), or give each program its own GPUs (--gpus)"
                ) from None

    def _open(self, uuid: str, program: str) -> IO[bytes]:
        return (self._directory / f"{re.sub('[^A-Za-z0-9-]', '_', uuid)}.{program}").open("ab")

    def release(self) -> None:
        """Give up the locks."""
        for file in self._held:
            file.close()
        self._held.clear()

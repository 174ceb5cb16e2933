"""The lock that lets only one scheduler run at a path.

It is a lock on a file beside the operator's socket: the kernel releases it when the process ends, for whatever reason.
The file is not in the clients' directory, because pods can open, and so lock, what is there. It also contains the
epoch of the last scheduler: if there is one, clients of that scheduler may still hold GPU locks."""

import contextlib
import fcntl
import os
import time
from pathlib import Path

from nvshare.config import ConfigError
from nvshare.scheduler.listening_socket import make_private_directory
from nvshare.scheduler.observe.log import log


class InstanceLock:
    """This process is the scheduler of this operator's socket until it ends."""

    def __init__(self, operator_socket: Path, *, state_files: frozenset[str] = frozenset()) -> None:
        """`state_files`: names of other files that a scheduler keeps beside the operator's socket."""
        path = operator_socket.with_name(operator_socket.name + ".lock")
        make_private_directory(operator_socket.parent, {operator_socket.name, path.name} | state_files)
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(
                f"cannot open {path}: {error.strerror}; run as root, or choose another --operator-socket"
            ) from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise ConfigError(
                f"another scheduler is running at {operator_socket}; stop it, or choose another --operator-socket"
            ) from None
        text = os.pread(self._descriptor, 32, 0).strip(b"\0\n")
        last = int(text) if text.isdigit() else 0
        self.had_predecessor = os.fstat(self._descriptor).st_size > 0
        self.epoch = max(last + 1, int(time.time())) & 0xFFFF_FFFF
        self._keep_epoch(path)
        self._users = Path(f"{operator_socket}.users")

    def _keep_epoch(self, path: Path) -> None:
        """Without it the next scheduler takes the time as its epoch, which only a clock that went back makes wrong."""
        text = f"{self.epoch}\n".encode()
        try:
            os.pwrite(self._descriptor, text, 0)
            os.ftruncate(self._descriptor, len(text))
        except OSError as error:
            log.warning(f"cannot write {path}: {error.strerror}. The scheduler works without it; free some space there")
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, len(text))  # takes no space, and says that there was a predecessor

    def has_users(self) -> bool:
        """Whether a program that `nvshare run` started is still running: it holds a shared lock on the users' file.

        If there is none, the file stays locked until this process ends: a program that starts meanwhile waits, and then
        starts a new scheduler."""
        try:
            descriptor = os.open(self._users, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return True
        return False

    def release(self) -> None:
        os.close(self._descriptor)

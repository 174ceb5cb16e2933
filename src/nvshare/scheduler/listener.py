"""Taking a place in the file system: a live scheduler is never robbed of its sockets, a dead one's are replaced.

A lock file beside the operator's socket decides who is alive: the kernel frees the lock with its process, however that
ends. It is not in the clients' directory, because what pods can open they can lock. The file also remembers the last
epoch, and that there was a predecessor whose clients may still hold locks."""

import contextlib
import errno
import fcntl
import os
import socket
import time
from pathlib import Path

from nvshare.config import ConfigError

BACKLOG = 1024
MOST_PATH = 107
"""Bytes that the kernel has room for in a socket's path."""


class Lease:
    """This process is the scheduler of this place until it ends."""

    def __init__(self, operator_socket: Path) -> None:
        path = operator_socket.with_name(operator_socket.name + ".lock")
        _make_private(operator_socket.parent, {operator_socket.name, path.name})
        try:
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise ConfigError(f"cannot open {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise ConfigError(
                f"another scheduler is running at {operator_socket}; stop it, or choose another --operator-socket"
            ) from None
        text = os.pread(self._lock, 32, 0).strip()
        last = int(text) if text.isdigit() else 0
        self.had_predecessor = last > 0
        self.epoch = max(last + 1, int(time.time())) & 0xFFFF_FFFF
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{self.epoch}\n".encode(), 0)
        self._users = Path(f"{operator_socket}.users")

    def is_wanted(self) -> bool:
        """Whether a program that has not registered yet counts on us: it holds a shared lock on the users' file.

        If nobody does, the file stays locked until this process ends, and a newcomer waits to start a successor."""
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

    def close(self) -> None:
        """Let others have the place."""
        os.close(self._lock)


class Listener:
    """A listening socket at a path, ours until closed."""

    def __init__(self, path: Path, *, mode: int) -> None:
        self._path = path
        _make_directory(path.parent, 0o755)
        _make_way(path)
        self.socket = _bind(path, mode)
        self._inode = path.stat().st_ino

    def is_ours(self) -> bool:
        """Whether newcomers still find us at the path."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def is_nowhere(self) -> bool:
        """Whether the directory is a mount whose source was removed: nobody would ever find a socket in it."""
        try:
            return self._path.parent.stat().st_nlink == 0
        except OSError:
            return False

    def close(self) -> None:
        """Take the path away, if it is still ours."""
        self.socket.close()
        with contextlib.suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()


def _make_directory(directory: Path, mode: int) -> None:
    """Make it with this mode, whatever the umask. One that exists is its owner's and stays as it is."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode)
            directory.chmod(mode)
        if not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        raise ConfigError(
            f"cannot use the directory {directory}: {error.strerror}; run as root, or choose another place"
            " with --socket and --operator-socket"
        ) from None


def _make_private(directory: Path, ours: set[str]) -> None:
    """The operator's directory is closed to all others. An open one is closed only if nothing else is in it: a kubelet
    makes mounts with mode 755, but /tmp is not ours to close."""
    _make_directory(directory, 0o700)
    status = directory.stat()
    if status.st_mode & 0o077 == 0 and status.st_uid in (0, os.geteuid()):
        return
    if status.st_uid != os.geteuid() or {entry.name for entry in directory.iterdir()} - ours:
        raise ConfigError(
            f"{directory} is open to other users; give the operator's socket a directory of its own (--operator-socket)"
        )
    directory.chmod(0o700)


def _make_way(path: Path) -> None:
    """Refuse if somebody answers at the path; repair a directory that a container runtime made of a missing mount."""
    with contextlib.suppress(OSError):
        path.rmdir()
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    with probe:
        try:
            probe.connect(str(path))
        except BlockingIOError:
            pass  # A live server whose queue is full.
        except OSError:
            return
    raise ConfigError(f"another scheduler is answering at {path}; stop it, or choose another --socket")


def _bind(path: Path, mode: int) -> socket.socket:
    """Bind beside the path and move it there: the socket is never seen half made, and never missing."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    fresh = path.with_name(f".{os.getpid()}.sock")
    if len(os.fsencode(fresh)) > MOST_PATH:
        fresh = path.with_name(path.name[:-1] + ("~" if path.name[-1] != "~" else "-"))
    try:
        fresh.unlink(missing_ok=True)
        listening.bind(str(fresh))
        fresh.chmod(mode)
        listening.listen(BACKLOG)
        fresh.rename(path)
    except OSError as error:
        listening.close()
        fresh.unlink(missing_ok=True)
        raise ConfigError(f"cannot listen at {path}: {error.strerror or error}") from None
    return listening

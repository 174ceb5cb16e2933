"""A listening socket at a path. The socket of a running scheduler is never replaced; the socket that a dead scheduler
left is."""

import contextlib
import errno
import os
import socket
from pathlib import Path

from nvshare.config import ConfigError
from nvshare.setting_values import MAX_SOCKET_PATH

BACKLOG = 1024
SO_PASSRIGHTS = 83
"""Linux 6.16; Python has no name for it yet."""


class ListeningSocket:
    """A listening socket at a path."""

    def __init__(self, path: Path, *, mode: int) -> None:
        self._path = path
        _make_directory(path.parent, 0o755)
        _check_unused(path)
        self.socket = _bind(path, mode)
        self._inode = path.stat().st_ino

    @property
    def refuses_descriptors(self) -> bool:
        """Whether the kernel lets no peer pass descriptors to its connections."""
        try:
            return self.socket.getsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS) == 0
        except OSError:
            return False

    def is_at_path(self) -> bool:
        """Whether the path still leads to this socket."""
        try:
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def has_lost_directory(self) -> bool:
        """Whether the directory is a mount whose source was removed: no program could find a socket in it."""
        try:
            return self._path.parent.stat().st_nlink == 0
        except OSError:
            return False

    def close(self) -> None:
        """Stop listening; remove the path if it still leads to this socket."""
        self.socket.close()
        with contextlib.suppress(OSError):
            if self.is_at_path():
                self._path.unlink()


def _make_directory(directory: Path, mode: int) -> None:
    """Make it with this mode, whatever the umask. One that exists is left as it is."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode)
            directory.chmod(mode)
        if not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        raise _unusable(directory, error) from None


def _unusable(directory: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"cannot use the directory {directory}: {error.strerror}; run as root, or choose another directory"
        " with --socket and --operator-socket"
    )


def make_private_directory(directory: Path, own_files: set[str]) -> None:
    """The operator's directory is closed to other users. One that is open is closed only if it contains nothing but our
    own files: kubelet and systemd make it with mode 755, but /tmp must stay open."""
    _make_directory(directory, 0o700)
    status = directory.stat()
    if status.st_mode & 0o077 == 0 and status.st_uid in (0, os.geteuid()):
        return
    try:
        if status.st_uid != os.geteuid() or not _has_only(directory, own_files):
            raise ConfigError(
                f"{directory} is accessible to other users; use a private directory for --operator-socket"
            )
        directory.chmod(0o700)
    except OSError as error:
        raise _unusable(directory, error) from None


def _has_only(directory: Path, own_files: set[str]) -> bool:
    return all(entry.name in own_files and entry.lstat().st_uid == os.geteuid() for entry in directory.iterdir())


def _check_unused(path: Path) -> None:
    """Refuse if a server answers at the path. An empty directory there is removed: container runtimes make one for a
    mount whose source is missing."""
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
    """Bind beside the path and rename: there is a socket at the path at every moment, and always one that listens."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    _refuse_descriptors(listening)
    fresh = path.with_name(f".{os.getpid()}.sock")
    if len(os.fsencode(fresh)) > MAX_SOCKET_PATH:
        fresh = path.with_name(path.name[:-1] + ("~" if path.name[-1] != "~" else "-"))
    try:
        fresh.unlink(missing_ok=True)
        listening.bind(str(fresh))
        fresh.chmod(mode)
        listening.listen(BACKLOG)
        fresh.rename(path)
    except OSError as error:
        listening.close()
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise ConfigError(f"cannot listen at {path}: {error.strerror or error}; choose another path") from None
    return listening


def _refuse_descriptors(listening: socket.socket) -> None:
    """Peers cannot pass descriptors to us (SCM_RIGHTS). If we read bytes without taking the descriptors beside them,
    they are closed, and we wait for as long as SO_LINGER of a passed socket says: one peer could stop the scheduler.
    Accepted connections inherit this. Kernels before 6.16 do not have it (passed_descriptors)."""
    with contextlib.suppress(OSError):
        listening.setsockopt(socket.SOL_SOCKET, SO_PASSRIGHTS, 0)

"""The paths of schedulers: the machine's, and private ones."""

import errno
import os
import socket
import stat
import tempfile
from pathlib import Path

from nvshare.cli.errors import EXIT_NVSHARE_FAILED, CommandError
from nvshare.record import Record


class SchedulerPaths(Record, frozen=True):
    """The files of a private scheduler."""

    directory: str

    @property
    def socket(self) -> str:
        # The scheduler makes this directory open to all; its parent stays private.
        return f"{self.directory}/clients/scheduler.sock"

    @property
    def operator_socket(self) -> str:
        return f"{self.directory}/operator/control.sock"

    @property
    def users(self) -> str:
        return f"{self.operator_socket}.users"

    @property
    def log(self) -> str:
        return f"{self.directory}/scheduler.log"


def runtime_directory() -> Path:
    """This user's directory for sockets; no other user can write to it."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/") and os.access(base, os.W_OK | os.X_OK):
        path = Path(base, "nvshare")
    else:
        path = Path(tempfile.gettempdir(), f"nvshare-{os.getuid()}")
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise CommandError(f"cannot make {path}: {error.strerror}; set XDG_RUNTIME_DIR", EXIT_NVSHARE_FAILED) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise CommandError(f"{path} is not a private directory of this user; set XDG_RUNTIME_DIR", EXIT_NVSHARE_FAILED)
    return path


def is_answering(path: str) -> bool:
    """Whether a scheduler listens there. A full backlog counts as yes; no permission is an error."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except BlockingIOError:
            return True
        except PermissionError:
            raise CommandError(
                f"a scheduler listens at {path}, but this user has no permission to connect; use --private",
                EXIT_NVSHARE_FAILED,
            ) from None
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR, errno.ENOTSOCK):
                return False
            raise CommandError(f"cannot use {path}: {error.strerror or error}", EXIT_NVSHARE_FAILED) from None
    return True


def private_schedulers() -> list[SchedulerPaths]:
    """The running private schedulers of this user: the one for real GPUs first, then those of simulated GPUs."""
    try:
        runtime = runtime_directory()
        folders = [runtime, *sorted(runtime.glob("on-*"))]
        return [paths for folder in folders if is_answering((paths := SchedulerPaths(str(folder))).operator_socket)]
    except CommandError:
        return []

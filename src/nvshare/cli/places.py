"""Where schedulers are: the machine's, and those that users started for themselves."""

import errno
import os
import socket
import stat
import tempfile
from pathlib import Path

from nvshare.cli.failure import EXIT_OURS, FrontError
from nvshare.record import Record


class Place(Record, frozen=True):
    """Where a private scheduler lives."""

    directory: str

    @property
    def socket(self) -> str:
        return f"{self.directory}/clients/scheduler.sock"  # The scheduler opens this folder to all; ours stays shut.

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
    """This user's own directory for sockets; checked to be nobody else's."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/") and os.access(base, os.W_OK | os.X_OK):
        path = Path(base, "nvshare")
    else:
        path = Path(tempfile.gettempdir(), f"nvshare-{os.getuid()}")
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise FrontError(f"cannot make {path}: {error.strerror}; set XDG_RUNTIME_DIR", EXIT_OURS) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise FrontError(f"{path} is not a directory of this user's alone; set XDG_RUNTIME_DIR", EXIT_OURS)
    return path


def answers(path: str) -> bool:
    """Whether a scheduler listens there. A full backlog is an answer; no permission is an error."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as probe:
        try:
            probe.connect(path)
        except BlockingIOError:
            return True
        except PermissionError:
            raise FrontError(
                f"a scheduler is at {path}, but this user may not connect to it: ask for access, or use --private",
                EXIT_OURS,
            ) from None
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR, errno.ENOTSOCK):
                return False
            raise FrontError(f"{path} cannot be used: {error.strerror or error}", EXIT_OURS) from None
    return True


def private_places() -> list[Place]:
    """This user's private schedulers that answer: the one for real GPUs first, then those of simulated ones."""
    try:
        runtime = runtime_directory()
        folders = [runtime, *sorted(runtime.glob("on-*"))]
        return [place for folder in folders if answers((place := Place(str(folder))).operator_socket)]
    except FrontError:
        return []

"""Removes the directories of simulated cards, their schedulers and demonstrations when their last user has ended.

`nvshare run` becomes the program that it starts (exec), so there is no process left to remove them. Instead, every user
of such a directory holds a lock on a file in it, through a descriptor that the program inherits; the kernel releases it
when the program ends, for whatever reason. The private scheduler and the simulated driver hold locks there too. A
directory without a locked file is unused.

Unused directories are removed when a private scheduler has ended, and before a directory is entered: that finds what
killed programs left. A process that has made its directory but has not locked it yet must not lose it: it holds
`sweeping.lock` shared meanwhile, and the removal takes it exclusively. The removal never waits for that lock; the next
process that enters does it. A directory with a trace is kept, because the user asked for the trace."""

import contextlib
import fcntl
import os
import re
import shutil
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from nvshare.cli.errors import EXIT_NVSHARE_FAILED, CommandError
from nvshare.cli.run.scheduler_paths import runtime_directory

HIGH_DESCRIPTOR = 200
"""Programs may expect small descriptor numbers to be free; inherited ones get numbers from here on."""

_OURS = re.compile(r"(on|sim)-[0-9a-f]{8}|demo-[a-z0-9_]{8}")
_FLOCK = "hhqqi4x"  # struct flock of Linux: type, whence, start, length, pid


@contextlib.contextmanager
def entering(runtime: Path) -> Iterator[None]:
    """While this is open no directory is removed: make a directory and lock it inside."""
    sweep(runtime)
    descriptor = _open_sweeping(runtime)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def occupy(folder: Path) -> int:
    """Use the directory as long as the descriptor is open, in this process and in programs that it becomes."""
    descriptor = open_high(str(folder / "users.lock"))
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.set_inheritable(descriptor, True)
    return descriptor


@contextlib.contextmanager
def temporary_directory() -> Iterator[Path]:
    """A directory with a short path for cards and sockets, removed afterwards."""
    runtime = runtime_directory()
    with entering(runtime):
        folder = Path(tempfile.mkdtemp(prefix="demo-", dir=runtime))
        descriptor = occupy(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def open_high(path: str) -> int:
    """Open a file to lock, with a descriptor number of at least HIGH_DESCRIPTOR."""
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        return fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR)
    finally:
        os.close(opened)


def sweep(runtime: Path) -> None:
    """Remove unused directories, unless another process is entering one or removing them now."""
    descriptor = _open_sweeping(runtime)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for folder in runtime.iterdir():
            if _OURS.fullmatch(folder.name) and not (folder / "trace").exists() and not _is_used(folder):
                shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass  # Another process is entering, or a directory cannot be read: the next one does it.
    finally:
        os.close(descriptor)


def _open_sweeping(runtime: Path) -> int:
    path = runtime / "sweeping.lock"
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CommandError(f"cannot open {path}: {error.strerror}", EXIT_NVSHARE_FAILED) from None


def _is_used(folder: Path) -> bool:
    """Whether a process holds a lock on a file in it."""
    files = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return any(_is_locked(path) for path in files if path.is_file() and not path.is_symlink())


def _is_locked(path: Path) -> bool:
    """By flock, as schedulers and users do it, or on any byte, as the simulated driver does it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        question = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, question)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


if __name__ == "__main__":  # run when a private scheduler has ended
    with contextlib.suppress(CommandError):
        sweep(Path(sys.argv[1]))

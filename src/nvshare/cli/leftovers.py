"""Directories of simulated cards, their schedulers and demonstrations: each goes when its last user has gone.

`nvshare run` becomes the program that it starts, so nobody of ours is left to clear up after it. Instead every user of
such a directory holds a lock on a file in it, through a descriptor that the program inherits; the kernel lets go of it
however the program ends. The private scheduler and the simulated driver hold locks in there as well. A directory in
which no file is locked is nobody's.

Those are removed at two moments: when a private scheduler has ended, and before somebody enters a directory (which
finds what a kill, or a program that had no scheduler, left behind). A newcomer that has made its directory and not
locked it yet would be robbed: newcomers hold `sweeping.lock` together meanwhile, and who sweeps holds it alone. Nobody
waits to sweep; a newcomer will do it later. A directory with a trace in it is kept: somebody asked for the trace."""

import contextlib
import fcntl
import os
import re
import shutil
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from nvshare.cli.failure import EXIT_OURS, FrontError

HIGH_DESCRIPTOR = 200
"""Programs count on small descriptor numbers; the ones that they inherit from us are out of their way."""

_OURS = re.compile(r"(on|sim)-[0-9a-f]{8}|demo-[a-z0-9_]{8}")
_FLOCK = "hhqqi4x"  # struct flock of Linux: type, whence, start, length, pid


@contextlib.contextmanager
def entering(runtime: Path) -> Iterator[None]:
    """Until this ends nothing is swept: time to make a directory and to lock it."""
    sweep(runtime)
    descriptor = _open_sweeping(runtime)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def occupy(folder: Path) -> int:
    """Be a user of the directory for as long as the descriptor is open, here or in what we exec."""
    descriptor = open_high(str(folder / "users.lock"))
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    os.set_inheritable(descriptor, True)
    return descriptor


def open_high(path: str) -> int:
    """A file to lock, under a number that is in no program's way."""
    opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        return fcntl.fcntl(opened, fcntl.F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR)
    finally:
        os.close(opened)


def sweep(runtime: Path) -> None:
    """Remove what is nobody's any more, unless somebody is entering or sweeping right now."""
    descriptor = _open_sweeping(runtime)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for folder in runtime.iterdir():
            if _OURS.fullmatch(folder.name) and not (folder / "trace").exists() and not _is_used(folder):
                shutil.rmtree(folder, ignore_errors=True)
    except OSError:
        pass  # Somebody is entering, or a directory cannot be read: another time.
    finally:
        os.close(descriptor)


def _open_sweeping(runtime: Path) -> int:
    path = runtime / "sweeping.lock"
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise FrontError(f"cannot open {path}: {error.strerror}", EXIT_OURS) from None


def _is_used(folder: Path) -> bool:
    """Whether anybody holds a lock on a file in it."""
    files = (Path(at, name) for at, _, names in os.walk(folder) for name in names)
    return any(_is_locked(path) for path in files if path.is_file() and not path.is_symlink())


def _is_locked(path: Path) -> bool:
    """By flock, as the schedulers and we do it, or on any byte, as the simulated driver does it."""
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


if __name__ == "__main__":  # what a private scheduler's end runs
    with contextlib.suppress(FrontError):
        sweep(Path(sys.argv[1]))

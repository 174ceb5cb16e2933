"""Reads small files from directories in which somebody else may have put something else: a FIFO would block the
scheduler."""

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path) -> bytes:
    """The content of a regular file; OSError if it is something else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return file.read()

"""The standard streams of the command lines: in any locale, closed, and on a full disk."""

import errno
import io
import os
import sys

STREAMS = (("stdin", 0, os.O_RDONLY), ("stdout", 1, os.O_RDONLY), ("stderr", 2, os.O_WRONLY))
"""How each is opened if it is closed. What is written to a closed standard output must fail."""

NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def prepare() -> None:
    """Characters that the locale cannot write become `?`. A closed stream is opened, so that no file of ours gets its
    number; programs that are started find it closed."""
    for name, number, flags in STREAMS:
        if getattr(sys, name) is None:
            setattr(sys, name, _opened(number, flags))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def failure(error: OSError) -> str:
    """What to say if the output cannot be written. Any other error is raised again."""
    if error.errno not in NOT_WRITTEN or error.filename is not None:
        raise error
    discard()
    return f"cannot write the output: {error.strerror}"


def discard() -> None:
    """What is still to be written goes nowhere; Python would try it again at its end."""
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(null, 1)
    os.close(null)


def _opened(number: int, flags: int) -> io.TextIOWrapper:
    null = os.open(os.devnull, flags | os.O_CLOEXEC)
    if null != number:
        os.dup2(null, number, inheritable=False)
        os.close(null)
    return open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)

"""The order in which files appear in a directory and vanish from it, as the kernel saw it."""

import contextlib
import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

_CREATE, _DELETE = 0x100, 0x200
_HEADER = struct.Struct("iIII")
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def recorded(directory: Path) -> Iterator[Callable[[], list[tuple[str, str]]]]:
    """Inside the block the kernel records; the call gives what was recorded since the last one: ("+" or "-", name)."""
    descriptor = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert descriptor >= 0, os.strerror(ctypes.get_errno())
    try:
        assert _libc.inotify_add_watch(descriptor, os.fsencode(directory), _CREATE | _DELETE) >= 0, directory
        yield lambda: list(_events(descriptor))
    finally:
        os.close(descriptor)


def _events(descriptor: int) -> Iterator[tuple[str, str]]:
    while True:
        try:
            content = os.read(descriptor, 1 << 16)
        except BlockingIOError:
            return
        at = 0
        while at < len(content):
            _, mask, _, length = _HEADER.unpack_from(content, at)
            at += _HEADER.size + length
            yield "+" if mask & _CREATE else "-", content[at - length : at].rstrip(b"\0").decode()

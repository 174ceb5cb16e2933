"""Changes in directories, through inotify: no polling, and no other package."""

import asyncio
import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_ATTRIB, _MOVED_FROM, _MOVED_TO = 0x4, 0x40, 0x80
_CREATE, _DELETE, _DELETE_SELF, _MOVE_SELF = 0x100, 0x200, 0x400, 0x800
# ATTRIB too: when the source of a mount is removed, a change of the link count is the first event.
_MASK = _ATTRIB | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
_READ_BYTES = 65536

_libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """Calls back in the running loop after changes; one call may stand for several changes, and a call may be spurious.

    The caller checks the file system itself; which event it was is not passed on."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._descriptor = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._ready)

    def watch(self, path: Path) -> None:
        """Watch a directory; may be called again for the same one."""
        _checked(_libc.inotify_add_watch(self._descriptor, os.fsencode(path), _MASK))

    def close(self) -> None:
        """Stop calling back."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _ready(self) -> None:
        os.read(self._descriptor, _READ_BYTES)
        self._callback()


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result

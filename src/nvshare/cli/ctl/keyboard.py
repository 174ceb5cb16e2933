"""The keys of a terminal, one by one, without Enter."""

import contextlib
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from types import FrameType
from typing import Self

_SEQUENCES = {
    b"\x1b[A": "up", b"\x1bOA": "up", b"\x1b[B": "down", b"\x1bOB": "down", b"\x1b[5~": "page up",
    b"\x1b[6~": "page down", b"\x1b[H": "home", b"\x1b[F": "end", b"\x1b": "escape", b"\r": "enter",
    b"\n": "enter", b"\x7f": "backspace", b"\x08": "backspace", b"\x03": "q", b"\x04": "q",
}  # fmt: skip


def key_of(data: bytes) -> str:
    """The name of what was typed: a named key, or the character; empty for an unknown sequence."""
    if data in _SEQUENCES:
        return _SEQUENCES[data]
    text = data.decode("utf-8", "replace")
    return text if len(text) == 1 and text.isprintable() else ""


class Keyboard:
    """Waits for a key, a new window size or a call of `nudge` by another thread."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        self._before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin, termios.TCSADRAIN)
        self._handler = signal.signal(signal.SIGWINCH, self._resized)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGWINCH, self._handler)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)
        os.close(self._reading)
        os.close(self._writing)

    def nudge(self) -> None:
        """Make `wait` return; from any thread."""
        with contextlib.suppress(OSError):
            os.write(self._writing, b"!")

    def wait(self) -> Iterator[str]:
        """Wait; returns the typed keys, if any. A closed terminal gives `q`."""
        ready, _, _ = select.select([sys.stdin, self._reading], [], [])
        if self._reading in ready:
            with contextlib.suppress(OSError):
                os.read(self._reading, 4096)
        if sys.stdin in ready:
            data = os.read(sys.stdin.fileno(), 64)
            if not data:
                yield "q"
            elif data in _SEQUENCES or data.startswith(b"\x1b"):
                yield key_of(data)
            else:
                yield from (key_of(char.encode()) for char in data.decode("utf-8", "replace"))

    def _resized(self, number: int, frame: FrameType | None) -> None:
        self.nudge()

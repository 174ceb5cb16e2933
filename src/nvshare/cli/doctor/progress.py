"""What `nvshare doctor` is doing, while it does it."""

import sys
import threading
from typing import TextIO

from nvshare.cli.group import has_screen

PATIENCE_S = 2.0


class Progress:
    """Says on stderr what is being checked. On a terminal at once, and the next text replaces it. Elsewhere, as in a
    pipe or a log, as a line of its own, and only if the check has not ended within PATIENCE_S."""

    def __init__(self, stream: TextIO | None = None, patience_s: float = PATIENCE_S) -> None:
        self._stream = stream or sys.stderr
        self._has_screen = has_screen(self._stream)
        self._patience_s = patience_s
        self._overdue: threading.Timer | None = None

    def show(self, text: str) -> None:
        """The check that begins now; the one before it has ended."""
        self.end()
        if self._has_screen:
            self._write(text)
            return
        self._overdue = threading.Timer(self._patience_s, self._write, [f"{text}\n"])
        self._overdue.daemon = True
        self._overdue.start()

    def end(self) -> None:
        """No check is under way."""
        if self._overdue is not None:
            self._overdue.cancel()
        if self._has_screen:
            self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

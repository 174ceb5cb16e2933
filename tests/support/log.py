"""A process's output, read as it comes, so that a test can wait for a line instead of sleeping."""

import re
import threading
import time
from typing import IO


class LogReader:
    """Collects the lines of a pipe in a thread of its own."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._is_open = True
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def lines(self) -> list[str]:
        with self._changed:
            return list(self._lines)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def count(self, pattern: str) -> int:
        return sum(1 for line in self.lines if re.search(pattern, line))

    def wait_for(self, pattern: str, *, times: int = 1, timeout: float = 60) -> str:
        """The line, once it has come that many times."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                found = [line for line in self._lines if re.search(pattern, line)]
                if len(found) >= times:
                    return found[-1]
                left = deadline - time.monotonic()
                if left <= 0 or not self._is_open:
                    raise AssertionError(
                        f"{len(found)} of {times} lines like {pattern!r} in:\n" + "\n".join(self._lines)
                    )
                self._changed.wait(left)

    def wait_end(self, timeout: float = 60) -> None:
        """Until the process has closed its output."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._is_open, timeout), "the output goes on"

    def _read(self) -> None:
        for line in self._pipe:
            with self._changed:
                self._lines.append(line.decode("utf-8", "backslashreplace").rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._is_open = False
            self._changed.notify_all()

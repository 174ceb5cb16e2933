"""The scheduler's log: one line a step, in the text form that operators know or as JSON.

A line costs more than the step that it tells of. Above 50 lines in a second the rest of that second is one summary.
Complaints about peers are rationed by themselves, so that nobody can hide the steps behind them."""

import contextlib
import select
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import TextIO

import msgspec

from nvshare.scheduler.step import Step, client_name, clients_of, describe

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
MOST_LINES_A_SECOND = 50


class Log:
    """Writes lines to standard error. A line that cannot be written is dropped: neither a full disk nor a reader that
    sleeps may stop a GPU."""

    def __init__(self) -> None:
        self.stream: TextIO = sys.stderr
        self.level = "info"
        self.is_json = False
        self._second = 0
        self._lines: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self.call_later: Callable[[float, Callable[[], None]], object] | None = None
        """The event loop's, so that a summary comes even if nothing is logged after it."""

    def observe(self, step: Step) -> None:
        """A step at info, unless there are too many; reports of trouble at warning."""
        if LEVELS[self.level] > LEVELS["info"]:
            return
        for line in describe(step):
            self._rationed(line, step)

    def info(self, text: str) -> None:
        self._write("info", text)

    def debug(self, text: str) -> None:
        self._write("debug", text)

    def warning(self, text: str) -> None:
        self._write("warning", text)

    def error(self, text: str) -> None:
        self._write("error", text)

    def complain(self, text: str) -> None:
        """A peer at fault; rationed, because a peer can be at fault ten thousand times a second."""
        if self._may_write("rejected connections"):
            self._write("warning", text)

    def flush_summary(self) -> None:
        """Say what was left out of the last second."""
        if self._left_out:
            left_out, self._left_out = self._left_out, Counter()
            parts = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items()))
            self._write("info", f"In the last second also: {parts}")

    def _rationed(self, line: str, step: Step) -> None:
        if self._may_write("steps"):
            clients = [client_name(client) for client in sorted(clients_of(step))] if self.is_json else None
            self._write("info", line, clients)

    def _may_write(self, kind: str) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self.flush_summary()
            self._second = second
            self._lines.clear()
        self._lines[kind] += 1
        if self._lines[kind] > MOST_LINES_A_SECOND:
            if not self._left_out and self.call_later is not None:
                self.call_later(1, self.flush_summary)
            self._left_out[kind] += 1
            return False
        return True

    def _write(self, level: str, text: str, clients: list[str] | None = None) -> None:
        if LEVELS[level] < LEVELS[self.level]:
            return
        if self.is_json:
            record = {"time": time.time(), "level": level, "message": text}
            if clients:
                record["clients"] = clients
            line = msgspec.json.encode(record).decode()
        else:
            line = f"[NVSHARE][{level.upper()}]: {text}"
        if self._is_read():
            with contextlib.suppress(OSError, ValueError):
                self.stream.write(line + "\n")
                self.stream.flush()

    def _is_read(self) -> bool:
        """False while whoever should read our lines does not: then a line would be waited for, and every client too."""
        try:
            ready = select.poll()
            ready.register(self.stream.fileno(), select.POLLOUT)
            return bool(ready.poll(0))
        except (OSError, ValueError):  # not a file at all
            return True


log = Log()

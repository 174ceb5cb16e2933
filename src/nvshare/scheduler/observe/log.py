"""The scheduler's log: a line for each thing that a step did, as text or as JSON.

Writing a line costs more than the step. After 50 lines in a second, the rest of that second becomes one summary line.
Lines about faulty peers have a limit of their own, so that a peer cannot push the steps out of the log."""

import contextlib
import os
import select
import stat
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import TextIO

import msgspec

from nvshare.admin import client_name
from nvshare.journal import Step
from nvshare.scheduler.observe.step_text import clients_of, describe

LEVELS = {"debug": 20, "info": 20, "warning": 30, "error": 40}
MAX_LINES_A_SECOND = 50
PLACES = ("client", "viewer", "observer", "task", "journal", "event loop")
"""Where a defect can be. All have a counter from the start: Prometheus does not see the step of a series that begins
at 1."""


class Log:
    """Writes lines to standard error. A line that cannot be written is dropped: clients must not wait for a full disk
    or for a reader that does not read."""

    def __init__(self) -> None:
        self.stream: TextIO = sys.stderr
        self.level = "info"
        self.is_json = False
        self._has_stamps: bool | None = None
        self._second = 0
        self._lines: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()
        self.bugs: Counter[str] = Counter(dict.fromkeys(PLACES, 0))
        """Defects of the scheduler that did not end it, by where they occurred."""
        self.call_later: Callable[[float, Callable[[], None]], object] | None = None
        """The event loop's; writes the summary even if nothing is logged after it."""

    def observe(self, step: Step) -> None:
        """Each step at level info, unless there are too many. One that is left out is not put into words: that would
        cost as much as the core's part of the step."""
        self._begin_second()
        if self._lines["steps"] >= MAX_LINES_A_SECOND:
            self._leave_out("steps")
            return
        for line in describe(step):
            if not self._may_write("steps"):
                return
            clients = [client_name(client) for client in sorted(clients_of(step))] if self.is_json else None
            self._write("info", line, clients)

    def shows(self, level: str) -> bool:
        """Whether lines of this level are written."""
        return LEVELS[level] >= LEVELS[self.level]

    def info(self, text: str) -> None:
        self._write("info", text)

    def warning(self, text: str) -> None:
        self._write("warning", text)

    def error(self, text: str) -> None:
        self._write("error", text)

    def bug(self, where: str, what: str, error: BaseException | None) -> None:
        """A defect that did not end the scheduler: it is counted, and logged as long as there are not too many."""
        self.bugs[where] += 1
        if self._may_write("internal errors"):
            trace = "" if error is None else "".join(["\n", *traceback.format_exception(error)]).rstrip()
            self._write("error", f"A bug {what}, please report it: {error!r}{trace}")

    def complain(self, text: str) -> None:
        """A warning about a faulty peer; limited, because one peer can cause ten thousand of them in a second."""
        if self._may_write("rejected connections"):
            self._write("warning", text)

    def flush_summary(self) -> None:
        """Write how many steps and lines were left out of the last second."""
        if self._left_out:
            left_out, self._left_out = self._left_out, Counter()
            parts = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items()))
            self._write("info", f"In the last second also: {parts}")

    def _may_write(self, kind: str) -> bool:
        self._begin_second()
        if self._lines[kind] >= MAX_LINES_A_SECOND:
            self._leave_out(kind)
            return False
        self._lines[kind] += 1
        return True

    def _begin_second(self) -> None:
        second = int(time.monotonic())
        if second != self._second:
            self.flush_summary()
            self._second = second
            self._lines.clear()

    def _leave_out(self, kind: str) -> None:
        if not self._left_out and self.call_later is not None:
            self.call_later(1, self.flush_summary)
        self._left_out[kind] += 1

    def _write(self, level: str, text: str, clients: list[str] | None = None) -> None:
        if not self.shows(level):
            return
        if self.is_json:
            record = {"time": time.time(), "level": level, "message": text.encode(errors="backslashreplace").decode()}
            if clients:
                record["clients"] = clients
            line = msgspec.json.encode(record).decode()
        else:
            line = f"{self._stamp()}[NVSHARE][{level.upper()}]: {text}"
        if self._is_writable():
            with contextlib.suppress(OSError, ValueError):
                self.stream.write(line + "\n")
                self.stream.flush()

    def _stamp(self) -> str:
        """The time, in a file or on a terminal. journald and container runtimes read a socket or a pipe, and add the
        time themselves."""
        if self._has_stamps is None:
            self._has_stamps = _is_file_or_terminal(self.stream)
        return time.strftime("%Y-%m-%dT%H:%M:%S%z ") if self._has_stamps else ""

    def _is_writable(self) -> bool:
        """False while the pipe is full because its reader does not read: a write would block all clients."""
        try:
            ready = select.poll()
            ready.register(self.stream.fileno(), select.POLLOUT)
            return bool(ready.poll(0))
        except (OSError, ValueError):  # not a file
            return True


def _is_file_or_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty() or stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # not a file
        return False


log = Log()

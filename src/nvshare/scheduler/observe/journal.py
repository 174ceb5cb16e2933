"""Every step: the last ones in memory, all of them in a file if the setting `journal_file` names one. Figures of GPU
time and utilisation from which nothing followed are in the file only: in memory they would replace more useful steps.

A thread of its own writes the file, from a bounded queue. If the disk is slow or full, lines are lost and counted, and
no client waits. A file that reaches its largest size is renamed to NAME.1, and a new one is begun."""

import contextlib
import os
import queue
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path
from typing import IO

from nvshare.config import ConfigError
from nvshare.core.events import ClientLeft, ClientRegistered
from nvshare.journal import DaemonStart, Step, line_of
from nvshare.scheduler.observe.log import log

MAX_QUEUED = 20_000
COMPLAIN_S = 60.0
PARTS_PER_STEP = 4
"""Actions and claims kept in memory, on average for each step: a step can be about a thousand clients."""


class Journal:
    """The last steps, and the followers that get each new one."""

    def __init__(self, max_steps: int) -> None:
        self._steps: deque[Step] = deque()
        self._max_steps = max_steps
        self._max_parts = max_steps * PARTS_PER_STEP
        self._parts = 0
        self.count = 0
        """How many steps there have been; they are numbered from 0."""
        self._followers: list[Callable[[Step], None]] = []
        self.programs: dict[int, str] = {}
        """The names of the clients that have not left, or whose end is among the steps."""
        self._earlier_ends: Counter[int] = Counter()
        """Of an id that was given again: how many ends among the steps are those of earlier clients."""

    def observe(self, step: Step) -> None:
        steps = self._steps
        steps.append(step)
        self.count += 1
        self._parts += len(step.actions)
        if type(step.event) is ClientRegistered:
            self._parts += len(step.event.claims)
            self._earlier_ends[step.event.client] += step.event.client in self.programs
            self.programs[step.event.client] = step.event.name
        while len(steps) > self._max_steps or self._parts > self._max_parts:
            self._forget(steps.popleft())
        if self._followers:
            self._tell_followers(step)

    def _forget(self, step: Step) -> None:
        self._parts -= len(step.actions)
        if type(step.event) is ClientRegistered:
            self._parts -= len(step.event.claims)
        elif type(step.event) is ClientLeft:
            client = step.event.client
            if self._earlier_ends[client]:
                self._earlier_ends[client] -= 1
            else:
                del self._earlier_ends[client]
                self.programs.pop(client, None)

    def _tell_followers(self, step: Step) -> None:
        for follow in list(self._followers):
            try:
                follow(step)
            except Exception as error:  # A viewer's failure must not be the step's.
                self._followers.remove(follow)
                log.bug("viewer", "ended one view of the events", error)

    @property
    def first(self) -> int:
        """The number of the oldest step that is kept."""
        return self.count - len(self._steps)

    def step(self, number: int) -> Step | None:
        """None if it is not kept any more."""
        return self._steps[number - self.first] if number >= self.first else None

    def all(self) -> list[Step]:
        return list(self._steps)

    def follow(self, follower: Callable[[Step], None]) -> Callable[[], None]:
        """Call for each new step until the returned function is called."""
        self._followers.append(follower)

        def stop() -> None:
            with contextlib.suppress(ValueError):  # it has failed already
                self._followers.remove(follower)

        return stop


class JournalFile:
    """Writes the start of this daemon and its steps into a file, in the format of nvshare.journal.

    A line is written at once and as a whole, so that what could not be written is known line by line. `complain` is
    called with a warning when lines are lost, at most once in COMPLAIN_S."""

    def __init__(self, path: Path, max_bytes: int, complain: Callable[[str], None] = log.warning) -> None:
        self.lost = 0
        self._complain = complain
        self._complained_at = -COMPLAIN_S
        self._path = path
        self._max_bytes = max_bytes
        self._size = 0
        self._is_torn = False
        self._queue: queue.Queue[Step | DaemonStart | None] = queue.Queue(MAX_QUEUED)
        self._file: IO[bytes] | None = None
        try:
            self._open()
        except OSError as error:
            raise ConfigError(
                f"cannot write the journal file {path}: {error.strerror}; choose another --journal-file"
            ) from None
        self._thread = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._thread.start()

    def observe(self, entry: Step | DaemonStart) -> None:
        try:
            self._queue.put_nowait(entry)
        except queue.Full:
            self._lose("the disk is too slow")

    def close(self) -> None:
        """Write what is queued and end; gives up after a few seconds if the disk hangs."""
        try:
            self._queue.put(None, timeout=1)
        except queue.Full:
            return
        self._thread.join(timeout=2)

    def _write_all(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # They are for the main thread.
        while (entry := self._queue.get()) is not None:
            try:
                self._write(line_of(entry))
            except OSError as error:
                self._lose(error.strerror or "unknown error")
            except Exception as error:
                log.bug("journal", "kept a line out of the journal file", error)
                self._lose("internal error")
        if self._file is not None:
            self._file.close()

    def _write(self, line: bytes) -> None:
        if self._size and self._size + len(line) > self._max_bytes:
            self._rename()
        file = self._file or self._open()
        if self._is_torn:  # the disk was full in the middle of a line
            self._size += file.write(b"\n")
            self._is_torn = False
        written = file.write(line)
        self._size += written
        if written < len(line):
            self._is_torn = True
            self._lose("no space is left")

    def _rename(self) -> None:
        """If it fails, the size stays, and the next line tries it again: the file does not grow further."""
        if self._file is not None:
            self._file.close()
            self._file = None
        with contextlib.suppress(FileNotFoundError):  # somebody has removed it
            self._path.replace(self._path.with_name(self._path.name + ".1"))

    def _lose(self, reason: str) -> None:
        """Called from the journal's thread and from the event loop; a warning more or less does no harm."""
        self.lost += 1
        now = time.monotonic()
        if now - self._complained_at >= COMPLAIN_S:
            self._complained_at = now
            self._complain(f"The journal file {self._path} loses lines: {reason}; {self.lost} lost so far")

    def _open(self) -> IO[bytes]:
        self._file = self._path.open("ab", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size
        return self._file

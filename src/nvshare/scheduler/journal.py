"""Every step, remembered: the last ones in memory, all of them in a file if asked.

The file is written by a thread of its own behind a bounded queue. A disk that is slow or full costs lines, which are
counted, and never holds up a GPU. Beyond its size the file is renamed to NAME.1 and started anew."""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

import msgspec

from nvshare.config import ConfigError
from nvshare.core.actions import Action
from nvshare.core.events import ClientRegistered, Event
from nvshare.core.model import Settings
from nvshare.record import Record
from nvshare.scheduler.step import Step, clients_of

MOST_QUEUED = 20_000
PARTS_PER_STEP = 4
"""Actions and claims remembered for each step that may be, on average: some steps are about a thousand clients."""


class Journal:
    """The last steps, and who wants to hear of new ones."""

    def __init__(self, most_steps: int) -> None:
        self._steps: deque[Step] = deque()
        self._most_steps = most_steps
        self._parts = 0
        self._followers: list[Callable[[Step], None]] = []

    def observe(self, step: Step) -> None:
        self._steps.append(step)
        self._parts += _parts_of(step)
        while len(self._steps) > self._most_steps or self._parts > self._most_steps * PARTS_PER_STEP:
            self._parts -= _parts_of(self._steps.popleft())
        for follow in self._followers:
            follow(step)

    def last(self, count: int) -> list[Step]:
        """The newest steps, oldest first."""
        return list(self._steps)[-count:] if count else []

    def story(self, client: int) -> list[Step]:
        """All remembered steps that a client had a part in."""
        return [step for step in self._steps if client in clients_of(step)]

    def follow(self, follower: Callable[[Step], None]) -> Callable[[], None]:
        """Call for each new step until the returned function is called."""
        self._followers.append(follower)
        return lambda: self._followers.remove(follower)


def _parts_of(step: Step) -> int:
    event = step.event
    return len(step.actions) + (len(event.claims) if type(event) is ClientRegistered else 0)


class Beginning(Record, frozen=True):
    """How a daemon began: what a replay of its journal has to know besides the steps."""

    now: int
    settings: Settings
    epoch: int
    settles_at: int | None
    expects_pods: bool


class JournalFile:
    """Writes steps as JSON lines: `{"now": …, "event": {"ClientLeft": {…}}, "actions": [{"GiveLock": {…}}]}`.

    A daemon's steps follow a line that says how it began: `{"now": …, "daemon": {"settings": {…}, "epoch": …}}`.
    A line is written at once and as a whole, so that what could not be written is known line by line."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.lost = 0
        self._path = path
        self._most_bytes = most_bytes
        self._size = 0
        self._is_torn = False
        self._queue: queue.Queue[Step | Beginning | None] = queue.Queue(MOST_QUEUED)
        self._file: IO[bytes] | None = None
        try:
            self._open()
        except OSError as error:
            raise ConfigError(f"cannot write the journal file {path}: {error.strerror}") from None
        self._thread = threading.Thread(target=self._write_all, name="journal", daemon=True)
        self._thread.start()

    def observe(self, step: Step | Beginning) -> None:
        try:
            self._queue.put_nowait(step)
        except queue.Full:
            self.lost += 1

    def close(self) -> None:
        """Write what is queued and end; a disk that hangs is not waited for."""
        try:
            self._queue.put(None, timeout=1)
        except queue.Full:
            return
        self._thread.join(timeout=2)

    def _write_all(self) -> None:
        while (step := self._queue.get()) is not None:
            try:
                self._write(beginning_line(step) if isinstance(step, Beginning) else step_line(step))
            except OSError:
                self.lost += 1
        if self._file is not None:
            self._file.close()

    def _write(self, line: bytes) -> None:
        if self._file is not None and self._size + len(line) > self._most_bytes and self._size:
            self._file.close()
            self._file = None
            self._path.replace(self._path.with_name(self._path.name + ".1"))
        file = self._file or self._open()
        if self._is_torn:  # the disk was full in the middle of a line
            self._size += file.write(b"\n")
            self._is_torn = False
        written = file.write(line)
        self._size += written
        if written < len(line):
            self._is_torn = True
            self.lost += 1

    def _open(self) -> IO[bytes]:
        self._file = self._path.open("ab", buffering=0)
        self._size = os.fstat(self._file.fileno()).st_size
        return self._file


def beginning_line(beginning: Beginning) -> bytes:
    return msgspec.json.encode({"now": beginning.now, "daemon": beginning}) + b"\n"


def step_line(step: Step) -> bytes:
    """A step as one line of JSON that names the kinds of its event and actions."""
    return (
        msgspec.json.encode(
            {"now": step.now, "time": step.time, "event": _named(step.event), "actions": _all_named(step.actions)}
        )
        + b"\n"
    )


def _named(record: Event | Action) -> dict[str, object]:
    return {type(record).__name__: record}


def _all_named(actions: Iterable[Action]) -> list[dict[str, object]]:
    return [_named(action) for action in actions]

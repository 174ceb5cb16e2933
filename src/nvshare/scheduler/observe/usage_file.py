"""Stores the account of use (observe.usage) in a file, so that the next scheduler continues it.

    {"start": 1763337600, "seconds": 3600, "rows": [["1000", "default/p", "train", "GPU-...", {...}], ...]}

A line for each period. The file is written as a whole by a thread and renamed into place, every minute and at the end;
a scheduler that is killed loses the last minute. A line that cannot be read is skipped. If the file cannot be written,
the log reports it once an hour, and the account continues in memory."""

import asyncio
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from nvshare.config import Config
from nvshare.record import Record
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.usage import DAY_S, HOUR_S, MOST_ROWS, Period, Usage, Use
from nvshare.scheduler.regular_file import read_regular

USAGE_FILE = "usage.jsonl"
FRESH = ".new"
SAVE_S = 60.0
COMPLAIN_S = 3600.0
MAX_FILE_BYTES = 64 << 20
"""A larger file is not one of ours: 28,000 rows have less than 20 MB."""


class _Line(Record, frozen=True):
    start: int
    seconds: int
    rows: list[tuple[str, str, str, str, Use]]


_decode = msgspec.json.Decoder(_Line).decode


def lines_of(periods: Iterable[Period]) -> list[bytes]:
    return [_line_of(period) for period in periods if period.rows]


def _line_of(period: Period) -> bytes:
    if period.line is None:
        rows = [(*who, use) for who, use in period.rows.items()]
        period.line = msgspec.json.encode(_Line(period.start, period.seconds, rows))
    return period.line


def periods_of(lines: Iterable[bytes]) -> Iterator[Period | None]:
    """A period for each line; None for one that cannot be read."""
    for line in lines:
        try:
            read = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield None
            continue
        if read.seconds not in (HOUR_S, DAY_S) or read.start < 0 or read.start % read.seconds:
            yield None
            continue
        period = Period(read.start, read.seconds)
        for *who, use in read.rows[: MOST_ROWS + 64]:
            period.row((who[0], who[1], who[2], who[3])).add(use)
        yield period


class UsageFile:
    """The account, restored from the file of an earlier scheduler and saved."""

    def __init__(self, engine: Engine, config: Config) -> None:
        self.usage = Usage(engine.node.clients)
        self._engine = engine
        self._path = Path(config.usage_file or Path(config.operator_socket).with_name(USAGE_FILE))
        self._is_started = False
        self._thread = threading.Thread()
        self._complained_at = -COMPLAIN_S

    def start(self) -> None:
        """Restore, and count from now on."""
        self.restore()
        self._is_started = True
        for event, note in self.usage.notes.items():
            self._engine.observers_of[event].append(note)

    def restore(self) -> None:
        try:
            if self._path.stat().st_size > MAX_FILE_BYTES:
                raise OSError(0, "it is too large")
            periods = list(periods_of(read_regular(self._path).splitlines()))
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning(f"Cannot read the account of use from {self._path}: {error.strerror}; it begins again")
            return
        self.usage.restore(period for period in periods if period is not None)
        lost = periods.count(None)
        if lost:
            log.warning(f"{lost} lines of the account of use in {self._path} cannot be read and are left out")

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SAVE_S)
            self.save()

    def save(self) -> None:
        """Begin to write, unless the disk is so slow that the last time has not ended."""
        self._engine.follow_clock()
        now = self._engine.now()
        self._engine.count_gpu_time()
        self.usage.collect(now, self._engine.wall(now))
        if not self._thread.is_alive():
            lines = lines_of(self.usage.periods.values())
            self._thread = threading.Thread(target=self._write, args=(lines,), name="usage", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write, and give up after a few seconds if the disk hangs."""
        if self._is_started:
            if self._thread.ident is not None:
                self._thread.join(timeout=2)
            self.save()
            self._thread.join(timeout=2)

    def _write(self, lines: list[bytes]) -> None:
        fresh = self._path.with_name(self._path.name + FRESH)
        try:
            fresh.write_bytes(b"\n".join(lines))
            fresh.replace(self._path)
        except OSError as error:
            now = self._engine.now() / 1e9
            if now - self._complained_at >= COMPLAIN_S:
                self._complained_at = now
                log.warning(f"Cannot save the account of use in {self._path}: {error.strerror}")

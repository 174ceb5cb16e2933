"""How fast Python is on this machine at this moment: the floor of a step of the core.

The work is of the same kind as a step's: calls, records, dictionaries. It and the step that is measured take turns,
so that a busy machine slows both down."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from nvshare.record import Record


class Pair(Record, frozen=True):
    """A record as events and actions are."""

    key: int
    value: int


def work() -> int:
    """A few microseconds of ordinary Python."""
    table: dict[int, Pair] = {}
    for number in range(10):
        pair = Pair(number, number + 1)
        table[pair.key] = pair
    return sum(pair.value for pair in table.values())


@dataclass(frozen=True)
class Times:
    """Microseconds of one step and of the floor, batch by batch."""

    steps: list[float]
    floors: list[float]

    @property
    def ratio(self) -> float:
        """The usual ratio of neighbouring batches."""
        return median(step / floor for step, floor in zip(self.steps, self.floors, strict=True))


def time_us(call: Callable[[], object], *, steps: int, batch: int, batches: int) -> Times:
    """CPU time; a call makes so many steps."""
    found = Times([], [])
    for _ in range(batches):
        found.floors.append(_batch_us(work, batch))
        found.steps.append(_batch_us(call, batch) / steps)
    return found


def _batch_us(call: Callable[[], object], batch: int) -> float:
    started = time.thread_time_ns()
    for _ in range(batch):
        call()
    return (time.thread_time_ns() - started) / 1000 / batch

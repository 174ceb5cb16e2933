"""How soon a program of high priority gets a card that a batch job fills, and where that time goes.

    waited      from its request to the drop of the batch job's lock; this is decided in the step of the request
    drained     from the drop to the release of that lock: submitted work ends
    lock        from the request to the lock: waited + drained
    drain work  the part of it in kernels of the batch job: at most what pacing allows to be queued (decision 4)
    first       from the lock to the beginning of the first kernel: the program wakes up, its memory moves in
    kernel      from the request to that kernel: lock + first

The scheduler's journal and the card's trace use the same clock."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cards import BURST_KERNELS, GIB, KERNEL, KERNEL_MS, Card, Program
from bench.scheduler import scheduler
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.journal import Step, read

MOST_ANSWER_S = 0.6


@dataclass(frozen=True)
class Answer:
    waited_s: float
    drained_s: float
    drain_work_s: float
    first_s: float
    cause: str
    """Why the batch job's lock was dropped."""

    @property
    def lock_s(self) -> float:
        return self.waited_s + self.drained_s

    @property
    def kernel_s(self) -> float:
        """From the request to the beginning of the first kernel."""
        return self.lock_s + self.first_s

    def row(self) -> dict[str, Any]:
        parts = {"lock": self.lock_s, "waited": self.waited_s, "drained": self.drained_s}
        parts |= {"drain_work": self.drain_work_s, "first": self.first_s, "kernel": self.kernel_s}
        return {f"{name}_s": round(seconds, 3) for name, seconds in parts.items()}


def answered(*options: str, used: int = BURST_KERNELS, kernel_ms: int = KERNEL_MS) -> Answer:
    """The batch job has 12 GiB, the other program 4 GiB. The quantum is 60 s, unless the options say otherwise.
    The other program starts when `used` kernels of the batch job have begun. The first one populates its memory, which
    takes 4.4 s, and a kernel that runs cannot be stopped."""
    fixed = ("--switch-time-mode", "fixed", "--switch-time-fixed", "60")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        journal = Path(name) / "journal"
        card = Card(Path(name), kernel_ms=kernel_ms)
        started = scheduler(
            Path(name), "--nvml", "on", "--journal-file", str(journal), *fixed, *options, environment=card.bare
        )
        daemon = stack.enter_context(started)
        (batch,) = card.start(stack, daemon, [Program(size=12 * GIB)])
        while len(card.trace(batch).kernels(KERNEL)) < used:
            time.sleep(0.01)
        (pid,) = card.start(stack, daemon, [Program(size=4 * GIB, bursts=1, NVSHARE_PRIORITY=10)])
        ready = time.monotonic_ns()
        while not (kernels := card.trace(pid).kernels(KERNEL)):
            assert time.monotonic_ns() < ready + 50e9, "the program of high priority waits for the quantum"
            time.sleep(0.01)
        steps = [entry for _, entry in read(journal.read_bytes().splitlines()) if isinstance(entry, Step)]
        return answer_of(
            steps, [it.known_end_ns for it in card.trace(batch).kernels(KERNEL)], kernels[0].begin_ns, kernel_ms
        )


def answer_of(steps: Iterable[Step], batch_ends: Iterable[int], first_ns: int, kernel_ms: int) -> Answer:
    """From the scheduler's steps, the ends of the batch job's kernels, and the begin of the other's first kernel."""
    drop, dropped = next((step, it) for step in steps for it in step.actions if isinstance(it, ac.DropLock))
    asked = [it for it in steps if isinstance(it.event, ev.LockRequested) and it.event.client != dropped.client]
    given = next(it for it in steps if it.now >= drop.now and any(isinstance(one, ac.GiveLock) for one in it.actions))
    ended = sum(drop.now < end <= given.now for end in batch_ends)
    return Answer(
        (drop.now - asked[0].now) / 1e9,
        (given.now - drop.now) / 1e9,
        ended * kernel_ms / 1e3,
        (first_ns - given.now) / 1e9,
        dropped.cause,
    )

"""What one step of the core costs: `handle` and the `next_deadline` that follows it, with 10 to 1,000 clients on a GPU.

CPU time, in batches: the best batch is what the code costs, the median what it usually costs. The bound is a
multiple of what ordinary Python takes in the same run (python_floor). The goal: 10 µs at 10 clients, 15 µs at 1,000."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from bench import python_floor
from bench.verdict import bounded, goal
from nvshare.core import events as ev
from nvshare.core.actions import GiveLock
from nvshare.core.model import GIB, MIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node

CLIENTS = (10, 100, 1000)
WANTED_US = {10: 10.0, 100: 15.0, 1000: 15.0}
BATCH = 400
BATCHES = 25
GPU = "GPU-0"
HUGE = Memory(swappable=9 * GIB, contexts=1)


class Crowd:
    """Clients on one GPU that all want all of it: one runs, the rest wait."""

    def __init__(self, clients: int) -> None:
        self.node = Node(Settings(quantum=QuantumRule(mode="auto"), context_bytes=0), epoch=1)
        self.clients = clients
        self.now = 0
        self.holder = 0
        self.lock = 0
        self._flip = False
        self._do(ev.GpuFound(GPU, 10 * GIB))
        for client in range(1, clients + 1):
            self._do(ev.ClientRegistered(client, f"run/{client}", "", "", (Claim(GPU, 10 * GIB),)))
            self._do(ev.LockRequested(client, GPU, HUGE))

    def _do(self, event: ev.Event) -> None:
        self.now += 1
        for action in self.node.handle(self.now, event):
            if type(action) is GiveLock:
                self.holder, self.lock = action.client, action.lock
        self.node.next_deadline()

    def hand_over(self) -> None:
        """The holder gives the lock back and queues up; the next one has it."""
        self._do(ev.LockReleased(self.holder, GPU, self.lock, True))

    def grow(self) -> None:
        """A waiting client says how much memory it has now."""
        self._flip = not self._flip
        waiting = self.holder % self.clients + 1
        self._do(ev.MemoryChanged(waiting, GPU, Memory(swappable=9 * GIB + self._flip * MIB, contexts=1)))

    def pause(self) -> None:
        """The holder is idle for a moment, or busy again."""
        self._flip = not self._flip
        kind = ev.WorkFinished if self._flip else ev.WorkResumed
        self._do(kind(self.holder, GPU))

    def force(self) -> None:
        """The quantum ends and the holder must go: half of the steps are alarms, half are its release."""
        self.now += 400 * SECOND
        self._do(ev.AlarmRang())
        self.hand_over()

    def come_and_go(self) -> None:
        """A process starts and ends without ever asking for the GPU."""
        client = self.clients + 1
        self._do(ev.ClientRegistered(client, f"run/{client}", "", "", (Claim(GPU, 10 * GIB),)))
        self._do(ev.ClientLeft(client))


STEPS: dict[str, tuple[Callable[[Crowd], None], int, float]] = {
    "hand over": (Crowd.hand_over, 1, 12),
    "memory changed": (Crowd.grow, 1, 16),
    "idle or busy": (Crowd.pause, 1, 6.5),
    "forced switch": (Crowd.force, 2, 35),
    "come and go": (Crowd.come_and_go, 2, 36),
}
"""What is timed, how many steps one call makes, and the bound in multiples of the floor."""


def rows() -> list[dict[str, Any]]:
    """One row for each kind of step and number of clients."""
    found = []
    for clients in CLIENTS:
        crowd = Crowd(clients)
        gc.collect()
        for name, (call, steps, max_ratio) in STEPS.items():
            times = python_floor.time_us(partial(call, crowd), steps=steps, batch=BATCH, batches=BATCHES)
            row = {"bench": "core step", "step": name, "clients": clients}
            found.append(row | figures(times, WANTED_US[clients], max_ratio))
    return found


def figures(times: python_floor.Times, wanted_us: float, max_ratio: float) -> dict[str, Any]:
    """A row's figures and what they are compared with."""
    best = min(times.steps)
    row = {
        "best_us": round(best, 2),
        "median_us": round(median(times.steps), 2),
        "floor_us": round(min(times.floors), 2),
    }
    return row | bounded(times.ratio, 1, max_ratio) | {"wanted_us": wanted_us} | goal(best <= wanted_us)


if __name__ == "__main__":
    json.dump(rows(), sys.stdout, indent=1)

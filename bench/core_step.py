"""What one step of the core costs: `handle` and the `next_deadline` that follows it, with 10 to 1,000 clients on a GPU.

CPU time, not the clock's: neighbours on the machine do not count. Every kind of step is timed in batches; the best
batch is what the code costs, the median what it usually costs. Wanted: 10 µs at 10 clients, 15 µs at 1,000."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from nvshare.core import events as ev
from nvshare.core.actions import GiveLock
from nvshare.core.model import GIB, MIB, SECOND, Claim, Memory, Settings
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
        self.node = Node(Settings(context_bytes=0), epoch=1)
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


STEPS: dict[str, tuple[Callable[[Crowd], None], int]] = {
    "hand over": (Crowd.hand_over, 1),
    "memory changed": (Crowd.grow, 1),
    "idle or busy": (Crowd.pause, 1),
    "forced switch": (Crowd.force, 2),
    "come and go": (Crowd.come_and_go, 2),
}
"""What is timed, and how many steps one call makes."""


def time_us(crowd: Crowd, call: Callable[[Crowd], None], steps: int) -> list[float]:
    """Microseconds for one step, for each batch."""
    found = []
    for _ in range(BATCHES):
        started = time.thread_time_ns()
        for _ in range(BATCH):
            call(crowd)
        found.append((time.thread_time_ns() - started) / 1000 / BATCH / steps)
    return found


def rows() -> list[dict[str, Any]]:
    """One row for each kind of step and number of clients."""
    found = []
    for clients in CLIENTS:
        crowd = Crowd(clients)
        gc.collect()
        for name, (call, steps) in STEPS.items():
            times = time_us(crowd, call, steps)
            wanted = WANTED_US[clients]
            row = {"bench": "core step", "step": name, "clients": clients, "best_us": round(min(times), 2)}
            found.append(row | {"median_us": round(median(times), 2), "wanted_us": wanted, "ok": min(times) <= wanted})
    return found


def main() -> int:
    found = rows()
    if "--json" in sys.argv[1:]:
        print(json.dumps(found, indent=1))
    else:
        print(f"{'step':16} {'clients':>8} {'best µs':>8} {'median':>8} {'wanted':>8}")
        for row in found:
            print(
                f"{row['step']:16} {row['clients']:8} {row['best_us']:8.2f} {row['median_us']:8.2f}"
                f" {row['wanted_us']:8.1f}{'' if row['ok'] else '  missed'}"
            )
    return 0 if all(row["ok"] for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())

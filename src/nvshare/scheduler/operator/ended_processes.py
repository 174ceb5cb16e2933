"""Finds out which processes have ended that were a group of their own, and for which the operator gave orders.

A process without a connection may connect again, and keeps the orders until it has ended (core.limits.groups). Nothing
tells the scheduler of its end then, so those that are kept are looked at every SWEEP_S seconds."""

import asyncio

from nvshare.core.events import ProcessEnded
from nvshare.core.limits.group_names import PROCESS_PREFIX
from nvshare.scheduler.clients.identity import has_process_ended
from nvshare.scheduler.engine import Engine

SWEEP_S = 4.0
MAX_LOOKED_AT = 64
"""In one sweep; the others are looked at in the next ones."""


class EndedProcesses:
    """Tells the core of each such process that has ended."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next = 0

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self.sweep()

    def sweep(self) -> None:
        groups = self._engine.node.groups
        kept = [key for key, group in groups.items() if key.startswith(PROCESS_PREFIX) and not group.limits]
        first = self._next if self._next < len(kept) else 0
        self._next = first + MAX_LOOKED_AT
        for key in filter(has_process_ended, kept[first : self._next]):
            self._engine.post(ProcessEnded(key))

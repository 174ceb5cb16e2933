"""What clients of a world report of their GPU time."""

from abc import ABC, abstractmethod
from typing import Any

from core.driven_clients import DrivenClient
from core.naive import Naive
from core.world_orders import Pick
from nvshare.core import events as ev
from nvshare.core.model import MIB, MILLISECOND, SECOND

PATTERNS = [0, (1 << 256) - 1, (1 << 30) - 1, ((1 << 40) - 1) << 20, (1 << 256) - (1 << 100), 0b1001]
"""Nothing, all of the time, the beginning, the middle, the end, a little."""

MOVES = [0, 40 * MILLISECOND, 300 * MILLISECOND, 3 * SECOND, 1000 * SECOND]


class WorldWork(ABC):
    """A part of World."""

    now: int
    peers: dict[int, DrivenClient]
    naive: Naive

    @abstractmethod
    def step(self, event: ev.Event) -> None:
        """Something happens, and is checked."""

    @abstractmethod
    def _ring_until(self, then: int) -> None:
        """Time passes."""

    @abstractmethod
    def _some_seats(self, pick: Pick) -> list[tuple[DrivenClient, Any]]:
        """Some clients, and the GPU of each."""

    def report_gpu_time(self, pick: Pick) -> None:
        """With or without a lock; late, on time, or before it can be known."""
        for peer, gpu in self._some_seats(pick):
            first = max(0, self.now // MILLISECOND + pick([-2000, -512, -256, -256, -100, -100, -20, 0, 5]))
            count = pick([0, 1, 20, 100, 256])
            self.step(ev.GpuTimeReported(peer.id, gpu, first, count, pick(PATTERNS) & (1 << count) - 1))

    def work(self, pick: Pick) -> None:
        """Time passes, and those who hold locks report what they do; some work all the time, others less. They say for
        how long they moved memory in: true, or more than is believed."""
        habits = {client: pick(PATTERNS) for client in self.peers}
        for part in range(pick([2, 10])):
            self._ring_until(self.now + 250 * MILLISECOND)
            for uuid, gpu in self.naive.gpus.items():
                for seat in gpu.named("staying", "dropping"):
                    if not self.peers[seat.client].is_stopped:
                        first = max(0, self.now // MILLISECOND - 250)
                        busy = habits[seat.client] & (1 << 250) - 1
                        if part == 1:
                            self.step(ev.MemoryMoved(seat.client, uuid, False, MIB, MOVES[seat.client % len(MOVES)]))
                        self.step(ev.GpuTimeReported(seat.client, uuid, first, 250, busy))

"""The common part of the modes `adaptive` and `balanced`: they know clients' habits and the cost of moves."""

from nvshare.core.events import MemoryMoved
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import GIB, QuantumRule, Settings
from nvshare.core.modes.habits import Habits
from nvshare.core.modes.mode import Mode
from nvshare.core.turns.seat import Seat


class Learning(Mode):
    """A mode that learns from all it is told."""

    learns = True
    quantum_follows_queue = True
    needs_early_reports = True
    compares_first = False
    """See core.modes.habits."""

    def __init__(self, rule: QuantumRule, settings: Settings, memory: MemoryPlanner) -> None:
        super().__init__(rule, settings, memory)
        self.habits = Habits(self._link, compares_first=self.compares_first)

    def _link(self) -> int:
        """Bytes per second of the link, if all memory is moved in bulk."""
        return 0 if self._memory.by_faults else self._memory.link_bytes_per_s

    def switch_ns(self, seat: Seat, evicted_bytes: int) -> int:
        """What taking this idle holder's lock costs if that evicts so many bytes from the card.

        Until a cost or the holder's usual service is known, it is at least what the settings say. If the guess were too
        low, every stretch of work would bring memory in, and the cost could never be learned."""
        learned = self.habits.cost.of(evicted_bytes)
        habit = self.habits.of(seat)
        if self.habits.cost.is_known or (habit is not None and habit.usual_service is not None):
            return learned
        return max(learned, evicted_bytes * self._settings.move_ns_per_gib // GIB)

    def evicted_bytes(self, head: Seat) -> int:
        """Bytes of others that are evicted if the first in the queue is admitted."""
        return self.habits.evicted_bytes(head, self._memory.capacity)

    @property
    def move_cost_ns(self) -> int:
        return self.habits.cost.ns_per_gib

    # Facts.

    def turn_began(self, now: int, seat: Seat) -> None:
        self.habits.turn_began(now, seat, self._memory.capacity)

    def turn_ended(self, now: int, seat: Seat) -> None:
        self.habits.turn_ended(now, seat)

    def released_without_work(self, seat: Seat) -> None:
        self.habits.released_without_work(seat)

    def pause_began(self, now: int, seat: Seat) -> None:
        self.habits.pause_began(now, seat)

    def pause_ended(self, seat: Seat, pause_ns: int) -> None:
        self.habits.pause_ended(seat, pause_ns)

    def work_resumed(self, now: int, seat: Seat) -> None:
        self.habits.work_resumed(now, seat)

    def memory_moved(self, event: MemoryMoved) -> None:
        super().memory_moved(event)
        if self._measured.ns_per_gib is not None:
            self.habits.cost.set_measured(self._measured.ns_per_gib)

    def reports_changed(self) -> None:
        self.habits.reports_changed()

    def client_left(self, now: int, seat: Seat) -> None:
        self.habits.client_left(now, seat)

"""The common part of the modes `adaptive` and `balanced`: they know clients' habits and the cost of moves."""

from nvshare.core.events import MemoryMoved
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import QuantumRule, Settings
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
    guess_weight = 0.0
    """See core.modes.move_cost."""

    def __init__(self, rule: QuantumRule, settings: Settings, memory: MemoryPlanner) -> None:
        super().__init__(rule, settings, memory)
        self.habits = Habits(self._link, compares_first=self.compares_first, guess_weight=self.guess_weight)

    def _link(self) -> int:
        """Bytes per second of the link, if all memory is moved in bulk."""
        return 0 if self._memory.by_faults else self._memory.link_bytes_per_s

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

"""What happens when clients that should fit together slow each other down: a bound on trust in working sets.

A client reports how much of its memory it uses. The report may be wrong: its library cannot see every use, and a client
may lie. If the staying clients do not fit after all, they evict each other's memory, and their work takes many times
longer than usual. They report this (WorkSlowed). Then, if

    factor ≥ 4 * number of staying clients      clients that work at the same time share the GPU
    Σ swappable(staying) + fixed > size         their memory may be the reason
    the newest was admitted long enough ago     work is also slow while memory is moved in after a switch

the newest client whose need is less than its memory must leave, and for some time all of its memory counts: 1 min, and
twice as long each further time, up to 64 min."""

from nvshare.core.actions import Action
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import GIB, NEVER, SECOND, Settings
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns

LEAST_FACTOR = 4
ARRIVAL_NS = 2 * SECOND
"""After the admission of a client, work may be slow for this time + the time that moving its memory in takes."""
DISTRUST_NS = 60 * SECOND
MOST_DOUBLINGS = 6


class Thrashing:
    """Decides whose working set counts on one GPU."""

    def __init__(self, settings: Settings, turns: Turns, memory: MemoryPlanner) -> None:
        self._move_ns_per_gib = settings.move_ns_per_gib
        self._turns = turns
        self._memory = memory
        self._factor = 0
        """By how much work is slower than usual, as said in this step."""
        self._until: dict[int, int] = {}
        """Until when which clients are not trusted."""
        self.deadline = NEVER
        """When a client will be trusted again."""
        self.is_active = False
        """A client is not trusted, or was slowed down in this step; otherwise nothing is to be decided."""

    def slowed(self, seat: Seat, factor: int) -> None:
        if seat.state == "staying":
            self._factor = factor
            self.is_active = True

    def decide(self, now: int, out: list[Action]) -> None:
        if self._until:
            self._trust_again(now)
        if self._factor:
            factor, self._factor = self._factor, 0
            is_much = factor >= LEAST_FACTOR * len(self._turns.staying)
            newest = self._newest(now) if is_much and self._may_be_memory() else None
            if newest is not None:
                self._send_back(now, newest, out)
        self.is_active = bool(self._until)

    def _send_back(self, now: int, seat: Seat, out: list[Action]) -> None:
        seat.distrusts += 1
        self._until[seat.client] = now + (DISTRUST_NS << min(seat.distrusts - 1, MOST_DOUBLINGS))
        self.deadline = min(self._until.values())
        self._turns.reports.set_trusted(seat, False)
        self._turns.preempt(now, seat, "thrash", out)

    def _may_be_memory(self) -> bool:
        staying = self._turns.staying.values()
        memory = sum(seat.memory.swappable for seat in staying) + self._memory.fixed_bytes
        return len(staying) > 1 and memory > self._memory.size

    def _newest(self, now: int) -> Seat | None:
        """Of the staying clients, whose memory does not fit, some need less than they have."""
        staying = list(reversed(self._turns.staying.values()))
        if now - staying[0].held_since < ARRIVAL_NS + staying[0].need * self._move_ns_per_gib // GIB:
            return None
        return next(seat for seat in staying if seat.need < seat.memory.swappable)

    def _trust_again(self, now: int) -> None:
        seats = self._turns.seats
        for client, until in list(self._until.items()):
            if client not in seats or until <= now:
                del self._until[client]
                if client in seats:
                    self._turns.reports.set_trusted(seats[client], True)
        self.deadline = min(self._until.values(), default=NEVER)

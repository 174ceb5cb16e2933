"""Mode `balanced`: turns in proportion to memory, longer where moves are slow, shorter for clients that need little.

Its inputs are the cost of moving memory, measured by the mover or else learned (core.modes.move_cost), and the habits
of the clients (core.modes.habits). docs/decisions/0016 has the measurements and the purpose of each constant. `move` is
the time to move a GiB; `switch` the time to move the memory of the first in the queue in; `duty` is the share of its
time in which a client would use a GPU if it had one alone.

    quantum     quantum = GiB running * max(multiplier * 1 s, 25 * move), at most most_ns
                Shorter, by the first in the queue:
                    it never had a turn:        quantum ≤ 25 * switch
                    it releases without work:   quantum ≤ 25 * (2 * switch - its usual pause)
                At least 2 s, and twice the time that it took to move the memory of the running clients in: half of a
                turn is work. Until a cost is known, at least least_ns
    idle        an idle holder leaves at once if its usual pause ≥ switch, otherwise when it has been idle for the time
                of a switch: this costs at most twice the optimum
    queue       lag = 12 * last turn * (duty / 0.6)², at most 3 * most_ns
    switch      the client that was admitted first leaves first"""

from collections.abc import Collection, Iterable

from nvshare.core.model import GIB, SECOND
from nvshare.core.modes.habits import FIRST_GUESS_DUTY
from nvshare.core.modes.learning import Learning
from nvshare.core.seat import Seat

TURN_TO_COST = 25
"""Length of a turn / time of the move that it causes: moving takes about 4 % of the time."""
LEAST_NS = 2 * SECOND
LEAST_TO_LOAD = 2
LAG_FACTOR = 12
MAX_LAG = 3
"""In `most_ns`."""


class Balanced(Learning):
    """The rules above."""

    @property
    def longest_quantum_ns(self) -> int:
        return max(self.rule.least_ns, self.rule.most_ns)

    @property
    def longest_lag_ns(self) -> int:
        return MAX_LAG * self.rule.most_ns

    def quantum_ns(self, running: Collection[Seat], head: Seat | None, newcomers: int) -> int:
        rule, cost = self.rule, self.habits.cost
        if head is None:
            return rule.least_ns
        gibs = sum(seat.need + seat.memory.unswappable for seat in running) // GIB or 1
        quantum = gibs * max(rule.multiplier * SECOND, TURN_TO_COST * cost.ns_per_gib)
        quantum = min(quantum, self._visit_ns(head))
        return min(max(quantum, self._least_ns(running)), self.longest_quantum_ns)

    def _visit_ns(self, head: Seat) -> int:
        """After which time the first in the queue may be admitted because it will not stay for long."""
        switch_ns = self.habits.cost.of(self.evicted_bytes(head))
        habit = self.habits.of(head)
        if habit is None:
            return TURN_TO_COST * switch_ns
        if habit.released_without_work:
            return TURN_TO_COST * (2 * switch_ns - (head.usual_pause or 0))
        return self.rule.most_ns

    def _least_ns(self, running: Collection[Seat]) -> int:
        cost = self.habits.cost
        if not cost.samples:
            return self.rule.least_ns
        loaded = max((self.habits.loaded(seat) for seat in running), default=0)
        return max(LEAST_NS, LEAST_TO_LOAD * cost.of(loaded))

    def lag_ns(self, seat: Seat) -> int:
        habit = self.habits.of(seat)
        if habit is None:
            return 0
        return min(round(LAG_FACTOR * habit.last_turn * (habit.duty / FIRST_GUESS_DUTY) ** 2), self.longest_lag_ns)

    def idle_preempt_times(self, now: int, head: Seat, idle: Iterable[Seat]) -> list[int]:
        evicted = self.evicted_bytes(head)
        return [self._idle_preempt_time(seat, self.switch_ns(seat, evicted)) for seat in idle]

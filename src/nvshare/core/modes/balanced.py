"""Mode `balanced`, the default: moving memory takes a small part of the time, and short visits to the GPU come soon.

The mode uses the cost of moving memory, measured by the mover or else learned (core.modes.move_cost), and the habits of
the clients (core.modes.habits). docs/decisions/0016 has the measurements and what each constant is for.
`move` is the cost of a GiB. Until it is known, the most that it can cost counts, so that turns are long enough to
learn it; only before the first turn of a newcomer, which teaches something as well, the first guess counts.
`switch` is what bringing in the first in the queue costs the others, whose memory has to come back; `duty` is the share
of its time in which a client would use a GPU of its own.

    quantum     quantum = GiB running * max(multiplier * 1 s, 25 * move)
                Shorter, by the first in the queue:
                    it never had a turn:        quantum ≤ 12 * switch
                    it is a visitor:            quantum ≤ 12 * (2 * switch - its usual pause), or as long as it
                                                worked in its last turn if that is longer
                A visitor is a client whose last turn ended because it had no more work. A visitor that runs is not
                interrupted for another visitor before it has worked twice as long as in its last turn, unless its last
                turn was more than twice as long as that of the other
                At least 2 s, and twice the time to bring in the memory of the running clients: half of a turn is work.
                At most most_ns. If no client waits, least_ns
    idle        loss = switch * the part of the quantum that was left when the pause began, because the switch comes at
                the end of the quantum in any case. Until `move` is known, loss = switch.
                An idle holder leaves at once if its usual pause ≥ loss or loss ≤ cheap_switch_ns, otherwise when it has
                been idle for `loss`.
                This costs at most twice as much as the best choice in hindsight
    queue       lag = 20 * duty * last turn, at most 4 * all its turns, at most most_ns
    switch      the client that got its lock first leaves first"""

from collections.abc import Collection, Iterable

from nvshare.core.model import GIB, SECOND
from nvshare.core.modes.learning import Learning
from nvshare.core.modes.mode import Left
from nvshare.core.turns.seat import Seat

TURN_TO_MOVE = 25
"""Between clients that always have work, moving takes about 4 % of the time."""
VISIT_TO_COST = 12
"""Between visits it takes at most 8 %, beyond what pauses pay for. Nothing is known of a client before its first turn,
so that counts as a visit too."""
LEAST_NS = 2 * SECOND
LEAST_TO_LOAD = 2
LAG_FACTOR = 20
LAG_TO_HELD = 4
"""A client with few or short turns so far is not queued as late as one that had much, so a short job ends soon."""
VISITS_MAY_DIFFER = 2
"""Visits that are longer by more than this factor are interrupted for shorter ones. Up to it, a client that has begun a
visit finishes it: an interruption moves memory twice more, and ends no visit sooner on average."""


class Balanced(Learning):
    """The rules above."""

    compares_first = True

    @property
    def longest_quantum_ns(self) -> int:
        return max(self.rule.least_ns, self.rule.most_ns)

    @property
    def longest_lag_ns(self) -> int:
        return self.rule.most_ns

    def quantum_ns(self, running: Collection[Seat], head: Seat | None, newcomers: int) -> int:
        if head is None:
            return self.rule.least_ns
        cost = self.habits.cost
        move_ns = cost.ns_per_gib if self.habits.of(head) is None else cost.most_ns_per_gib
        gibs = sum(seat.need + seat.memory.unswappable for seat in running) // GIB or 1
        quantum = gibs * max(self.rule.multiplier * SECOND, TURN_TO_MOVE * move_ns)
        quantum = min(quantum, max(self._visit_ns(head, move_ns), self._finish_ns(head, running)))
        return min(max(quantum, self._least_ns(running, move_ns)), self.longest_quantum_ns)

    def _visit_ns(self, head: Seat, move_ns: int) -> int:
        """After which time the first in the queue gets the lock because it will not stay for long, or may not stay."""
        switch_ns = self.evicted_bytes(head) * move_ns // GIB
        habit = self.habits.of(head)
        if habit is None:
            return VISIT_TO_COST * switch_ns
        if habit.released_without_work:
            return max(VISIT_TO_COST * (2 * switch_ns - (head.usual_pause or 0)), habit.turn_busy)
        return self.rule.most_ns

    def _finish_ns(self, head: Seat, running: Collection[Seat]) -> int:
        """For how long visitors that run are not interrupted for another visitor."""
        visit = self._visit(head)
        visits = [self._visit(seat) for seat in running] if visit else []
        return VISITS_MAY_DIFFER * max((its for its in visits if its <= VISITS_MAY_DIFFER * visit), default=0)

    def _visit(self, seat: Seat) -> int:
        """How much of its last turn was work, if that was a visit; otherwise 0."""
        habit = self.habits.of(seat)
        if habit is None or not habit.released_without_work:
            return 0
        return habit.last_busy if seat.lock else habit.turn_busy

    def _least_ns(self, running: Collection[Seat], move_ns: int) -> int:
        loaded = max((self.habits.loaded(seat) for seat in running), default=0)
        return max(LEAST_NS, LEAST_TO_LOAD * loaded * move_ns // GIB)

    def lag_ns(self, seat: Seat) -> int:
        habit = self.habits.of(seat)
        if habit is None:
            return 0
        lag = round(LAG_FACTOR * habit.duty * habit.last_turn)
        return min(lag, LAG_TO_HELD * seat.held_total, self.longest_lag_ns)

    def idle_preempt_times(self, now: int, head: Seat, idle: Iterable[Seat], left: Left) -> list[int]:
        evicted = self.evicted_bytes(head)
        return [self._idle_preempt_time(seat, self._loss_ns(seat, evicted, left)) for seat in idle]

    def _loss_ns(self, seat: Seat, evicted: int, left: Left) -> int:
        """What the switch costs now, less what it would cost at the end of the quantum in any case. Until a cost is
        known, all of it: if holders left early, memory would be moved in during every stretch, and no cost could be
        learned."""
        assert seat.idle_since is not None, "an idle holder"
        cost = self.habits.cost
        switch_ns = evicted * cost.most_ns_per_gib // GIB
        return round(switch_ns * left(seat.idle_since)) if cost.is_known else switch_ns

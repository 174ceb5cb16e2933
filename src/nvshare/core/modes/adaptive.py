"""Mode `adaptive`: the quantum, pauses and the queue's order by what moving memory costs and by how each client works.

The cost of moving memory is learned (core.modes.move_cost), and so is what each client does with its turns
(core.modes.habits). docs/decisions/0008 says how the rules and their constants were found. `move` is the time to move a
GiB, `switch` the time to move the memory of the first in the queue in; `duty` is the share of its time in which a
client would use a GPU if it had one alone.

    quantum     quantum = GiB running * max(multiplier * 1 s, 125 * move), at most 5/4 * most_ns, at least least_ns.
                Shorter, by the first in the queue:
                    it never had a turn:            quantum ≤ 1000 s / newcomers, within 8 … 40 * switch
                    it releases without work:       quantum ≤ max(33 * (2 * switch - usual pause), 2 * its last turn)
                    its duty is below all running:  quantum * √(duty / least duty of the running)
    idle        the lock is taken at once if the rest of the usual pause ≥ switch, otherwise after the longest
                remembered pause + switch: the holder will probably have work soon
    queue       lag = 12 * last turn * (duty / 0.6)², at most 3 * most_ns
    switch      the client that has worked longest in its turn leaves first"""

from collections.abc import Collection, Iterable

from nvshare.core.model import GIB, SECOND
from nvshare.core.modes.habits import FIRST_GUESS_DUTY
from nvshare.core.modes.learning import Learning
from nvshare.core.modes.mode import Left
from nvshare.core.turns.seat import Seat

QUANTUM_TO_MOVE = 125
NEWCOMERS_NS = 1000 * SECOND
"""How long all clients together that never had a turn may wait for their first one."""
MIN_NEWCOMER_TO_SWITCH = 8
MAX_NEWCOMER_TO_SWITCH = 40
VISIT_TO_COST = 33
"""A visit, two switches, may cost 3 % of the quantum before it."""
VISIT_FACTOR = 2
LAG_FACTOR = 12
MAX_LAG = 3
"""In `most_ns`."""


class Adaptive(Learning):
    """The rules above, and what is known of this GPU's clients."""

    guess_weight = 0.44
    """As if work varied by a fifth, and the guess could be wrong by 0.3 s a GiB."""

    @property
    def longest_quantum_ns(self) -> int:
        return max(self.rule.least_ns, self._most_ns)

    @property
    def _most_ns(self) -> int:
        return self.rule.most_ns * 5 // 4

    @property
    def longest_lag_ns(self) -> int:
        return MAX_LAG * self.rule.most_ns

    def quantum_ns(self, running: Collection[Seat], head: Seat | None, newcomers: int) -> int:
        if head is None:
            return self.rule.least_ns
        switch_ns = self.habits.cost.of(self.evicted_bytes(head))
        return self.quantum_before(head, running, switch_ns=switch_ns, newcomers=newcomers)

    def quantum_before(self, head: Seat, running: Collection[Seat], *, switch_ns: int, newcomers: int) -> int:
        """The quantum of the running clients while `head` is the first in the queue."""
        rule, habits = self.rule, self.habits
        gibs = sum(seat.need + seat.memory.unswappable for seat in running) // GIB or 1
        quantum: float = gibs * max(rule.multiplier * SECOND, QUANTUM_TO_MOVE * habits.cost.ns_per_gib)
        quantum = min(quantum, self._most_ns)
        habit = habits.of(head)
        if habit is None:
            fair = NEWCOMERS_NS // max(1, newcomers)
            fair = max(MIN_NEWCOMER_TO_SWITCH * switch_ns, min(MAX_NEWCOMER_TO_SWITCH * switch_ns, fair))
            return max(rule.least_ns, round(min(quantum, fair)))
        if habit.released_without_work:
            unpaid = 2 * switch_ns - (head.usual_pause or 0)
            quantum = min(quantum, max(VISIT_TO_COST * unpaid, VISIT_FACTOR * habit.last_turn))
        least_duty = min(map(habits.duty, running), default=habit.duty)
        quantum *= min(1.0, habit.duty / least_duty) ** 0.5
        return max(rule.least_ns, round(quantum))

    def lag_ns(self, seat: Seat) -> int:
        habit = self.habits.of(seat)
        if habit is None:
            return 0
        return min(round(LAG_FACTOR * habit.last_turn * (habit.duty / FIRST_GUESS_DUTY) ** 2), self.longest_lag_ns)

    def leaving_order(self, now: int, staying: Iterable[Seat]) -> list[Seat]:
        return sorted(staying, key=lambda seat: self.habits.busy_in_turn(now, seat), reverse=True)

    def idle_preempt_times(self, now: int, head: Seat, idle: Iterable[Seat], left: Left) -> list[int]:
        evicted_bytes = self.evicted_bytes(head)
        return [self.idle_preempt_time(now, seat, self.switch_ns(seat, evicted_bytes)) for seat in idle]

    def switch_ns(self, seat: Seat, evicted_bytes: int) -> int:
        """What taking this idle holder's lock costs if that evicts so many bytes from the card.

        Until a cost or the holder's usual service is known, it is at least what the settings say. If the guess were too
        low, every stretch of work would bring memory in, and the cost could never be learned."""
        learned = self.habits.cost.of(evicted_bytes)
        habit = self.habits.of(seat)
        if self.habits.cost.is_known or (habit is not None and habit.usual_service is not None):
            return learned
        return max(learned, evicted_bytes * self._settings.move_ns_per_gib // GIB)

    def idle_preempt_time(self, now: int, seat: Seat, switch_ns: int) -> int:
        """From when on taking one idle holder's lock pays."""
        assert seat.idle_since is not None
        if switch_ns <= self._settings.cheap_switch_ns:
            return seat.idle_since
        usual = seat.usual_pause
        if usual is None:
            return seat.idle_since + switch_ns
        if usual - (now - seat.idle_since) >= switch_ns:
            return seat.idle_since
        return seat.idle_since + max(seat.pauses) + switch_ns

"""The rules of mode `adaptive`: how long a turn lasts, when an idle holder goes, who comes first and who leaves first.

All follow from what moving memory costs and from how each client works and pauses (core.habits, core.moving);
docs/decisions/0008 says how the rules and their numbers were found.

    quantum     as long as in mode auto, or 125 times as long as moving the running set's memory takes if that is more.
                Shorter if the first in the queue has never had a turn, so that it becomes known what it does. Shorter
                too if it usually gives the lock back by itself: what its coming and going cost, less the pause of its
                that others can use, stays below 3 %. Shorter once more if its duty is less than that of all who run, by
                the root of the ratio: who computes little needs the GPU for longer to get as far as the others.
    pauses      an idle holder goes at once if what is left of its usual pause is longer than the switch costs. If not,
                it is trusted to come back soon, until it has paused for longer than ever of late, and for the cost.
    queue       a place counts from the arrival, later by the last turn and the square of the client's duty: short turns
                and clients of short work come first, and are soon out of the way.
    switch      whoever has worked longest in its turn goes first."""

from collections.abc import Collection

from nvshare.core.habits import FIRST_GUESS_DUTY, Habits
from nvshare.core.model import GIB, SECOND, QuantumRule, Seat

TURN_TO_MOVE = 125
NEWCOMERS_NS = 1000 * SECOND
"""What those who have never had a turn may wait for it, all together."""
LEAST_NEWCOMER_TO_SWITCH = 8
MOST_NEWCOMER_TO_SWITCH = 40
VISIT_TO_COST = 33
"""A visit, there and back, may cost 3 % of the turn before it."""
VISIT_FACTOR = 2
LAG_FACTOR = 12
MOST_LAG = 3
"""In longest quanta."""


def longest_turn(rule: QuantumRule) -> int:
    return rule.most_ns * 5 // 4


def longest_lag(rule: QuantumRule) -> int:
    return MOST_LAG * rule.most_ns


def quantum(
    habits: Habits, rule: QuantumRule, head: Seat, running: Collection[Seat], *, switch_ns: int, newcomers: int
) -> int:
    """How long the running set stays although this client waits. `newcomers` of those who wait never had a turn."""
    gibs = sum(seat.memory.used for seat in running) // GIB or 1
    turn: float = gibs * max(rule.multiplier * SECOND, TURN_TO_MOVE * habits.cost.ns_per_gib)
    turn = min(turn, longest_turn(rule))
    habit = habits.of(head)
    if habit is None:
        fair = NEWCOMERS_NS // max(1, newcomers)
        fair = max(LEAST_NEWCOMER_TO_SWITCH * switch_ns, min(MOST_NEWCOMER_TO_SWITCH * switch_ns, fair))
        return max(rule.least_ns, round(min(turn, fair)))
    if habit.gave_up:
        unpaid = 2 * switch_ns - (head.usual_pause or 0)
        turn = min(turn, max(VISIT_TO_COST * unpaid, VISIT_FACTOR * habit.last_turn))
    least_duty = min(map(habits.duty, running), default=habit.duty)
    turn *= min(1.0, habit.duty / least_duty) ** 0.5
    return max(rule.least_ns, round(turn))


def lag(habits: Habits, rule: QuantumRule, seat: Seat) -> int:
    """By how much a client's place in the queue counts from later than its arrival."""
    habit = habits.of(seat)
    if habit is None:
        return 0
    return min(round(LAG_FACTOR * habit.last_turn * (habit.duty / FIRST_GUESS_DUTY) ** 2), longest_lag(rule))


def idle_cost(habits: Habits, seat: Seat, pushed_out: int, careful_ns_per_gib: int) -> int:
    """What a switch at this idle holder's expense costs. As long as neither the card nor the holder is known, what
    the settings say, if that is more: with a guess that is too low no stretch would ever be free of moving memory, and
    nothing could be learned."""
    learned = habits.cost.of(pushed_out)
    habit = habits.of(seat)
    if habits.cost.figures or (habit is not None and habit.usual_service is not None):
        return learned
    return max(learned, pushed_out * careful_ns_per_gib // GIB)


def pays_at(now: int, seat: Seat, switch_ns: int) -> int:
    """When taking an idle holder's lock pays."""
    assert seat.idle_since is not None
    usual = seat.usual_pause
    if usual is None:
        return seat.idle_since + switch_ns
    if usual - (now - seat.idle_since) >= switch_ns:
        return seat.idle_since
    return seat.idle_since + max(seat.pauses) + switch_ns


def first_to_go(now: int, habits: Habits, running: Collection[Seat]) -> Seat:
    return max(running, key=lambda seat: habits.busy_in_turn(now, seat))

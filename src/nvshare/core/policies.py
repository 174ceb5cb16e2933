"""In which order clients wait. A policy gives a client a rank when it starts to wait; the lowest rank is next.

    fcfs        rank = arrival
    priority    rank = arrival - 30 s * priority; the lock is taken from lower priorities at once (core.preemption)
    fair        rank = arrival + handicap       weights are proportions of held time: core.fair_shares

Every rank is an arrival time, shifted by a bounded handicap: of two clients, one that arrives more than `horizon_ns`
after the other has the higher rank. A mode may add a lag, which is bounded too. core.modes.mode states the longest wait
that follows."""

from collections.abc import Callable, Iterable

from nvshare.core.fair_shares import MAX_LEAD_NS, FairShares, Shares
from nvshare.core.model import SECOND
from nvshare.core.modes.mode import Mode
from nvshare.core.seat import Seat
from nvshare.record import Record

MAX_PRIORITY = 10
MIN_PRIORITY = -10
PRIORITY_STEP_NS = 30 * SECOND
"""One step of priority counts like having arrived this much earlier."""


class Policy(Record, frozen=True):
    """A rank function, and the most by which it can change the order of two arrivals."""

    rank: Callable[[int, Seat], int]
    horizon_ns: int
    shares: type[Shares] = Shares
    """What keeps account of what clients had."""
    adds_lag: bool = True
    """The mode's lag counts too. It depends on a client's last turn, so not where all its turns count."""
    preempts: bool = False
    """Who is outranked does not finish its quantum (core.preemption)."""


def _by_arrival(now: int, seat: Seat) -> int:
    return now


def _by_priority(now: int, seat: Seat) -> int:
    return now - max(MIN_PRIORITY, min(MAX_PRIORITY, seat.priority)) * PRIORITY_STEP_NS


def _by_share(now: int, seat: Seat) -> int:
    return now + seat.handicap


POLICIES: dict[str, Policy] = {
    "fcfs": Policy(_by_arrival, 0),
    "fair": Policy(_by_share, 2 * MAX_LEAD_NS, FairShares, adds_lag=False),
    "priority": Policy(_by_priority, (MAX_PRIORITY - MIN_PRIORITY) * PRIORITY_STEP_NS, preempts=True),
}


class Ranking:
    """The policy of one GPU, and what it knows of what clients had."""

    def __init__(self, policy: str) -> None:
        self._policy = POLICIES[policy]
        self.shares = self._policy.shares()
        self.horizon_ns = self._policy.horizon_ns
        """The longest of the policies that were in force: clients that wait arrived under an earlier one."""

    def set(self, policy: str, seats: Iterable[Seat]) -> None:
        """Shares start again, because held time is not counted under other policies. Nobody who runs is outranked: its
        rank was another policy's."""
        self._policy = POLICIES[policy]
        self.horizon_ns = max(self.horizon_ns, self._policy.horizon_ns)
        self.shares = self._policy.shares()
        for seat in seats:
            seat.tag = seat.handicap = 0
            seat.won_rank = seat.outranked_rank = None
            self.shares.restart(seat)

    @property
    def preempts(self) -> bool:
        return self._policy.preempts

    def handicap(self, seat: Seat) -> int:
        """By how much the policy moves the arrival of a client that waits."""
        return self._policy.rank(0, seat)

    def rank(self, now: int, seat: Seat, mode: Mode, *, from_rest: bool) -> int:
        """Of a client that starts to wait. One that was outranked in its turn has at least the rank that it had."""
        policy, kept = self._policy, seat.outranked_rank
        if self.shares.are_kept:
            self.shares.wait_began(now, seat, from_rest=from_rest)
        rank = policy.rank(now, seat)
        if policy.adds_lag:
            rank += mode.lag_ns(seat)
        if kept is None:
            return rank
        seat.outranked_rank = None
        return rank if from_rest else min(rank, kept)

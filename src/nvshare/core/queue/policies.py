"""In which order clients wait. A policy gives a client a rank when it starts to wait; the lowest rank is next.

    priority    rank = arrival - 30 s * priority                the default
    fair        rank = arrival - 30 s * priority + handicap     bills in proportion to weights: compute.fair_shares
    fcfs        rank = arrival                                  weights and priorities are ignored

Where priorities count, holders of lower priority must release their locks at once, unless they had waited 30 s for each
step of priority (queue.preemption). While nobody has a priority, `priority` is the same as `fcfs`.

Every rank is an arrival time that is shifted by a bounded time: of two clients, one that arrives more than `horizon_ns`
after the other has the higher rank. A mode may add a lag, which is bounded too. It adds none to a client with a
priority above 0, because the lag would outweigh the priority. core.modes.mode states the longest wait that follows."""

from collections.abc import Callable, Collection, Iterable

from nvshare.core.compute.fair_shares import MAX_LEAD_NS, FairShares, Shares
from nvshare.core.compute.gpu_time import GpuTime
from nvshare.core.model import SECOND
from nvshare.core.modes.mode import Mode
from nvshare.core.turns.seat import Seat
from nvshare.record import Record

MAX_PRIORITY = 10
MIN_PRIORITY = -10
PRIORITY_STEP_NS = 30 * SECOND
"""One step of priority counts like having arrived this much earlier."""
PRIORITIES_NS = (MAX_PRIORITY - MIN_PRIORITY) * PRIORITY_STEP_NS


class Policy(Record, frozen=True):
    """A rank function, and the most by which it can change the order of two arrivals."""

    rank: Callable[[int, Seat], int]
    horizon_ns: int
    shares: type[Shares] = Shares
    """What keeps account of what clients had."""
    adds_lag: bool = True
    """The mode's lag counts too. It depends on a client's last turn, so not where all its turns count."""
    preempts: bool = False
    """Priorities count: a client that is outranked does not finish its quantum (queue.preemption)."""


def _by_arrival(now: int, seat: Seat) -> int:
    return now


def _by_priority(now: int, seat: Seat) -> int:
    return now - max(MIN_PRIORITY, min(MAX_PRIORITY, seat.priority)) * PRIORITY_STEP_NS


def _by_share(now: int, seat: Seat) -> int:
    return _by_priority(now, seat) + seat.handicap


POLICIES: dict[str, Policy] = {
    "fcfs": Policy(_by_arrival, 0),
    "fair": Policy(_by_share, 2 * MAX_LEAD_NS + PRIORITIES_NS, FairShares, adds_lag=False, preempts=True),
    "priority": Policy(_by_priority, PRIORITIES_NS, preempts=True),
}


def weights_ignored(policy: str) -> str:
    """Why weights have no effect, for a user who has set one; empty if they count."""
    return (
        "" if POLICIES[policy].shares.are_kept else f"weights count only with policy fair, and the policy is {policy}"
    )


class Ranking:
    """The policy of one GPU, and what it knows of what clients had."""

    def __init__(self, policy: str, gpu_time: GpuTime) -> None:
        self._policy = POLICIES[policy]
        self._gpu_time = gpu_time
        self.fair_shares = self._policy.shares(gpu_time)
        self.horizon_ns = self._policy.horizon_ns
        """The longest of the policies that were in force: clients that wait arrived under an earlier one."""

    def set(self, policy: str, seats: Iterable[Seat]) -> None:
        """Shares start again, because turns are not billed under other policies. Clients that run now are not outranked
        in this turn, because their ranks are those of the earlier policy."""
        self._policy = POLICIES[policy]
        self.horizon_ns = max(self.horizon_ns, self._policy.horizon_ns)
        self.fair_shares = self._policy.shares(self._gpu_time)
        for seat in seats:
            seat.tag = seat.handicap = seat.lag_ns = 0
            seat.won_rank = seat.outranked_rank = None
            self.fair_shares.restart(seat)

    @property
    def preempts(self) -> bool:
        return self._policy.preempts

    def wait_began(self, now: int, seat: Seat, mode: Mode, *, from_rest: bool) -> None:
        """What counts for the rank of a client that starts to wait; then ask for its `rank`."""
        if self.fair_shares.are_kept:
            self.fair_shares.wait_began(now, seat, from_rest=from_rest)
        seat.lag_ns = mode.lag_ns(seat)

    def rank(self, arrival: int, seat: Seat) -> int:
        """Of a client that starts to wait at this time. The lag would outweigh a priority, where priorities count."""
        policy = self._policy
        lags = policy.adds_lag and not (policy.preempts and seat.priority > 0)
        return policy.rank(arrival, seat) + (seat.lag_ns if lags else 0)

    def shift_ns(self, seat: Seat) -> int:
        """By how much the policy, and the lag of the mode, shift the rank of a waiting client from its arrival."""
        return self.rank(0, seat)

    def would_return_first(self, now: int, leaving: Collection[Seat], head: Seat) -> bool:
        """The clients that would have to leave would be ahead of the first in the queue again (compute.fair_shares)."""
        assert head.rank is not None, "the first in the queue waits"
        return all(_by_priority(now, seat) + self.fair_shares.next_handicap(now, seat) < head.rank for seat in leaving)

"""In which order clients wait. A policy gives a client a rank when it starts to wait; the lowest rank is next.

    fcfs        rank = arrival
    priority    rank = arrival - 30 s * priority
    fair        rank = arrival + 2 * tag        tag: GPU time used * 100 / weight

Every rank is an arrival time moved by a bounded handicap: of two clients, one that arrives more than `horizon_ns`
after the other has the higher rank. A mode may add a lag of its own, bounded too. core.modes.mode states the longest
wait that follows."""

from collections.abc import Callable, Iterable, Mapping

from nvshare.core.model import DEFAULT_WEIGHT, SECOND
from nvshare.core.seat import Seat
from nvshare.record import Record

MAX_PRIORITY = 10
MIN_PRIORITY = -10
PRIORITY_STEP_NS = 30 * SECOND
"""One step of priority counts like having arrived this much earlier."""
MAX_LEAD_NS = 300 * SECOND
"""How far a client's tag may be ahead of the GPU's virtual time or behind it; more is cut off."""
LEAD_FACTOR = 2
"""How strongly a tag counts against time spent waiting. Above 1, so that weights show within a few turns."""


class Policy(Record, frozen=True):
    """A rank function, and the most by which it can change the order of two arrivals."""

    rank: Callable[[int, Seat], int]
    horizon_ns: int
    uses_tags: bool = False
    """The rank depends on Seat.tag, so a FairClock keeps it."""


def _by_arrival(now: int, seat: Seat) -> int:
    return now


def _by_priority(now: int, seat: Seat) -> int:
    return now - max(MIN_PRIORITY, min(MAX_PRIORITY, seat.priority)) * PRIORITY_STEP_NS


def _by_share(now: int, seat: Seat) -> int:
    return now + LEAD_FACTOR * seat.tag


POLICIES: dict[str, Policy] = {
    "fcfs": Policy(_by_arrival, 0),
    "fair": Policy(_by_share, 2 * LEAD_FACTOR * MAX_LEAD_NS, uses_tags=True),
    "priority": Policy(_by_priority, (MAX_PRIORITY - MIN_PRIORITY) * PRIORITY_STEP_NS),
}


class Ranking:
    """The policy of one GPU, and the clock of the tags if it uses them."""

    def __init__(self, policy: str) -> None:
        self._policy = POLICIES[policy]
        self.clock = FairClock() if self._policy.uses_tags else None
        self.horizon_ns = self._policy.horizon_ns
        """The longest of the policies that were in force: clients that wait arrived under an earlier one."""

    def set(self, policy: str, seats: Iterable[Seat]) -> None:
        """Tags start again, because GPU time is not counted under other policies."""
        self._policy = POLICIES[policy]
        self.horizon_ns = max(self.horizon_ns, self._policy.horizon_ns)
        self.clock = FairClock() if self._policy.uses_tags else None
        for seat in seats:
            seat.tag = 0

    def handicap(self, seat: Seat) -> int:
        """By how much the policy moves the arrival of a client that waits."""
        return self._policy.rank(0, seat)

    def rank(self, now: int, seat: Seat, staying: Mapping[int, Seat], *, from_rest: bool) -> int:
        """Of a client that starts to wait."""
        if self.clock is not None:
            self.clock.wait_began(now, seat, staying, from_rest=from_rest)
        return self._policy.rank(now, seat)


class FairClock:
    """The virtual time of one GPU, and the tags of its clients: start-time fair queueing.

    The virtual time is the tag of the client that has run longest. A client that comes from rest starts at it, so it
    neither gains from the time it did not want the GPU nor owes anything for it."""

    def __init__(self) -> None:
        self.virtual_now = 0

    def wait_began(self, now: int, seat: Seat, staying: Mapping[int, Seat], *, from_rest: bool) -> None:
        """Set a client's tag before it is ranked."""
        for holder in staying.values():
            ahead = holder.tag + (now - holder.held_since) * DEFAULT_WEIGHT // max(1, holder.weight)
            if ahead > self.virtual_now:
                self.virtual_now = ahead
            break
        lead = seat.tag - self.virtual_now
        if lead > MAX_LEAD_NS:
            seat.tag = self.virtual_now + MAX_LEAD_NS
        elif lead < 0 and from_rest:
            seat.tag = self.virtual_now
        elif lead < -MAX_LEAD_NS:
            seat.tag = self.virtual_now - MAX_LEAD_NS

    def turn_began(self, seat: Seat) -> None:
        if seat.tag > self.virtual_now:
            self.virtual_now = seat.tag

    def turn_ended(self, seat: Seat, held_ns: int) -> None:
        seat.tag += held_ns * DEFAULT_WEIGHT // max(1, seat.weight)

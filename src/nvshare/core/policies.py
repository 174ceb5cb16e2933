"""Who goes first. A policy gives a client that starts to wait its rank, once; the lowest rank is next.

Every rank here is an arrival time, moved by a bounded handicap. So under every policy no wait is unbounded: nobody
who arrives more than `horizon_ns` after a client can come before it. With n clients at a GPU, a quantum of at most Q
and a grace time of G, a client waits at most horizon + n * (Q + G); memory that grows during a switch may send one
more away, and adds at most one G."""

from collections.abc import Callable
from typing import Protocol

from nvshare.core.model import SECOND, Seat
from nvshare.record import Record

MOST_PRIORITY = 10
LEAST_PRIORITY = -10
PRIORITY_STEP_NS = 30 * SECOND
"""One step of priority is worth having arrived this much earlier."""
MOST_LEAD_NS = 300 * SECOND
"""How far ahead of, or behind, the others a client's GPU time per weight may count; the rest is forgiven."""
LEAD_FACTOR = 2
"""How strongly a lead counts against time spent waiting. Above 1, so that weights show within a few turns."""
USUAL_WEIGHT = 100


class FairClock(Protocol):
    """The GPU's virtual time: GPU time per weight of the client that runs."""

    virtual_now: int


class Policy(Record, frozen=True):
    """A rank function and how far it can move a client's place in time."""

    rank: Callable[[int, Seat, FairClock], int]
    horizon_ns: int


def _by_arrival(now: int, seat: Seat, clock: FairClock) -> int:
    return now


def _by_priority(now: int, seat: Seat, clock: FairClock) -> int:
    return now - max(LEAST_PRIORITY, min(MOST_PRIORITY, seat.priority)) * PRIORITY_STEP_NS


def _by_share(now: int, seat: Seat, clock: FairClock) -> int:
    seat.tag = max(clock.virtual_now - MOST_LEAD_NS, min(clock.virtual_now + MOST_LEAD_NS, seat.tag))
    return now + LEAD_FACTOR * seat.tag


def share(held_ns: int, weight: int) -> int:
    """GPU time per weight."""
    return held_ns * USUAL_WEIGHT // max(1, weight)


POLICIES: dict[str, Policy] = {
    "fcfs": Policy(_by_arrival, 0),
    "fair": Policy(_by_share, 2 * LEAD_FACTOR * MOST_LEAD_NS),
    "priority": Policy(_by_priority, (MOST_PRIORITY - LEAST_PRIORITY) * PRIORITY_STEP_NS),
}

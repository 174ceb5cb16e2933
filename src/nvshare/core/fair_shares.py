"""Policy fair: weights are proportions of the time for which clients hold the lock, among competing clients.

Theory of operation. Clients that wait or run compete. A client's tag grows by held time * 100 / weight. If all clients
have had their shares, all tags are equal. So the mean of the tags, weighted by the weights, is the right tag of each
client. A client whose tag is above it has had too much:

    handicap = (tag - mean of the others) * Σ weights of the others / 100        within ± MAX_LEAD_NS

This is the time after which the client will have no more than its share, if it gets no lock until then. It waits as if
it had arrived later by this time: rank = arrival + handicap. Time in which a client had no work counts as if it had had
its share, so a client cannot save up time.

    turn    ≤ max(LEAST_TURN_NS, MAX_LEAD_NS * weight / Σ weights of the others): one turn never exceeds the bound on
            the handicap
    end     if the quantum is over, and the clients that would have to leave would be ahead of the first in the queue
            again, they keep their locks, and memory does not move

With turns of at least LEAST_TURN_NS, proportions are kept up to 1 to MAX_LEAD_NS / LEAST_TURN_NS."""

from collections.abc import Collection

from nvshare.core.model import DEFAULT_WEIGHT, NEVER, SECOND
from nvshare.core.seat import Seat

MAX_LEAD_NS = 900 * SECOND
"""What a client may owe, or be owed; more is forgotten. With it the wait for a turn has a bound."""
LEAST_TURN_NS = 2 * SECOND


class Shares:
    """What core.turns tells and asks. The answers here are those of policies that do not look at what clients had."""

    are_kept = False
    """Whether turns are counted; otherwise nothing follows from being told, and turns are not bounded."""

    def wait_began(self, now: int, seat: Seat, *, from_rest: bool) -> None:
        """Called before the client is ranked."""

    def wait_resumed(self, now: int, seat: Seat) -> None:
        """The client waits again with the rank that it had."""

    def wait_ended(self, seat: Seat) -> None:
        """The client wants no turn any more."""

    def turn_began(self, now: int, seat: Seat) -> None:
        """With or without a wait."""

    def turn_ended(self, now: int, seat: Seat) -> None:
        """`held_since` is when it began."""

    def restart(self, seat: Seat) -> None:
        """The policy is new. The seat has no tag."""

    def longest_turn_ns(self, running: Collection[Seat]) -> int:
        return NEVER

    def would_return_first(self, now: int, leaving: Collection[Seat], head: Seat) -> bool:
        """The clients that would have to leave would be ahead of the first in the queue again."""
        return False

    def check(self, competing: set[int]) -> None:
        """What must hold, in full; for tests."""


class FairShares(Shares):
    """The tags of one GPU's clients. The sums are kept, so no question looks at every client."""

    are_kept = True

    def __init__(self) -> None:
        self._members: dict[int, tuple[int, int]] = {}
        """Who competes: the weight and the tag that count in the sums."""
        self._since: dict[int, int] = {}
        """Since when the running clients run."""
        self._weights = self._used = self._since_sum = 0
        self._virtual = 0
        """The right tag of every client, at the time when a client last ceased to compete."""

    def wait_began(self, now: int, seat: Seat, *, from_rest: bool) -> None:
        if self._members:
            mean = self._mean(now)
            lead = (seat.tag - mean) * self._weights // DEFAULT_WEIGHT
            lead = max(0 if from_rest else -MAX_LEAD_NS, min(MAX_LEAD_NS, lead))
            seat.tag, seat.handicap = mean + lead * DEFAULT_WEIGHT // self._weights, lead
        else:
            seat.tag, seat.handicap = max(seat.tag, self._virtual), 0
        self._enter(seat)

    def wait_resumed(self, now: int, seat: Seat) -> None:
        seat.tag = max(seat.tag, self._mean(now) if self._members else self._virtual)
        self._enter(seat)

    def wait_ended(self, seat: Seat) -> None:
        if seat.client in self._members:
            self._leave(seat)

    def turn_began(self, now: int, seat: Seat) -> None:
        if seat.client not in self._members:
            self._enter(seat)
        self._since[seat.client] = now
        self._since_sum += now

    def turn_ended(self, now: int, seat: Seat) -> None:
        self._virtual = max(self._virtual, self._mean(now))
        self._since_sum -= self._since.pop(seat.client)
        self._leave(seat)
        seat.tag += _growth(now, seat)

    def restart(self, seat: Seat) -> None:
        if seat.lock:
            self.turn_began(seat.held_since, seat)
        elif seat.state in ("waiting", "blocked"):
            self._enter(seat)

    def longest_turn_ns(self, running: Collection[Seat]) -> int:
        turns = [self._longest_turn_ns(seat) for seat in running]
        return max(LEAST_TURN_NS, max(turns, default=NEVER))

    def would_return_first(self, now: int, leaving: Collection[Seat], head: Seat) -> bool:
        assert head.rank is not None, "the first in the queue waits"
        return all(now + self._next_handicap(now, seat) < head.rank for seat in leaving)

    def check(self, competing: set[int]) -> None:
        assert set(self._members) == competing, "who waits or runs competes"
        assert self._weights == sum(weight for weight, _ in self._members.values())
        assert self._used == sum(weight * tag for weight, tag in self._members.values())
        assert self._since_sum == sum(self._since.values())

    def _enter(self, seat: Seat) -> None:
        weight = max(1, seat.weight)
        self._members[seat.client] = weight, seat.tag
        self._weights += weight
        self._used += weight * seat.tag

    def _leave(self, seat: Seat) -> None:
        weight, tag = self._members.pop(seat.client)
        self._weights -= weight
        self._used -= weight * tag

    def _mean(self, now: int) -> int:
        return (self._used + self._held(now)) // self._weights

    def _held(self, now: int) -> int:
        """What the running clients have had in their turns until now, as it counts in `_used`."""
        return DEFAULT_WEIGHT * (len(self._since) * now - self._since_sum)

    def _longest_turn_ns(self, seat: Seat) -> int:
        weight = self._members[seat.client][0]
        others = self._weights - weight
        return MAX_LEAD_NS * weight // others if others else NEVER

    def _next_handicap(self, now: int, seat: Seat) -> int:
        """What it would be if the client's turn ended now."""
        weight, tag = self._members[seat.client]
        others = self._weights - weight
        used = self._used - weight * tag + self._held(now) - DEFAULT_WEIGHT * (now - seat.held_since)
        lead = ((seat.tag + _growth(now, seat)) * others - used) // DEFAULT_WEIGHT
        return max(-MAX_LEAD_NS, min(MAX_LEAD_NS, lead))


def _growth(now: int, seat: Seat) -> int:
    """By how much its turn until now makes its tag grow."""
    return (now - seat.held_since) * DEFAULT_WEIGHT // max(1, seat.weight)

"""Policy fair: weights are proportions of what turns are billed (compute.turn_bills), among competing clients.

Theory of operation. Clients that wait or run compete, also those that are held back by their weights. A client that is
blocked for another reason (paused, core limit, host) or silent does not: it rests. A client's tag grows by bill * 100 /
weight. If all clients have had their shares, all tags are equal. So the mean of the tags, weighted by the weights, is
the right tag of each client. A client whose tag is above it has had too much:

    lead     = (tag - mean of the others) * Σ weights of the others / 100        within ± MAX_LEAD_NS
    handicap = lead * recent time / the part of it that was billed               within ± MAX_LEAD_NS

The handicap is the time after which the client will have no more than its share, if it gets no lock until then. It
waits as if it had arrived later by this time: rank = arrival + handicap. Time in which a client had no work counts as
if it had had its share, so a client cannot save up time:

    after a pause    lead ≥ -max(0, what it was owed when it ceased to compete - the pause)

So a program that is between two kernels when its turn ends keeps what it is owed, and after a long pause it is owed
nothing. A client that was blocked or silent also keeps its rank.

A turn ends before all its looks are divided. The tag then contains an estimate; the difference is added to it later.

    turn    ≤ max(LEAST_TURN_NS, MAX_LEAD_NS * weight / Σ weights of the others): one turn never exceeds the bound on
            the lead
    end     if the quantum is over, and the clients that would have to leave would be ahead of the first in the queue
            again, they keep their locks, and memory does not move

With turns of at least LEAST_TURN_NS, proportions are kept up to 1 to MAX_LEAD_NS / LEAST_TURN_NS."""

from collections.abc import Collection

from nvshare.core.compute.gpu_time import GpuTime
from nvshare.core.compute.turn_bills import TurnBills
from nvshare.core.model import DEFAULT_WEIGHT, NEVER, SECOND
from nvshare.core.turns.seat import Seat

MAX_LEAD_NS = 900 * SECOND
"""What a client may owe, or be owed; more is forgotten. With it the wait for a turn has a bound."""
LEAST_TURN_NS = 2 * SECOND


class Shares:
    """What core.turns tells and asks. The answers here are those of policies that do not look at what clients had."""

    are_kept = False
    """Whether turns are counted. If not, the calls below have no effect, and turns have no bound. The callers ask this
    first where turns and waits change: otherwise a hand-over takes 32 bytecodes and 4 calls more (decision 19)."""

    def __init__(self, gpu_time: GpuTime) -> None:
        gpu_time.bills = None

    def wait_began(self, now: int, seat: Seat, *, from_rest: bool) -> None:
        """Called before the client is ranked."""

    def wait_paused(self, now: int, seat: Seat) -> None:
        """The client is blocked or silent, and keeps its rank. Called again while it is, without effect."""

    def wait_resumed(self, now: int, seat: Seat) -> None:
        """The client waits again with the rank that it had, or competes although it is blocked."""

    def wait_ended(self, seat: Seat) -> None:
        """The client wants no turn any more."""

    def turn_began(self, now: int, seat: Seat) -> None:
        """With or without a wait."""

    def turn_ended(self, now: int, seat: Seat) -> None:
        """Called while the client still counts as a holder (compute.gpu_time)."""

    def moved_in(self, now: int, seat: Seat, took_ns: int) -> None:
        """A client moved its memory in, which took `took_ns`."""

    def queue_changed(self, now: int, *, is_waited_for: bool) -> None:
        """Called at the end of each step, with whether clients wait."""

    def reweigh(self, seat: Seat) -> None:
        """The weight of the client may have changed."""

    def restart(self, seat: Seat) -> None:
        """The policy is new. The seat has no tag."""

    def longest_turn_ns(self, running: Collection[Seat]) -> int:
        return NEVER

    def next_handicap(self, now: int, seat: Seat) -> int:
        """What the handicap of a running client would be if its turn ended now."""
        return NEVER

    def check(self, competing: dict[int, Seat]) -> None:
        """What must hold, in full; for tests."""


class FairShares(Shares):
    """The tags of one GPU's clients. The sums are kept, so no question looks at every client."""

    are_kept = True

    def __init__(self, gpu_time: GpuTime) -> None:
        super().__init__(gpu_time)
        self._bills = TurnBills(gpu_time)
        self._members: dict[int, tuple[int, int]] = {}
        """The competing clients: the weight and the tag of each, as they count in the sums."""
        self._weights = self._used = 0
        self._virtual = 0
        """The right tag of every client, at the time when a client last ceased to compete."""

    def wait_began(self, now: int, seat: Seat, *, from_rest: bool) -> None:
        if from_rest:  # Otherwise its turn has just ended.
            self._book(now, seat)
        if self._members:
            mean, lead = self._mean_and_lead(now, seat)
            least = -max(0, seat.owed_until - now) if from_rest else -MAX_LEAD_NS
            lead = max(least, min(MAX_LEAD_NS, lead))
            seat.tag, seat.handicap = mean + lead * DEFAULT_WEIGHT // self._weights, self._handicap(lead)
        else:
            seat.tag, seat.handicap = max(seat.tag, self._virtual), 0
        self._enter(seat)

    def wait_paused(self, now: int, seat: Seat) -> None:
        if seat.client in self._members:
            self._stop(now, seat)

    def wait_resumed(self, now: int, seat: Seat) -> None:
        if seat.client in self._members:
            return
        self._book(now, seat)
        if self._members:
            owed = max(0, seat.owed_until - now)
            seat.tag = max(seat.tag, self._mean_of_others(now, seat) - owed * DEFAULT_WEIGHT // self._weights)
        else:
            seat.tag = max(seat.tag, self._virtual)
        self._enter(seat)

    def wait_ended(self, seat: Seat) -> None:
        if seat.client in self._members:
            self._leave(seat)

    def turn_began(self, now: int, seat: Seat) -> None:
        if seat.client not in self._members:
            self._enter(seat)
        self._bills.turn_began(now, seat)

    def turn_ended(self, now: int, seat: Seat) -> None:
        self._stop(now, seat)

    def moved_in(self, now: int, seat: Seat, took_ns: int) -> None:
        self._bills.moved_in(now, seat, took_ns)

    def queue_changed(self, now: int, *, is_waited_for: bool) -> None:
        self._bills.queue_changed(now, is_waited_for=is_waited_for)

    def reweigh(self, seat: Seat) -> None:
        if seat.client in self._members and self._members[seat.client][0] != max(1, seat.weight):
            self._leave(seat)
            self._enter(seat)

    def restart(self, seat: Seat) -> None:
        seat.billed_ns = seat.turn_bill_ns = seat.bill_ns
        seat.lent_ns = seat.owed_until = 0
        if seat.lock or seat.is_waiting:  # Blocked clients that compete are entered next (queue.blocking).
            self._enter(seat)

    def longest_turn_ns(self, running: Collection[Seat]) -> int:
        turns = [self._longest_turn_ns(seat) for seat in running]
        return max(LEAST_TURN_NS, max(turns, default=NEVER))

    def check(self, competing: dict[int, Seat]) -> None:
        assert self._members.keys() == competing.keys(), "clients that wait or run compete, and blocked ones do not"
        assert self._weights == sum(weight for weight, _ in self._members.values())
        assert self._used == sum(weight * tag for weight, tag in self._members.values())
        assert self._bills.open_ns == sum(seat.bill_ns - seat.billed_ns for seat in competing.values())

    def _enter(self, seat: Seat) -> None:
        weight = max(1, seat.weight)
        self._members[seat.client] = weight, seat.tag
        self._weights += weight
        self._used += weight * seat.tag
        self._bills.open_for(seat)

    def _leave(self, seat: Seat) -> None:
        weight, tag = self._members.pop(seat.client)
        self._weights -= weight
        self._used -= weight * tag
        self._bills.close_for(seat)

    def _stop(self, now: int, seat: Seat) -> None:
        """It competes no more. What it is owed now lasts for as long."""
        self._virtual = max(self._virtual, self._mean(now))
        self._leave(seat)
        self._book(now, seat)
        seat.owed_until = now
        if self._members:
            seat.owed_until += min(MAX_LEAD_NS, -self._mean_and_lead(now, seat)[1])

    def _book(self, now: int, seat: Seat) -> None:
        """Adds the part of the bill that the tag does not contain yet."""
        seat.tag += self._bills.book(now, seat) * DEFAULT_WEIGHT // max(1, seat.weight)

    def _mean(self, now: int) -> int:
        return (self._used + DEFAULT_WEIGHT * self._bills.all_unbooked_ns(now)) // self._weights

    def _mean_of_others(self, now: int, seat: Seat) -> int:
        """The mean of all competing clients. `seat` is not one of them yet, and its tag contains its whole bill."""
        unbooked = self._bills.all_unbooked_ns(now) - (seat.billed_ns - seat.bill_ns)
        return (self._used + DEFAULT_WEIGHT * unbooked) // self._weights

    def _mean_and_lead(self, now: int, seat: Seat) -> tuple[int, int]:
        mean = self._mean_of_others(now, seat)
        return mean, (seat.tag - mean) * self._weights // DEFAULT_WEIGHT

    def _longest_turn_ns(self, seat: Seat) -> int:
        weight = self._members[seat.client][0]
        others = self._weights - weight
        return MAX_LEAD_NS * weight // others if others else NEVER

    def next_handicap(self, now: int, seat: Seat) -> int:
        weight, tag = self._members[seat.client]
        others = self._weights - weight
        unbooked = self._bills.unbooked_ns(now, seat)
        of_others = DEFAULT_WEIGHT * (self._bills.all_unbooked_ns(now) - unbooked)
        used = self._used - weight * tag + of_others
        lead = ((seat.tag + unbooked * DEFAULT_WEIGHT // max(1, seat.weight)) * others - used) // DEFAULT_WEIGHT
        return self._handicap(lead)

    def _handicap(self, lead: int) -> int:
        return max(-MAX_LEAD_NS, min(MAX_LEAD_NS, self._bills.stretched(lead)))

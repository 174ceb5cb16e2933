"""What the turns of one GPU's clients are billed with policy fair (docs/decisions/0017): work, and idleness that keeps
others waiting. At each look (core.gpu_time) one of these is divided:

    somebody is busy                    in equal parts among those who are: the GPU time
    nobody is, and a client waits       in equal parts among those who hold a lock, but for the first START_LOOKS of
                                        a turn, in which the client wakes up and submits its first work

    bill = Σ parts - time in which the client moved its memory in, as it reports it; a turn costs at least nothing

`stretched` is the time in which so much is billed, as it was lately while clients waited.

While memory moves in, work waits for it on the GPU and looks busy. A turn of a light client has as much to move as one
of a heavy client. If that were billed, the light one would have less than its share of the work. So moves are nobody's.

A client that reports no looks is busy while it holds a lock (core.gpu_time): its bill is the held time."""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from nvshare.core.gpu_time import Chunk, GpuTime, Looks
from nvshare.core.look_bits import LOOK_NS, ones, ones_from, split
from nvshare.core.seat import Seat

START_LOOKS = 50
RECENT_LOOKS = 60_000
LEAST_RECENT_LOOKS = 1000
"""Before so many all time counts as billed."""
MOST_STRETCHED = 64


class TurnBills:
    """`seat.bill_ns` is what a client was billed for the looks that are divided up; it may be corrected downwards."""

    def __init__(self, gpu_time: GpuTime) -> None:
        self._gpu_time = gpu_time
        self._waited = 0
        """The looks at which a client waited and that are not divided up: bit 0 is look `_first`."""
        self._first = 0
        self._waits_since: int | None = None
        self._open: set[int] = set()
        self.open_ns = 0
        """What the clients that compete were billed since their last account (`seat.billed_ns`)."""
        self._passed = self._paid = 0
        """Looks at which a client waited lately, and those of them that somebody paid for."""
        gpu_time.bills = self

    def queue_changed(self, now: int, *, is_waited_for: bool) -> None:
        """Whether clients wait, at the end of each step."""
        if is_waited_for == (self._waits_since is not None):
            return
        look = -(-now // LOOK_NS)
        if self._waits_since is not None:
            self._waited |= ones_from(self._waits_since, self._first, max(0, look - self._first))
        self._waits_since = look if is_waited_for else None

    def are_constant(self, entries: Iterable[Looks], first: int) -> bool:
        """All looks from this one on are billed alike, as far as is known now."""
        is_changed = self._waited >> max(0, first - self._first) or (self._waits_since or 0) > first
        return not is_changed and all(entry.started + START_LOOKS <= first for entry in entries)

    def charge(self, chunk: Chunk, times: int = 1) -> None:
        """Looks that are divided up, each once, and as many again as if they were the same, until there were so many
        times of them."""
        for entry, part in zip(chunk.entries, chunk.parts(0), strict=True):
            self._add(entry, part * times)
        waited = self._take_waited(chunk.first, chunk.looks)
        if waited:
            self._charge_idle(chunk, waited, times)
        self._first += chunk.looks * (times - 1)

    def _charge_idle(self, chunk: Chunk, waited: int, times: int) -> None:
        busy = reduce(or_, chunk.counts)
        idle = [_idle_holder(entry, chunk.first, chunk.looks) & waited & ~busy for entry in chunk.entries]
        for entry, part in zip(chunk.entries, split(idle), strict=True):
            self._add(entry, part * times)
        if self._passed > RECENT_LOOKS:
            self._passed, self._paid = RECENT_LOOKS // 2, self._paid * RECENT_LOOKS // (2 * self._passed)
        self._passed += waited.bit_count() * times
        self._paid += (reduce(or_, idle) | (busy & waited)).bit_count() * times

    def _take_waited(self, first: int, looks: int) -> int:
        """At which of these looks a client waited; earlier ones are forgotten."""
        self._waited >>= max(0, first - self._first)
        waited = (self._waited | ones_from(self._waits_since, first, looks)) & ones(looks)
        self._waited >>= looks
        self._first = first + looks
        return waited

    def _add(self, entry: Looks, part: int) -> None:
        seat = entry.seat
        if seat is not None:
            seat.bill_ns += part
            if seat.client in self._open:
                self.open_ns += part

    # A client.

    def bill_ns(self, now: int, seat: Seat) -> int:
        """Until now, with an estimate for the looks that are not divided up."""
        ahead = self._gpu_time.ahead_ns(now, seat)  # May divide looks up.
        return seat.bill_ns + ahead

    def turn_began(self, now: int, seat: Seat) -> None:
        seat.turn_bill_ns = self.bill_ns(now, seat)

    def moved_in(self, now: int, seat: Seat, took_ns: int) -> None:
        """Memory moved in during the turn, up to now."""
        took_ns = min(took_ns, now - seat.held_since) // max(1, self._gpu_time.holders)
        credit = max(0, min(took_ns, self.bill_ns(now, seat) - seat.turn_bill_ns))
        seat.bill_ns -= credit
        self._paid -= credit // LOOK_NS
        if seat.client in self._open:
            self.open_ns -= credit

    def unsettled_ns(self, now: int, seat: Seat) -> int:
        """What its account does not contain yet."""
        return self.bill_ns(now, seat) - seat.billed_ns

    def settle(self, now: int, seat: Seat) -> int:
        """Put it into the account; how much it was. Not while the client competes."""
        unsettled = self.unsettled_ns(now, seat)
        seat.billed_ns += unsettled
        return unsettled

    # All clients that compete.

    def open_for(self, seat: Seat) -> None:
        self._open.add(seat.client)
        self.open_ns += seat.bill_ns - seat.billed_ns

    def close_for(self, seat: Seat) -> None:
        self._open.discard(seat.client)
        self.open_ns -= seat.bill_ns - seat.billed_ns

    def all_unsettled_ns(self, now: int) -> int:
        """Of all who compete; looks that are not divided up count as busy."""
        return self.open_ns + self._gpu_time.undivided_ns(now)

    def stretched(self, bill_ns: int) -> int:
        passed, paid = (max(0, looks) + LEAST_RECENT_LOOKS for looks in (self._passed, self._paid))
        return bill_ns * min(max(paid, passed), MOST_STRETCHED * paid) // paid


def _idle_holder(entry: Looks, first: int, looks: int) -> int:
    """At which looks a client holds a lock and has had the time to begin its work."""
    start = ones(max(0, entry.started + START_LOOKS - first)) & ~ones(max(0, entry.started - first))
    return (entry.held | ones_from(entry.since, first, looks)) & ones(looks) & ~start

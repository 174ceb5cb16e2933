"""What clients of one GPU are billed for their turns with policy fair (docs/decisions/0017): work, and idleness that
keeps others waiting. Each look (compute.gpu_time) is divided:

    some clients are busy               in equal parts among the busy clients: the GPU time
    none is busy, and a client waits    in equal parts among the holders, except in the first START_LOOKS of a turn,
                                        in which the client wakes up and submits its first work

    bill = Σ parts - time in which the client moved its memory in, as it reports it; the bill of a turn is at least 0,
           and MOVE_NS_PER_GIB is the most that a move is worth, once between two turns of other clients

`stretched` is the time that it takes, lately and while clients wait, until a given amount is billed.

While memory moves in, work waits for it on the GPU and looks busy. A turn of a light client has as much to move as a
turn of a heavy client. If moves were billed, the light client would have less than its share of the work. So they are
not billed.

A client that reports no looks counts as busy while it holds a lock (compute.gpu_time): its bill is the held time."""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from nvshare.core.compute.gpu_time import Chunk, GpuTime
from nvshare.core.compute.look_bits import LOOK_NS, ones, ones_from, split
from nvshare.core.compute.looks import START_LOOKS, Looks
from nvshare.core.model import GIB, SECOND
from nvshare.core.turns.seat import Seat

RECENT_LOOKS = 60_000
LEAST_RECENT_LOOKS = 1000
"""Until a client has waited at this many looks, all time counts as billed."""
MOST_STRETCHED = 64
MOVE_NS_PER_GIB = SECOND // 2
"""Clients report moves in bulk only. The slowest that were measured are those of memory mode checkpoint, 2.2 GB/s
(docs/decisions/0032)."""


class TurnBills:
    """`seat.bill_ns` is what a client was billed for the looks that are divided. A report of a move makes it less."""

    def __init__(self, gpu_time: GpuTime) -> None:
        self._gpu_time = gpu_time
        self._waited = 0
        """The looks at which a client waited and that are not divided yet: bit 0 is look `_first`."""
        self._first = 0
        self._waits_since: int | None = None
        self._last_began = 0
        """The client whose turn began last."""
        self._open: set[int] = set()
        self.open_ns = 0
        """What competing clients were billed, beyond what their tags contain (`seat.billed_ns`)."""
        self._passed = self._paid = 0
        """The recent looks at which a client waited, and how many of them were billed."""
        gpu_time.bills = self

    def queue_changed(self, now: int, *, is_waited_for: bool) -> None:
        """Called at the end of each step, with whether clients wait."""
        if is_waited_for == (self._waits_since is not None):
            return
        self._gpu_time.divide(now)
        if self._gpu_time.upto > self._first:  # Otherwise there would be a bit for each millisecond since then.
            self._waited >>= self._gpu_time.upto - self._first
            self._first = self._gpu_time.upto
        look = -(-now // LOOK_NS)
        if self._waits_since is not None:
            self._waited |= ones_from(self._waits_since, self._first, max(0, look - self._first))
        self._waits_since = look if is_waited_for else None

    def are_constant(self, entries: Iterable[Looks], first: int) -> bool:
        """As far as is known now, all looks from this one on are billed in the same way."""
        is_changed = self._waited >> max(0, first - self._first) or (self._waits_since or 0) > first
        return not is_changed and all((entry.since or 0) + START_LOOKS <= first for entry in entries)

    def charge(self, chunk: Chunk, times: int = 1) -> None:
        """Bills the looks of a chunk, as if the same looks had come `times` times in succession."""
        for entry, part in zip(chunk.entries, chunk.parts(0), strict=True):
            self._add(entry, part * times)
        waited = self._take_waited(chunk.first, chunk.looks)
        if waited:
            self._charge_idle(chunk, waited, times)
        self._first += chunk.looks * (times - 1)
        for index, entry in enumerate(chunk.entries):
            if entry.seat is not None and entry.seat.lent_ns:
                self._cover(entry.seat, chunk, index, times)

    def _cover(self, seat: Seat, chunk: Chunk, index: int, times: int) -> None:
        """Looks of the turn for which time was lent are divided. Lent time that they do not cover is billed again."""
        part = chunk.parts(seat.lent_from, seat.lent_until)[index]
        seat.lent_ns -= min(seat.lent_ns, part * min(times, max(1, seat.lent_until - chunk.first)))
        if self._first >= seat.lent_until:
            self._credit(seat, -seat.lent_ns)
            seat.lent_ns = 0

    def _charge_idle(self, chunk: Chunk, waited: int, times: int) -> None:
        busy = reduce(or_, chunk.counts)
        idle = [entry.may_idle(chunk.first, chunk.looks) & waited & ~busy for entry in chunk.entries]
        for entry, part in zip(chunk.entries, split(idle), strict=True):
            self._add(entry, part * times)
        if self._passed > RECENT_LOOKS:
            self._passed, self._paid = RECENT_LOOKS // 2, self._paid * RECENT_LOOKS // (2 * self._passed)
        self._passed += waited.bit_count() * times
        self._paid += (reduce(or_, idle) | (busy & waited)).bit_count() * times

    def _take_waited(self, first: int, looks: int) -> int:
        """At which of these looks a client waited. These and earlier looks are forgotten."""
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

    # One client.

    def bill_ns(self, now: int, seat: Seat) -> int:
        """The bill until now, with an estimate for the looks that are not divided yet."""
        self._gpu_time.divide_for(now, seat)
        return seat.bill_ns + max(self._gpu_time.ahead_ns(now, seat), seat.lent_ns)

    def turn_began(self, now: int, seat: Seat) -> None:
        seat.turn_bill_ns = self.bill_ns(now, seat)
        if self._last_began != seat.client:  # Otherwise no client has had a turn since, and its memory is still there.
            self._last_began, seat.credit_ns = seat.client, 0

    def moved_in(self, now: int, seat: Seat, took_ns: int) -> None:
        """The client has moved memory in during this turn, for `took_ns` until now."""
        took_ns = min(took_ns, now - seat.held_since) // max(1, self._gpu_time.holders)
        most = seat.memory.swappable * MOVE_NS_PER_GIB // GIB - seat.credit_ns
        credit = max(0, min(took_ns, most, self.bill_ns(now, seat) - seat.turn_bill_ns))
        divided = max(0, seat.bill_ns + seat.lent_ns - seat.turn_bill_ns)
        if credit > divided:
            if not seat.lent_ns:
                seat.lent_from = -(-seat.held_since // LOOK_NS)
            seat.lent_ns += credit - divided
            seat.lent_until = -(-(now if seat.lock else seat.last_ran) // LOOK_NS)
        seat.credit_ns += credit
        self._credit(seat, credit)

    def _credit(self, seat: Seat, credit: int) -> None:
        seat.bill_ns -= credit
        self._paid -= credit // LOOK_NS
        if seat.client in self._open:
            self.open_ns -= credit

    def unbooked_ns(self, now: int, seat: Seat) -> int:
        """The part of the bill that its tag does not contain yet."""
        return self.bill_ns(now, seat) - seat.billed_ns

    def book(self, now: int, seat: Seat) -> int:
        """Marks this part as contained in the tag, and returns it. Not called while the client competes."""
        unbooked = self.unbooked_ns(now, seat)
        seat.billed_ns += unbooked
        return unbooked

    # All competing clients.

    def open_for(self, seat: Seat) -> None:
        self._open.add(seat.client)
        self.open_ns += seat.bill_ns - seat.billed_ns

    def close_for(self, seat: Seat) -> None:
        self._open.discard(seat.client)
        self.open_ns -= seat.bill_ns - seat.billed_ns

    def all_unbooked_ns(self, now: int) -> int:
        """The same of all competing clients; looks whose reports are still to come count as busy."""
        self._gpu_time.divide(now)
        return self.open_ns + self._gpu_time.undivided_ns(now)

    def stretched(self, bill_ns: int) -> int:
        passed, paid = (max(0, looks) + LEAST_RECENT_LOOKS for looks in (self._passed, self._paid))
        return bill_ns * min(max(paid, passed), MOST_STRETCHED * paid) // paid

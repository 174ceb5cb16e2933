"""How long the work of each client kept one GPU busy.

Clients check once per millisecond whether they have unfinished work, all at the same instants, and report the results
(GpuTimeReported). Such a check is called a look. So the core knows for each look which clients were busy:

    GPU time of a client = Σ over the looks at which it was busy: LOOK_NS / number of clients that were busy then

The GPU gives equal slices to clients that have work at the same time, so this is the time that each of them had. A look
that a holder has not reported within REPORT_LOOKS counts as busy: an old library, or one that reports nothing, is
charged for the time in which it holds the lock. A report without a lock counts too (work that was not drained in time).
A client that has nothing to do says so once (a report of no looks): it is not busy until it reports again.

Looks are bits of integers: bit j is look `upto` + j. When they are divided up makes a difference: to the estimate for
those that are not, and to the sums if more than MOST_APART clients were busy. So only events divide them up
(GpuTimeAsked before the state is read): `estimate_ns`, `ahead_ns` and the percentages change nothing."""

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from nvshare.core.compute.check_pace import CLIENT_PAUSE_NS, CROWD
from nvshare.core.compute.look_bits import LOOK_NS, ones, ones_from, split
from nvshare.core.compute.looks import Looks
from nvshare.core.compute.recent_use import WINDOW_NS, RecentUse
from nvshare.core.model import NEVER, SECOND
from nvshare.core.turns.seat import Seat

if TYPE_CHECKING:
    from nvshare.core.compute.turn_bills import TurnBills

REPORT_LOOKS = 512
"""A look counts as not reported when it is this many looks ago: a report has up to 256 looks, and may come late."""
WAKE_LOOKS = 250
LEAST_LOOKS, MOST_LOOKS = 64, 4096
"""How many looks are divided at once. With fewer, each report would cost a visit to every client. More than this are
divided at once only if all have the same answer: a step after a silence of days costs no more than another one."""
FAR_BEHIND = 1024
"""Looks are divided LEAST_LOOKS at a time while there are core limits or weights (`observer`): what a group had is
spread over all looks that are divided together. If more than this many are to be divided and all have the same answer,
they are divided at once: a step after a pause would visit all clients many times."""


class Chunk:
    """So many looks from `first` on: when each client counts as busy, and what it had of them."""

    __slots__ = ("_parts", "_sums", "counts", "entries", "first", "looks")

    def __init__(self, entries: list[Looks], counts: list[int], parts: list[int], first: int, looks: int) -> None:
        self.entries, self.counts, self.first, self.looks = entries, counts, first, looks
        self._parts = parts
        self._sums: dict[str, tuple[int, int]] | None = None
        """By group, made when asked for. Each of many groups is asked about, so all are added at once."""

    def parts(self, begin: int, end: int = NEVER) -> list[int]:
        """What each client had, of the looks from `begin` to before `end`."""
        first, last = max(0, begin - self.first), min(self.looks, end - self.first)
        if first == 0 and last == self.looks:
            return self._parts
        return split([(count & ones(max(0, last))) >> first for count in self.counts])

    def used(self, group: str, begin: int) -> tuple[int, int]:
        """What the clients of a group had together from look `begin` on, and the looks at which one was busy. If that
        is not the first look: in proportion to these looks, so that groups that begin at different looks cost no
        more."""
        if self._sums is None:
            self._sums = self._by_group()
        used, busy = self._sums.get(group, (0, 0))
        if begin <= self.first or not busy:
            return used, busy
        later = busy & ~ones(begin - self.first)
        return used * later.bit_count() // busy.bit_count(), later

    def _by_group(self) -> dict[str, tuple[int, int]]:
        sums: dict[str, tuple[int, int]] = {}
        for entry, count, part in zip(self.entries, self.counts, self._parts, strict=True):
            used, busy = sums.get(entry.group, (0, 0))
            sums[entry.group] = used + part, busy | count
        return sums


class GpuTime:
    """Of one GPU. `seat.gpu_ns` is a client's sum, `busy_ns` the time in which any client was busy."""

    def __init__(self) -> None:
        self.busy_ns = 0
        self._recent = RecentUse(kept_ns=2 * WINDOW_NS, spacing_ns=SECOND // 4)
        self.holders = 0
        self.upto = 0
        """All looks before this one are divided up."""
        self._busy_until = 0
        """The end of the last look at which a client was busy."""
        self._looks: list[Looks] = []
        self._lately: tuple[int, Chunk | None] = 0, None
        """Until when the chunk of `lately_pending` counts."""
        self.observer: Callable[[Chunk], None] | None = None
        """Is told of looks when they are divided up (compute.compute_shares)."""
        self.bills: TurnBills | None = None
        """Is told of the same looks, with policy fair."""

    def pending(self, now: int) -> "Chunk":
        """The looks that are not divided up."""
        looks = max(0, now // LOOK_NS + 1 - self.upto)
        counts = [entry.counts(self.upto, looks) for entry in self._looks]
        return Chunk(list(self._looks), counts, split(counts), self.upto, looks)

    def lately_pending(self, now: int) -> "Chunk":
        """The same, but with many clients perhaps as it was a moment ago: it visits all clients, and when all of their
        groups end at once, each end asks for it."""
        until, chunk = self._lately
        if chunk is None or now >= until:
            chunk = self.pending(now)
            clients = len(chunk.entries)
            self._lately = now + (clients * CLIENT_PAUSE_NS if clients > CROWD else 0), chunk
        return chunk

    def hold_back(self, now: int, seat: Seat) -> None:
        """It competes from now on, whether it is busy or not."""
        looks = seat.looks or self._new(seat)
        looks.back_since = now // LOOK_NS + 1

    def release(self, now: int, seat: Seat) -> None:
        """If the client waits, it competes until its first work, for at most WAKE_LOOKS: it must wake up first."""
        looks, end = seat.looks, max(0, now // LOOK_NS + 1 - self.upto)
        assert looks is not None, "looks of a client that is held back are counted"
        looks.back |= ones_from(looks.back_since, self.upto, end)
        looks.back_since = None
        looks.wake = ones(WAKE_LOOKS) << end if seat.state == "blocked" else 0

    def turn_began(self, now: int, seat: Seat) -> None:
        if not self._looks:  # no client was busy until now
            self.upto = max(self.upto, now // LOOK_NS)
        first = -(-now // LOOK_NS)
        if seat.looks is not None and seat.looks.rests is not None:
            self.divide(now)
        looks = seat.looks or self._new(seat)
        if looks.rests is not None:
            looks.stop_resting(self.upto, first)
        looks.since = first
        self.holders += 1

    def turn_ended(self, now: int, seat: Seat) -> None:
        """Most turns of a busy queue have no look: they cost nothing more."""
        looks = seat.looks
        assert looks is not None, "a turn begins before it ends"
        assert looks.since is not None, "a turn ends once"
        if now > looks.since * LOOK_NS:
            end = -(-now // LOOK_NS)
            if end - self.upto > 2 * REPORT_LOOKS:
                self.divide(now)
            looks.turn_ended(self.upto, looks.since, end)
        looks.since = None
        self.holders -= 1

    def reported(self, now: int, seat: Seat, first: int, count: int, busy: int) -> None:
        """Looks that are divided up already, or are still to come, do not count."""
        self.divide(now)
        looks = seat.looks or self._new(seat)
        if not count:
            looks.rest(min(first, now // LOOK_NS + 1))
            return
        shift = first - self.upto
        known = ones(count)
        if shift < 0:
            known, busy = known >> -shift, busy >> -shift
        elif first <= now // LOOK_NS:
            known, busy = known << shift, busy << shift
        else:
            return
        known &= ones(now // LOOK_NS + 1 - self.upto)
        looks.reported(self.upto, first, known, busy)

    def left(self, now: int, seat: Seat) -> None:
        """The client is charged for all that it had. Its last looks are still shared with it."""
        self.divide_for(now, seat)
        seat.gpu_ns = self.estimate_ns(now, seat)
        if seat.looks is not None:
            seat.looks.seat = seat.looks.back_since = None
            seat.looks = None

    def divide(self, now: int) -> None:
        """All looks whose reports should have come."""
        end = now // LOOK_NS - REPORT_LOOKS
        while self._looks and (looks := end - self.upto) >= (least := self._least_looks()):
            is_constant = looks > FAR_BEHIND and self._is_constant()
            if self.observer is not None and (looks < 2 * least or not is_constant):
                self._divide(least)
            elif looks > MOST_LOOKS and self.observer is None and is_constant:
                self._divide(1, times=looks)
            else:
                self._divide(min(MOST_LOOKS, looks))
        if not self._looks:
            self.upto = max(self.upto, end)

    def _least_looks(self) -> int:
        """More for many clients, each of which is visited: a second of their looks takes the same time."""
        return LEAST_LOOKS * max(1, min(len(self._looks), MOST_LOOKS) // LEAST_LOOKS)

    def divide_for(self, now: int, seat: Seat) -> None:
        """The same, if something is known of this client's looks."""
        if seat.looks is not None:
            self.divide(now)

    def estimate_ns(self, now: int, seat: Seat) -> int:
        """What the client has had until now, if it was busy at the looks that it has not reported yet, and shared them
        with the present holders. A time before the last look adds nothing."""
        return seat.gpu_ns + self.ahead_ns(now, seat)

    def ahead_ns(self, now: int, seat: Seat) -> int:
        """The part of `estimate_ns` that is not divided yet."""
        if seat.looks is None:
            return 0
        ahead = seat.looks.counts(self.upto, max(0, now // LOOK_NS - self.upto))
        return ahead.bit_count() * LOOK_NS // max(1, self.holders)

    def undivided_ns(self, now: int) -> int:
        """The time that is not divided yet; 0 if nothing is known of it."""
        return max(0, now - self.upto * LOOK_NS) if self._looks else 0

    def busy_percent(self, now: int) -> float:
        """For how much of the last seconds any client was busy. What is not divided up yet does not count."""
        return self._recent.percent(self.upto * LOOK_NS if self._looks else now, self.busy_ns)

    def percent_between(self, now: int, begin: int, end: int) -> float:
        """For which part of this time any client was busy; of the last divided time as long, if `end` is later."""
        known = self.upto * LOOK_NS if self._looks else now
        ahead = max(0, end - known)
        return self._recent.percent_between(begin - ahead, end - ahead, (self._busy_until, self.busy_ns))

    def _is_constant(self) -> bool:
        """All looks that are not divided yet have the same answers."""
        are_bills = self.bills is None or self.bills.are_constant(self._looks, self.upto)
        return are_bills and all(entry.is_constant(self.upto) for entry in self._looks)

    def _tell(self, chunk: Chunk, times: int) -> None:
        if self.observer is not None:
            self.observer(chunk)
        if self.bills is not None:
            self.bills.charge(chunk, times)

    def _new(self, seat: Seat) -> Looks:
        seat.looks = Looks(seat)
        self._looks.append(seat.looks)
        return seat.looks

    def _divide(self, looks: int, times: int = 1) -> None:
        """Divides `looks` looks, as if the same looks had come `times` times in succession."""
        counts = [entry.counts(self.upto, looks) for entry in self._looks]
        begin, end = self.upto * LOOK_NS, (self.upto + looks * times) * LOOK_NS
        self._note_busy(begin, reduce(or_, counts), looks * (times - 1), times)
        parts = split(counts)
        if self.observer is not None or self.bills is not None:
            self._tell(Chunk(self._looks, counts, parts, self.upto, looks), times)
        for entry, part in zip(self._looks, parts, strict=True):
            if (seat := entry.seat) is not None:
                seat.recent.note(begin, seat.gpu_ns)
                seat.gpu_ns += part * times
                seat.recent.note(end, seat.gpu_ns)
        self.upto += looks * times
        kept: list[Looks] = []
        for entry in self._looks:
            if entry.divided(looks * times):
                kept.append(entry)
            elif entry.seat is not None:
                entry.seat.looks = None
        self._looks = kept

    def _note_busy(self, begin: int, busy: int, before: int, times: int) -> None:
        """Looks from `begin` on, without the idle ones at both ends. `before`: looks before the last repetition."""
        if busy:
            self._recent.note(begin + ((busy & -busy).bit_length() - 1) * LOOK_NS, self.busy_ns)
            self.busy_ns += busy.bit_count() * LOOK_NS * times
            self._busy_until = begin + (before + busy.bit_length()) * LOOK_NS
            self._recent.note(self._busy_until, self.busy_ns)

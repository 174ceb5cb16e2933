"""Which part of the memory that clients report counts.

    swappable       without what the client keeps on the host (memory.live_shrink), at most the size of the card
    pinned          the part of it that the host cannot take counts as unswappable, at most
                        size / (2 * clients with such memory)
                    and at most the limit of the group
    unswappable     with contexts, at most
                        used + growth           if NVML has measured the process
                        size / clients          otherwise, but at least one context, and the limit that the group
                                                had at the time of the report is a bound too
                    of all but `used`, at most the bound of its account counts (memory.unbacked_memory)

Unswappable memory counts whether its client runs or not: a client that overstates it takes room from all others. `used`
is what NVML measured for the process. `growth` is what its client has reported since then beyond the highest report at
any measurement. So a lie counts until the next measurement and never again, even if the client withdraws it before each
measurement. A new connection of a measured process counts with what that process has: only what it reports beyond the
highest report of the process is growth. When one of its connections ends, the others have what was measured for that
one. For new processes the bound of their account applies: the unconfirmed memory of all its clients is bounded
together.

A client in memory mode checkpoint has nothing on the card while it has no lock: all its memory counts as swappable, its
contexts too. If its lock was revoked, its memory may still be on the card, and counts as unswappable too, until the
client has released that lock or got another one.

    need            min(swappable, working set)     if the client knows it and is trusted (memory.thrashing)
                    swappable                       otherwise
                    what it was in this turn        while room is kept for what it has freed (memory.regrowth)

`need` is what a client must have on the card while it runs; it decides which clients fit. What programs may allocate,
and what the host must take, depends on the memory itself.

Without NVML a lie cannot be distinguished from a large program. A client then takes its share of the card from the
others, as an honest client of that size would, within the bound of its account. If this bound is too low for an honest
client, more clients run at once than fit: the driver evicts swappable memory, which costs time, and no allocation of
swappable memory fails.

NVML does not help for pinned memory: its figure for a process is compared with unswappable memory only. So all clients
with pinned memory share half of the card, and even many liars leave the other half. Which clients must wait is decided
by the protected memory:

    protected       what the host cannot take, at most half of the card and the limit of the group

It is not divided, but all of it together counts as at most half of the card (memory.memory_planner)."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable

from nvshare.core.memory import regrowth
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import NEVER, NO_MEMORY, Memory, ProcessMemory
from nvshare.core.queue.wait_queue import WaitQueue
from nvshare.core.turns.seat import Seat


class MemoryReports:
    """Keeps the memory of one GPU's seats at what counts of their clients' reports."""

    def __init__(self, memory: MemoryPlanner, queue: WaitQueue) -> None:
        self._memory = memory
        self._queue = queue
        self._seats: dict[int, Seat] = {}
        self._by_fixed: list[tuple[int, int]] = []
        """(unswappable memory as reported, client) for clients that have any: those above a share are found at once."""
        self._by_lacking: list[tuple[int, int]] = []
        """The same of the memory that the host cannot take."""
        self._of_process: dict[int, list[Seat]] = {}
        """The clients of each process; in `_highest` the most that any of them had reported at a measurement."""
        self._highest: dict[int, int] = {}

    def joined(self, seat: Seat, reported: Memory) -> None:
        self._seats[seat.client] = seat
        self._memory.joined(seat)
        seat.resident = reported.swappable  # it was there before this daemon, or before its connection was lost
        self._of_process.setdefault(seat.pid, []).append(seat)
        if seat.pid in self._highest:
            seat.measured = ProcessMemory(seat.client, 0, self._highest[seat.pid])
        if self._by_fixed:
            self._divide_card(len(self._seats) - 1)
        self.reported(seat, reported)

    def left(self, seat: Seat) -> None:
        self.reported(seat, NO_MEMORY)
        del self._seats[seat.client]
        self._memory.left(seat)
        self._leave_process(seat)
        if self._by_fixed:
            self._divide_card(len(self._seats) + 1)

    def _leave_process(self, seat: Seat) -> None:
        """What NVML measured for the process is still there if it has other clients, such as one that registered before
        the end of its earlier connection was noticed: they have it until the next measurement."""
        others = self._of_process[seat.pid]
        others.remove(seat)
        if not others:
            del self._of_process[seat.pid]
            self._highest.pop(seat.pid, None)
        if seat.measured is not None and seat.pid:
            self._share_out(seat.measured.used, others)

    def _share_out(self, left: int, seats: list[Seat]) -> None:
        for other, its in [(seat, seat.measured) for seat in seats if seat.measured is not None]:
            more = min(left, max(0, other.fixed - its.used))
            if more:
                left -= more
                other.measured = ProcessMemory(other.client, its.used + more, its.reported)
                self._count(other)

    def reported(self, seat: Seat, reported: Memory) -> None:
        before = seat.reported
        seat.reported = reported
        if before.unswappable != reported.unswappable or before.contexts != reported.contexts:
            self._set_fixed(seat)
            self._count(seat)
        elif (
            seat.memory is before
            and not (seat.kept or seat.lacking)
            and reported.swappable <= min(self._memory.size, seat.host_room)
        ):
            self._set_counted(seat, reported)  # The usual case, at once: all of it counted, and all of it does.
        else:
            self._count(seat)

    def measured(self, processes: Iterable[ProcessMemory]) -> None:
        for process in processes:
            seat = self._seats.get(process.client)
            if seat is not None:
                highest = max(process.reported, seat.measured.reported if seat.measured else 0)
                seat.measured = ProcessMemory(process.client, process.used, highest)
                if seat.pid:
                    self._highest[seat.pid] = max(highest, self._highest.get(seat.pid, 0))
                self._count(seat)

    def host_measured(self, seat: Seat, room: int) -> None:
        seat.host_room = room
        self._count(seat)

    def held_bytes_changed(self, seat: Seat) -> None:
        """It keeps more or less on the host, or was asked to."""
        self._count(seat)

    def card_changed(self) -> None:
        """The size of the card or the cost of a context."""
        for seat in self._seats.values():
            self.mode_changed(seat)

    def set_revoked(self, seat: Seat, lock: int) -> None:
        seat.revoked = lock
        if seat.is_suspended:
            self.mode_changed(seat)

    def mode_changed(self, seat: Seat) -> None:
        """What counts of it has changed, though not its report: Seat.leaves_card."""
        self._set_fixed(seat)
        self._count(seat)

    def counted(self, seat: Seat) -> Memory:
        on_card = self._on_card(seat)
        pinned = self._pinned(seat)
        if not pinned:
            return on_card
        return Memory(on_card.swappable - pinned, on_card.unswappable + pinned, on_card.contexts)

    def _pinned(self, seat: Seat) -> int:
        return min(self._protected(seat), self._pinned_share(len(self._by_lacking)))

    def _protected(self, seat: Seat) -> int:
        most = min(seat.lacking, self._memory.size // 2)
        return min(most, seat.limit) if seat.limit else most

    def _pinned_share(self, clients: int) -> int:
        return self._memory.size // 2 // max(1, clients)

    def _on_card(self, seat: Seat) -> Memory:
        """What a client has on the card while it runs."""
        reported, size = seat.reported, self._memory.size
        if seat.is_suspended:
            swappable = min(reported.used + reported.contexts * self._memory.context_bytes, size or NEVER)
            return Memory(swappable, min(seat.fixed, self._cap(seat)) if seat.fixed else 0)
        if seat.kept:
            swappable = max(0, reported.swappable - seat.kept)
            reported = Memory(swappable, reported.unswappable, reported.contexts)
        if not size:
            return reported
        cap = self._cap(seat) if seat.fixed else 0
        if seat.fixed <= cap and reported.swappable <= size:
            return reported
        if seat.fixed <= cap:
            return Memory(size, reported.unswappable, reported.contexts)
        return Memory(min(reported.swappable, size), cap)

    def _cap(self, seat: Seat) -> int:
        if seat.measured is not None:
            growth = max(0, seat.fixed - seat.measured.reported)
            return min(self._memory.size, seat.measured.used + growth)
        share = self._share(len(self._seats))
        limit = seat.limit
        return min(share, limit + seat.reported.contexts * self._memory.context_bytes) if limit else share

    def _count(self, seat: Seat) -> None:
        self._set_lacking(seat)
        self._count_again(seat)

    def _count_again(self, seat: Seat) -> None:
        """The same report, but perhaps other bounds."""
        counted = self.counted(seat)
        self._memory.pin(seat, self._pinned(seat), self._protected(seat))
        if counted != seat.memory or (seat.kept and seat.lock):
            self._set_counted(seat, counted)
        self._memory.weigh(seat, seat.measured.used if seat.measured is not None else 0)

    def _set_lacking(self, seat: Seat) -> None:
        """What the host cannot take of it; what is kept there takes its part of the room."""
        lacking = max(0, self._on_card(seat).swappable - max(0, seat.host_room - seat.kept))
        if lacking == seat.lacking:
            return
        self._set_limit(seat)
        before = self._pinned_share(len(self._by_lacking))
        if seat.lacking:
            del self._by_lacking[bisect_left(self._by_lacking, (seat.lacking, seat.client))]
        seat.lacking = lacking
        if lacking:
            insort(self._by_lacking, (lacking, seat.client))
        share = self._pinned_share(len(self._by_lacking))
        if share != before:
            least = min(before, share)
            for _, client in self._by_lacking[bisect_right(self._by_lacking, (least, NEVER)) :]:
                self._count_again(self._seats[client])

    def working_set_reported(self, seat: Seat, used: int | None) -> None:
        seat.working_set = used
        self._set_counted(seat, seat.memory)

    def set_trusted(self, seat: Seat, is_trusted: bool) -> None:
        seat.is_trusted = is_trusted
        self._set_counted(seat, seat.memory)

    def crowded(self, staying: Iterable[Seat]) -> None:
        """The staying clients do not fit together any more."""
        for seat in staying:
            if not seat.keeps_room and regrowth.others_leave(seat, regrowth.used(seat, self._own(seat, seat.memory))):
                seat.keeps_room = True
                self._set_counted(seat, seat.memory)

    def turn_began(self, seat: Seat) -> None:
        seat.most_needed = seat.least_needed = regrowth.used(seat, self._own(seat, seat.memory))

    def turn_ended(self, seat: Seat) -> None:
        """Room was kept for it."""
        seat.keeps_room = regrowth.is_expected(seat)
        self._set_counted(seat, seat.memory)

    def keeps_free_room(self, seat: Seat) -> bool:
        """Room is kept for memory that it has freed."""
        return seat.keeps_room and regrowth.used(seat, seat.memory.swappable) < seat.need

    def needed(self, seat: Seat, counted: Memory) -> int:
        if seat.keeps_room and seat.lock:
            return regrowth.kept(seat, counted.swappable, self._own(seat, counted) - counted.swappable)
        return regrowth.used(seat, counted.swappable)

    def _own(self, seat: Seat, counted: Memory) -> int:
        """Its swappable memory, with what it keeps on the host and what is pinned."""
        if seat.kept and not seat.is_suspended:
            return min(seat.reported.swappable, self._memory.size or NEVER)
        return counted.swappable + seat.pinned

    def _set_counted(self, seat: Seat, counted: Memory) -> None:
        need = regrowth.used(seat, counted.swappable)
        if seat.lock:
            own = regrowth.used(seat, self._own(seat, counted)) if seat.kept or seat.pinned else need
            if not own == seat.most_needed == seat.least_needed:
                regrowth.note(seat, own)
            need = self.needed(seat, counted) if seat.keeps_room else need
        if seat.state == "waiting":
            self._queue.resize(seat, need)
        self._memory.resize(seat, counted, need)

    def _set_fixed(self, seat: Seat) -> None:
        if seat.fixed:
            del self._by_fixed[bisect_left(self._by_fixed, (seat.fixed, seat.client))]
        self._set_limit(seat)
        reported = NO_MEMORY if seat.leaves_card else seat.reported
        seat.fixed = reported.unswappable + reported.contexts * self._memory.context_bytes
        if seat.fixed:
            insort(self._by_fixed, (seat.fixed, seat.client))

    def _set_limit(self, seat: Seat) -> None:
        seat.limit = seat.group.limit if seat.group is not None else 0

    def _share(self, clients: int) -> int:
        size = self._memory.size
        return min(size, max(size // clients, self._memory.context_bytes))

    def _divide_card(self, clients_before: int) -> None:
        """A client came or went: those above the smaller one of both shares are counted again."""
        before, share = self._share(clients_before), self._share(len(self._seats))
        if share != before:
            least = min(before, share)
            for _, client in self._by_fixed[bisect_right(self._by_fixed, (least, NEVER)) :]:
                self._count(self._seats[client])

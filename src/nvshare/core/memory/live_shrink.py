"""A limit that was lowered below use applies to memory in use: the excess is kept on the host.

    over(group, GPU)    max(0, Σ used - limit)
    keep(client)        its part of over, at most its swappable memory; at most what it keeps if it moves no memory
    over grows          clients keep more, in the order of their swappable memory, largest first
    over shrinks        clients keep less, in the order of their swappable memory, smallest first

Clients are asked for no other reason: if another client kept the excess instead, the memory of both would move. A
client moves its least recently used memory to the host, and the GPU accesses it there, over the link. When the limit is
raised, or memory is freed, it brings back what it need not keep. It reports how much it keeps. Up to the requested
amount, this does not count as memory on the card (memory.memory_reports). Memory that cannot move stays.

Cost. A step asks at most MAX_PER_STEP clients; what is left is done in the next step, which `has_more` asks for."""

from collections.abc import Callable, Mapping

from nvshare.core.actions import Action, KeepOnHost
from nvshare.core.client import Client
from nvshare.core.events import MemoryHeld, MoverReported
from nvshare.core.gpu import Gpu
from nvshare.core.limits.memory_limits import MemoryLimits
from nvshare.core.limits.shared_limit import SharedLimit
from nvshare.core.memory.host_shares import HostShares
from nvshare.core.turns.seat import Seat

MAX_PER_STEP = 32


class LiveShrink:
    """Asks the members of shared limits. `touch` is called for GPUs on which other memory counts."""

    def __init__(
        self,
        limits: MemoryLimits,
        clients: Mapping[int, Client],
        gpus: Mapping[str, Gpu],
        touch: Callable[[Gpu], None],
    ) -> None:
        self._limits = limits
        limits.note_merged = self._note_merged
        self._clients = clients
        self._gpus = gpus
        self._touch = touch
        self._shares: dict[SharedLimit, HostShares] = {}
        self.has_more = False
        """There is more to ask for than one step does."""

    def note_memory(self, shared: SharedLimit, seat: Seat) -> None:
        """A member has joined, has other memory, or keeps other memory."""
        shares = self._shares.get(shared)
        if shares is None:
            shares = self._shares[shared] = HostShares()
        shares.put(seat)
        if shares.kept or shared.members.is_over:
            self._limits.over[shared] = None

    def note_held(self, event: MemoryHeld) -> None:
        """A client keeps memory on the host. If this daemon did not ask it to, an earlier one did."""
        client = self._clients[event.client]
        seat = client.seats[event.gpu]
        seat.keep_asked, seat.held_bytes = seat.keep_asked or event.held, event.held
        self._count(event.gpu, seat)
        self.note_memory(client.group.limits[event.gpu], seat)

    def note_mover(self, event: MoverReported) -> None:
        """A client that moves no memory cannot keep more than it does: the others are asked."""
        client = self._clients[event.client]
        seat = client.seats[event.gpu]
        seat.holds_memory = not event.not_moving
        self.note_memory(client.group.limits[event.gpu], seat)

    def note_left(self, shared: SharedLimit, seat: Seat) -> None:
        self._shares[shared].remove(seat)
        if not self._shares[shared]:
            del self._shares[shared]

    def _note_merged(self, stays: SharedLimit, ends: SharedLimit) -> None:
        for seat in self._shares.pop(ends):
            self.note_memory(stays, seat)

    def decide(self, out: list[Action], *, is_settling: bool) -> None:
        """Not while clients may still claim what they have: an earlier daemon's orders stay in force."""
        self._limits.note_over(self._limits.touched)
        self.has_more = False
        if not self._limits.over or is_settling:
            return
        left = MAX_PER_STEP
        for shared in list(self._limits.over):
            left -= self._divide(shared, left, out)
            if left <= 0:
                self.has_more = True
                return
            del self._limits.over[shared]

    def _divide(self, shared: SharedLimit, most: int, out: list[Action]) -> int:
        """Ask at most this number of members; returns how many were asked."""
        shares = self._shares.get(shared)
        if shares is None:  # All members have left.
            return 0
        shrinks = self._limits.shrinks if shared.members.shrinks is None else shared.members.shrinks
        over = max(0, shared.members.used - shared.limit) if shared.limit and shrinks else 0
        asked = 0
        while asked < most and (change := shares.next_change(over)) is not None:
            self._ask(shared, *change, out)
            asked += 1
        return asked

    def _ask(self, shared: SharedLimit, seat: Seat, keep: int, out: list[Action]) -> None:
        seat.keep_asked = keep
        self._count(shared.gpu, seat)
        self._shares[shared].put(seat)
        out.append(KeepOnHost(seat.client, shared.gpu, keep))

    def _count(self, uuid: str, seat: Seat) -> None:
        self._touch(gpu := self._gpus[uuid])
        gpu.turns.reports.held_bytes_changed(seat)

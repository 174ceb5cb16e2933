"""A limit that was lowered below use takes effect on what is there: the excess is kept on the host.

    over(group, GPU)    max(0, Σ used - limit)
    keep(client)        its part of over, at most its swappable memory; those with most swappable memory first

A client moves what it has used least recently to the host, and the GPU uses it from there, over the link. When the
limit is raised, or memory is freed, it brings back what it need not keep. It says how much it keeps, and as far as it
was asked to, that does not count as memory on the card (core.memory_reports). Memory that cannot move stays."""

from collections.abc import Callable, Mapping

from nvshare.core.actions import Action, KeepOnHost
from nvshare.core.client import Client
from nvshare.core.events import MemoryHeld
from nvshare.core.gpu import Gpu
from nvshare.core.limits.memory_limits import MemoryLimits
from nvshare.core.seat import Seat


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
        self._clients = clients
        self._gpus = gpus
        self._touch = touch

    def note_held(self, event: MemoryHeld) -> None:
        """A client keeps memory on the host. If nobody asked it to, an earlier daemon did."""
        client, gpu = self._clients[event.client], self._gpus[event.gpu]
        seat = client.seats[event.gpu]
        seat.keep_asked, seat.held = seat.keep_asked or event.held, event.held
        self._count(gpu, seat)
        self._limits.over[client.group.limits[event.gpu]] = None

    def decide(self, out: list[Action], *, is_settling: bool) -> None:
        """Not while clients may still claim what they have: an earlier daemon's orders stay in force."""
        self._limits.note_over(self._limits.touched)
        if not self._limits.over or is_settling:
            return
        for shared in self._limits.over:
            clients = [self._clients[member] for member in shared.shares]
            over = max(0, shared.members.used - shared.limit) if shared.limit and self._shrinks(clients) else 0
            self._divide(self._gpus[shared.gpu], [client.seats[shared.gpu] for client in clients], over, out)
        self._limits.over.clear()

    def _divide(self, gpu: Gpu, seats: list[Seat], over: int, out: list[Action]) -> None:
        for seat in sorted(seats, key=lambda seat: (-seat.reported.swappable, seat.client)):
            keep = min(over, seat.reported.swappable) if seat.holds_memory else 0
            over -= keep
            if keep != seat.keep_asked:
                seat.keep_asked = keep
                self._count(gpu, seat)
                out.append(KeepOnHost(seat.client, gpu.uuid, keep))

    def _count(self, gpu: Gpu, seat: Seat) -> None:
        gpu.turns.reports.held(seat)
        self._touch(gpu)

    def _shrinks(self, clients: list[Client]) -> bool:
        """Pods that share a claim shrink together, unless one of them says no."""
        said = [client.group.shrinks for client in clients if client.group.shrinks is not None]
        return all(said) if said else self._limits.shrinks

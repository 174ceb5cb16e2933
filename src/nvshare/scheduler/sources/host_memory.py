"""Measures what the host can take of clients' GPU memory: their cgroups, and the memory that the node has.

Measured every second while there are clients, and when a client registers or starts to wait. While the card does not
hold the memory of all clients, every event may lead to a switch, and a switch evicts: if the last measurement is older
than OLDEST_NS, the next one is made before the core sees the event. Nothing else causes one, and they are at least
LEAST_NS apart. Clients of one cgroup share its room; all clients share the node's."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path

from nvshare.core.actions import QueueClient
from nvshare.core.client import Client
from nvshare.core.events import ClientRegistered, Event, HostMemoryMeasured, LockRequested, MemoryChanged
from nvshare.core.model import GIB, MIB, MILLISECOND, SECOND, UNLIMITED, HostRoom
from nvshare.journal import Step
from nvshare.record import Record
from nvshare.scheduler.clients.identity import proc_text
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.sources.cgroup_memory import Cgroup, available_memory, levels, own_parts, read_cgroup

INTERVAL_S = 1.0
LEAST_NS = 100 * MILLISECOND
OLDEST_NS = 500 * MILLISECOND
NOISE_BYTES = 16 * MIB
"""A smaller change of a room that is too small is not reported to the core."""

Key = tuple[int, str]
"""A client at a GPU."""


class Shortfall(Record, frozen=True):
    """The host cannot take `missing` bytes of a client's GPU memory. `limit` and `cgroup`: the memory limit that is too
    small, and whose it is; None: the node itself has too little."""

    client: int
    missing: int
    limit: int | None = None
    cgroup: str | None = None

    @property
    def text(self) -> str:
        lacking = f"{self.missing / GIB:.1f} GiB of its GPU memory cannot be moved to the host"
        if self.limit is None:
            return f"{lacking}: the node has too little free memory. Other programs wait instead."
        enough = -(-(self.limit + self.missing) // MIB)
        return f"{lacking}. Set its memory limit to at least {enough}Mi; other programs wait until then."


def needs(clients: Iterable[Client], sizes: Mapping[str, int]) -> dict[Key, int]:
    """The memory of each client at each GPU that may have to move: no more than the card holds. Who never had a turn
    has nothing on the GPU."""
    return {
        (client.id, gpu): min(seat.reported.swappable, sizes[gpu])
        for client in clients
        for gpu, seat in client.seats.items()
        if seat.turns and seat.reported.swappable
    }


def divide(room: int, wanted: Mapping[Key, int]) -> dict[Key, int]:
    """Shares of a room: the smallest needs are met first, and those that are not met share the rest equally."""
    shares: dict[Key, int] = {}
    for place, (key, need) in enumerate(sorted(wanted.items(), key=lambda item: item[1])):
        shares[key] = min(need, room // (len(wanted) - place))
        room -= shares[key]
    return shares


def measure(
    wanted: Mapping[Key, int], cgroups: Mapping[int, list[Cgroup]], available: int | None
) -> tuple[dict[Key, int], list[Shortfall]]:
    """The room of each client at each GPU, UNLIMITED if it suffices, and who lacks how much because of what."""
    rooms = dict(wanted)
    cause: dict[Key, Cgroup | None] = {}
    for cgroup in {one.path: one for found in cgroups.values() for one in found if one.room is not None}.values():
        inside = {key: need for key, need in wanted.items() if cgroup in cgroups.get(key[0], ())}
        for key, share in divide(cgroup.room or 0, inside).items():
            if share < rooms[key]:
                rooms[key], cause[key] = share, cgroup
    if available is not None:
        moved = sum({found[0].path: found[0].kernel for found in cgroups.values() if found}.values())
        for key, share in divide(available + moved, wanted).items():
            if share < rooms[key]:
                rooms[key], cause[key] = share, None
    short = [Shortfall(key[0], wanted[key] - rooms[key], *_limit(cgroup)) for key, cgroup in cause.items()]
    return {key: rooms[key] if key in cause else UNLIMITED for key in wanted}, short


def _limit(cgroup: Cgroup | None) -> tuple[int | None, str | None]:
    return (None, None) if cgroup is None else (cgroup.limit, cgroup.path)


class HostMemoryPoll:
    """Posts the rooms that matter: those that are too small, and those that no longer are."""

    def __init__(
        self,
        engine: Engine,
        *,
        report: Callable[[int, str], None],
        proc: Path = Path("/proc"),
        cgroup_root: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self._engine = engine
        self._report = report
        self._proc = proc
        self._root = cgroup_root
        self._wake = asyncio.Event()
        self._looked_at = -OLDEST_NS
        self._told: dict[int, str] = {}
        self._own_parts: dict[Path, list[str]] = {}

    def observe(self, step: Step) -> None:
        """A client came, or starts to wait."""
        if isinstance(step.event, ClientRegistered) or any(isinstance(action, QueueClient) for action in step.actions):
            self._wake.set()

    def before(self, now: int, event: Event) -> None:
        """No decision that may evict memory is made on an old measurement."""
        if now - self._looked_at > OLDEST_NS and type(event) is not HostMemoryMeasured and self._may_evict(event):
            self.look()

    def _may_evict(self, event: Event) -> bool:
        more = event.memory.used if isinstance(event, LockRequested | MemoryChanged) else 0
        memories = (gpu.memory for gpu in self._engine.node.gpus.values())
        return any(one.swappable + one.fixed_bytes + more > one.size - one.card_reserve for one in memories)

    async def run(self) -> None:
        while True:
            self._wake.clear()
            self.look()
            await asyncio.sleep(LEAST_NS / SECOND)
            if not self._engine.node.clients:
                await self._wake.wait()
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), INTERVAL_S - LEAST_NS / SECOND)

    def look(self) -> None:
        self._looked_at = self._engine.now()
        clients = self._engine.node.clients
        sizes = {uuid: gpu.memory.size or UNLIMITED for uuid, gpu in self._engine.node.gpus.items()}
        wanted = needs(clients.values(), sizes)
        pids = {client: clients[client].pid for client, _ in wanted}
        read = cache(read_cgroup)  # Clients have the upper levels in common.
        cgroups = {client: levels(self._root, self._cgroups_of(pid), self._own, read) for client, pid in pids.items()}
        rooms, short = measure(wanted, cgroups, self._available())
        changed = [HostRoom(*key, room) for key, room in rooms.items() if self._is_news(key, room)]
        if changed:
            self._engine.post(HostMemoryMeasured(tuple(changed)))
        self._tell(short)

    def _is_news(self, key: Key, room: int) -> bool:
        before = self._engine.node.clients[key[0]].seats[key[1]].host_room
        return (before == UNLIMITED) != (room == UNLIMITED) or abs(before - room) >= NOISE_BYTES

    def _tell(self, short: list[Shortfall]) -> None:
        """Once for each client, and again when it has been enough in between."""
        told = {one.client: self._told.get(one.client) or one.text for one in short}
        for client in told.keys() - self._told.keys():
            log.warning(f"Host memory too small for client {client:04x}: {told[client]}")
            self._report(client, told[client])
        self._told = told

    def _own(self, base: Path) -> list[str]:
        if base not in self._own_parts:
            self._own_parts[base] = own_parts(base, os.getpid())
        return self._own_parts[base]

    def _cgroups_of(self, pid: int) -> str:
        try:
            return proc_text(self._proc / str(pid) / "cgroup")
        except OSError:
            return ""  # it has ended

    def _available(self) -> int | None:
        try:
            return available_memory(proc_text(self._proc / "meminfo"))
        except OSError:
            return None

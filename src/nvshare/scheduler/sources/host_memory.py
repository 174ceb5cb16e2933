"""Measures how much of clients' GPU memory the host can take: their cgroups, and the memory of the node.

Measured every second while there are clients, and when a client registers or starts to wait. While the card does not
hold the memory of all clients, every event may lead to a switch, and a switch evicts: if the last measurement is older
than OLDEST_NS, the next one is made before the core sees the event. Nothing else causes one, and they are at least
LEAST_NS apart. Clients of one cgroup share its room; all clients share the node's.

Many clients do not stop the scheduler: a measurement is made in slices, takes at most 1 / SPARE of the time, and is
charged to the clients that are measured. If it takes longer than LONG_NS, it is not made before an event, and decisions
use an older one."""

import asyncio
import contextlib
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TypeVar

from nvshare.admin import client_name
from nvshare.core.actions import QueueClient
from nvshare.core.client import Client
from nvshare.core.events import ClientRegistered, Event, HostMemoryMeasured, LockRequested, MemoryChanged
from nvshare.core.model import MIB, MILLISECOND, SECOND, UNLIMITED, HostRoom
from nvshare.inventory.processes import proc_text
from nvshare.journal import Step
from nvshare.quantity import amount
from nvshare.record import Record
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.sources.cgroup_memory import Cgroup, available_memory, levels, own_parts, read_cgroup

INTERVAL_S = 1.0
LEAST_NS = 100 * MILLISECOND
OLDEST_NS = 500 * MILLISECOND
NOISE_BYTES = 16 * MIB
"""A smaller change of a room that is too small is not reported to the core."""
SLICE = 128
"""So many clients are looked at, or told, before others are served."""
SPARE = 20
"""Minimum time until the next measurement / time that the last one took."""
LONG_NS = 5 * MILLISECOND
"""One that takes longer is not made before an event: all clients would wait for it."""

T = TypeVar("T")
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
        lacking = f"{amount(self.missing)} of its GPU memory cannot be moved to the host"
        if self.limit is None:
            return f"{lacking}: the node has too little free memory. Other programs wait instead."
        enough = -(-(self.limit + self.missing) // MIB)
        return f"{lacking}. Set its memory limit to at least {enough}Mi; other programs wait until then."


def needs(clients: Iterable[Client], sizes: Mapping[str, int]) -> dict[Key, int]:
    """The memory of each client at each GPU that may have to move: no more than the card holds. A client that never
    had a turn has nothing on the GPU."""
    return {
        (client.id, gpu): min(seat.reported.swappable, sizes[gpu])
        for client in clients
        for gpu, seat in client.seats.items()
        if seat.turns and seat.reported.swappable
    }


def share_of(room: int, needs: Iterable[int]) -> int:
    """What each gets of a room at most: the smallest needs are met, and the others share the rest equally."""
    ordered = sorted(needs)
    left = len(ordered)
    for need in ordered:
        if need * left > room:
            return room // left
        room -= need
        left -= 1
    return UNLIMITED


def measure(
    wanted: Mapping[Key, int], cgroups: Mapping[int, list[Cgroup]], available: int | None
) -> tuple[dict[Key, int], list[Shortfall]]:
    """The room of each client at each GPU whose room does not suffice, and how much it lacks because of what.

    Clients of one cgroup have the same levels: each client is looked at once, not once for each level."""
    paths = {client: tuple(one.path for one in found) for client, found in cgroups.items()}
    inside: dict[tuple[str, ...], list[Key]] = {}
    for key in wanted:
        inside.setdefault(paths.get(key[0], ()), []).append(key)
    chains = {paths[client]: found for client, found in cgroups.items()}
    below: dict[str, tuple[Cgroup, list[list[Key]]]] = {}
    for chain, found in chains.items():
        for one in found:
            if one.room is not None and chain in inside:
                below.setdefault(one.path, (one, []))[1].append(inside[chain])
    rooms: dict[Key, int] = {}
    cause: dict[Key, Cgroup | None] = {}
    for cgroup, lists in below.values():
        _divide(cgroup.room or 0, cgroup, [key for keys in lists for key in keys], wanted, rooms, cause)
    if available is not None:
        moved = sum({found[0].path: found[0].kernel for found in chains.values() if found}.values())
        _divide(available + moved, None, wanted, wanted, rooms, cause)
    short = [Shortfall(key[0], wanted[key] - room, *_limit(cause[key])) for key, room in rooms.items()]
    return rooms, short


def _divide(
    room: int,
    cgroup: Cgroup | None,
    keys: Collection[Key],
    wanted: Mapping[Key, int],
    rooms: dict[Key, int],
    cause: dict[Key, Cgroup | None],
) -> None:
    """Note the clients for which a room does not suffice."""
    share = share_of(room, [wanted[key] for key in keys])
    if share == UNLIMITED:
        return
    for key in keys:
        if share < rooms.get(key, wanted[key]):
            rooms[key], cause[key] = share, cgroup


def _limit(cgroup: Cgroup | None) -> tuple[int | None, str | None]:
    return (None, None) if cgroup is None else (cgroup.limit, cgroup.path)


def _slices(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + SLICE] for start in range(0, len(items), SLICE))


class HostMemoryPoll:
    """Posts the rooms that matter: those that are too small, and those that no longer are."""

    def __init__(
        self,
        engine: Engine,
        *,
        report: Callable[[int, str], None],
        charge: Callable[[int, int, Counter[int]], None] = lambda began, ended, clients: None,
        proc: Path = Path("/proc"),
        cgroup_root: Path = Path("/sys/fs/cgroup"),
    ) -> None:
        self._engine = engine
        self._report = report
        self._charge = charge
        self._proc = proc
        self._root = cgroup_root
        self._wake = asyncio.Event()
        self._looked_at = -OLDEST_NS
        self._took = 0
        """The time of the last measurement."""
        self._limited: set[Key] = set()
        """The clients whose room did not suffice."""
        self._told: dict[int, str] = {}
        self._told_estimate = False
        self._own_parts: dict[Path, list[str]] = {}

    def observe(self, step: Step) -> None:
        """A client came, or starts to wait."""
        if isinstance(step.event, ClientRegistered) or any(isinstance(action, QueueClient) for action in step.actions):
            self._wake.set()

    def before(self, now: int, event: Event) -> None:
        """No decision that may evict memory is made on an old measurement."""
        is_old = now - self._looked_at > OLDEST_NS and self._took <= LONG_NS
        if is_old and type(event) is not HostMemoryMeasured and self._may_evict(event):
            self.look()

    def _may_evict(self, event: Event) -> bool:
        more = event.memory.used if isinstance(event, LockRequested | MemoryChanged) else 0
        memories = (gpu.memory for gpu in self._engine.node.gpus.values())
        return any(one.swappable + one.fixed_bytes + more > one.size - one.card_reserve for one in memories)

    async def run(self) -> None:
        while True:
            self._wake.clear()
            for _ in self._look():
                await asyncio.sleep(0)  # Clients are served between two slices.
            await asyncio.sleep(max(LEAST_NS, SPARE * self._took) / SECOND)
            if not self._engine.node.clients:
                await self._wake.wait()
            else:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), INTERVAL_S - LEAST_NS / SECOND)

    def look(self) -> None:
        """All slices of a measurement at once."""
        for _ in self._look():
            pass

    def _look(self) -> Iterator[None]:
        """One measurement in slices; the time of each is charged to the clients that were measured in it."""
        now = self._engine.now
        self._looked_at = began = now()
        node = self._engine.node
        wanted: dict[Key, int] = {}
        cgroups: dict[int, list[Cgroup]] = {}
        chain_of = self._chains()
        sizes = {uuid: gpu.memory.size or UNLIMITED for uuid, gpu in node.gpus.items()}
        took = 0
        for some in _slices(list(node.clients.values())):
            found = needs(some, sizes)
            wanted |= found
            cgroups |= {client.id: chain_of(client.pid) for client in some}
            took += self._charged(began, found)
            yield
            began = now()
        rooms, short = measure(wanted, cgroups, self._available())
        changed = self._news(wanted, rooms)
        took += self._charged(began, wanted)
        for news in changed:
            yield
            began = now()
            self._engine.post(HostMemoryMeasured(tuple(news)))
            took += self._charged(began, [(room.client, room.gpu) for room in news])
        self._tell(short)
        self._tell_estimate(cgroups.values())
        self._took = took

    def _chains(self) -> Callable[[int], list[Cgroup]]:
        """What finds the cgroups of a process: each process is read once, and each cgroup."""
        read = cache(read_cgroup)  # Clients have the upper levels in common.
        levels_of = cache(lambda text: levels(self._root, text, self._own, read))
        return cache(lambda pid: levels_of(self._cgroups_of(pid)))

    def _charged(self, began: int, keys: Iterable[Key]) -> int:
        """The time since then, charged to the clients that were measured."""
        ended = self._engine.now()
        self._charge(began, ended, Counter(client for client, _ in keys))
        return ended - began

    def _news(self, wanted: Mapping[Key, int], rooms: Mapping[Key, int]) -> list[Sequence[HostRoom]]:
        """The rooms that changed, in slices that each are of one GPU."""
        now = {key: rooms.get(key, UNLIMITED) for key in self._limited | rooms.keys() if key in wanted}
        self._limited = {key for key, room in now.items() if room != UNLIMITED}
        changed: dict[str, list[HostRoom]] = {}
        for key, room in now.items():
            if self._is_news(key, room):
                changed.setdefault(key[1], []).append(HostRoom(*key, room))
        return [some for of_gpu in changed.values() for some in _slices(of_gpu)]

    def _is_news(self, key: Key, room: int) -> bool:
        client = self._engine.node.clients.get(key[0])
        if client is None:
            return False  # it has left meanwhile
        before = client.seats[key[1]].host_room
        return (before == UNLIMITED) != (room == UNLIMITED) or abs(before - room) >= NOISE_BYTES

    def _tell(self, short: list[Shortfall]) -> None:
        """Once for each client, and again when it has been enough in between."""
        told = {one.client: self._told.get(one.client) or one.text for one in short}
        for client in told.keys() - self._told.keys():
            log.warning(f"Host memory too small for client {client_name(client)}: {told[client]}")
            self._report(client, told[client])
        self._told = told

    def _tell_estimate(self, cgroups: Iterable[list[Cgroup]]) -> None:
        if not self._told_estimate and any(one.is_estimated for found in cgroups for one in found):
            self._told_estimate = True
            log.info("This kernel does not show the kernel memory of cgroups (Linux 5.18 does): it is estimated")

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

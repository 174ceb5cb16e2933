"""Polls NVML: the GPUs at the start, then the memory of processes that are not clients, and the GPUs' utilisation."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from nvshare.core.client import Client
from nvshare.core.events import GpuFound, MemoryMeasured, UtilizationMeasured
from nvshare.core.model import ProcessMemory
from nvshare.inventory.gpus import Sample
from nvshare.inventory.nvml import GpuLostError, Nvml, NvmlUnavailableError
from nvshare.inventory.processes import loads_library
from nvshare.journal import Step
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log

INTERVAL_S = 2.0
UNUSED_INTERVAL_S = 10.0
"""While there are no clients and NVML lists no process. A program that runs unshared never registers."""
SETTLING_INTERVAL_S = 0.1
NOISE_BYTES = 1 << 20
"""A smaller change is not reported to the core."""
_PROC = Path("/proc")
MAX_FOREIGN_PIDS = 16
"""No more are reported for a GPU."""
MAX_CONTEXT_BYTES = 2 << 30
"""No CUDA context costs more; a client that seems to has memory that it does not report."""


def reported(gpu: str, clients: Mapping[int, Client]) -> dict[int, int]:
    """The unswappable memory that the clients of a GPU report now."""
    return {client.id: client.seats[gpu].fixed for client in clients.values() if gpu in client.seats}


def measured(gpu: str, sample: Sample, clients: Mapping[int, Client], before: Mapping[int, int]) -> MemoryMeasured:
    """The memory of processes that are not clients, and the cost of one context. That cost is the memory of a client
    that has one context and nothing else. The lowest counts: a client that hides memory does not raise it for all.

    `before` is what clients had reported when the sample was taken. A process that NVML does not list has no memory on
    the GPU; of one listed with 0 bytes NVML does not know how much it has. The connections of
    one process share what it has."""
    ours: dict[int, list[Client]] = {}
    for client in clients.values():
        if gpu in client.seats:
            ours.setdefault(client.pid, []).append(client)
    foreign = 0
    contexts: list[int] = []
    for pid, used in sample.processes.items():
        if pid not in ours:
            foreign += used
            continue
        memory = ours[pid][0].seats[gpu].reported
        if memory.contexts == 1 and memory.used == 0 and 0 < used <= MAX_CONTEXT_BYTES:
            contexts.append(used)
    return MemoryMeasured(gpu, foreign, min(contexts, default=None), _processes(sample, ours, before))


def _processes(
    sample: Sample, ours: Mapping[int, list[Client]], before: Mapping[int, int]
) -> tuple[ProcessMemory, ...]:
    found: list[ProcessMemory] = []
    for pid, clients in ours.items() if sample.processes else ():
        left = sample.processes.get(pid, 0)
        if left or pid not in sample.processes:
            for client in clients:
                fixed = before.get(client.id, 0)
                used = min(left, fixed)
                left -= used
                if fixed:
                    found.append(ProcessMemory(client.id, used, fixed))
    return tuple(found)


def _without(sample: Sample, newcomers: set[int]) -> Sample:
    return replace(sample, processes={pid: used for pid, used in sample.processes.items() if pid not in newcomers})


def _may_register(pid: int) -> bool:
    try:
        return loads_library(_PROC / str(pid))
    except OSError:
        return False


class NvmlPoll:
    """Samples every GPU, more often while clients are registered or NVML lists a process. A process that exits has
    memory until the driver has freed it, and counts as foreign meanwhile.

    Programs of an earlier scheduler, and those that ran without one, register within two seconds of the start, one
    after the other. If those that have not registered yet counted as foreign, allocations of the others would be
    refused. So nothing is measured while the node settles, and a process with the library counts from its second look
    on."""

    def __init__(
        self, engine: Engine, nvml: Nvml, *, see_strangers: Callable[[str, Iterable[int]], None] | None = None
    ) -> None:
        self._engine = engine
        self._nvml = nvml
        self._see_strangers = see_strangers
        self._has_registered = asyncio.Event()
        self._last: dict[str, MemoryMeasured] = {}
        self._foreign: dict[str, set[int]] = {}
        """The processes that were not clients at the last look, by GPU. A new one may still register."""
        self._lost: set[str] = set()
        self._is_used = False
        """NVML has listed a process in this round."""

    def discover(self) -> int:
        """Report the GPUs to the core; returns their number."""
        gpus = self._nvml.discover()
        for gpu in gpus:
            link = 0 if gpu.link is None else gpu.link.copy_bytes_per_s
            is_assumed = gpu.shares_host_memory
            self._engine.post(
                GpuFound(gpu.uuid, gpu.total_bytes, gpu.index, gpu.name, is_assumed, link_bytes_per_s=link)
            )
        return len(gpus)

    def observe(self, step: Step) -> None:
        """A client registered."""
        self._has_registered.set()

    async def run(self) -> None:
        while True:
            while self._engine.node.is_settling:
                await asyncio.sleep(SETTLING_INTERVAL_S)
            self._has_registered.clear()
            self._lost &= self._engine.node.gpus.keys()
            self._is_used = False
            for gpu in list(self._engine.node.gpus):
                await self._measure(gpu)
            if self._is_used or self._engine.node.clients:
                await asyncio.sleep(INTERVAL_S)
            else:
                await self._wait_for_a_client()

    async def _wait_for_a_client(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._has_registered.wait(), UNUSED_INTERVAL_S)

    def _client_pids(self) -> set[int]:
        return {client.pid for client in self._engine.node.clients.values()}

    def _ask_nvml(self, gpu: str) -> asyncio.Future[tuple[Sample, set[int]]]:
        """NVML's answer, and which of its processes are new and may still register. A driver in trouble may take long
        or never answer, so NVML is called in a daemon thread: neither the event loop nor the end of this process waits
        for it."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Sample, set[int]]] = loop.create_future()
        known = self._foreign.get(gpu, set()) | self._client_pids()

        def deliver(sample: tuple[Sample, set[int]] | None, error: Exception | None) -> None:
            if answer.cancelled():
                return
            if error is not None:
                answer.set_exception(error)
            elif sample is not None:
                answer.set_result(sample)

        def ask() -> None:
            sample, error = None, None
            try:
                listed = self._nvml.sample(gpu)
                sample = listed, {pid for pid in listed.processes.keys() - known if _may_register(pid)}
            except Exception as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(deliver, sample, error)

        threading.Thread(target=ask, name="nvml", daemon=True).start()
        return answer

    async def _measure(self, gpu: str) -> None:
        before = reported(gpu, self._engine.node.clients)
        try:
            sample, newcomers = await self._ask_nvml(gpu)
        except (GpuLostError, NvmlUnavailableError) as error:
            if gpu not in self._lost:
                self._lost.add(gpu)
                log.warning(f"NVML no longer reports {gpu}: {error}")
            return
        self._lost.discard(gpu)
        self._is_used = self._is_used or bool(sample.processes)
        foreign = sample.processes.keys() - self._client_pids()
        if self._see_strangers is not None:
            self._see_strangers(gpu, foreign)
        if sample.utilization_percent is not None and gpu in self._engine.node.gpus:
            self._engine.post(UtilizationMeasured(gpu, sample.utilization_percent))
        lasting = sorted(foreign & self._foreign.get(gpu, set()))[:MAX_FOREIGN_PIDS]
        self._foreign[gpu] = foreign
        counted = _without(sample, newcomers & foreign)
        event = replace(measured(gpu, counted, self._engine.node.clients, before), foreign_pids=tuple(lasting))
        last = self._last.get(gpu, MemoryMeasured(gpu, 0))
        is_other_context = event.context_bytes not in (None, last.context_bytes)
        is_other_foreign = abs(event.foreign - last.foreign) >= NOISE_BYTES
        is_other_process = (event.processes, event.foreign_pids) != (last.processes, last.foreign_pids)
        if is_other_foreign or is_other_context or is_other_process:
            self._last[gpu] = event
            self._engine.post(event)

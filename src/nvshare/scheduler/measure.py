"""What NVML sees: the GPUs at start, and, while there are clients, memory of processes that are not ours."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping

from nvshare.core.events import ClientRegistered, GpuFound, MemoryMeasured
from nvshare.core.node import Client
from nvshare.inventory.gpus import Sample
from nvshare.inventory.nvml import GpuLostError, Nvml, NvmlUnavailableError
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.log import log
from nvshare.scheduler.step import Step

INTERVAL_S = 2.0
NOISE_BYTES = 1 << 20
"""A change of less is not worth a step."""
MOST_CONTEXT_BYTES = 2 << 30
"""No context costs more; a client that seems to say so has memory that it does not tell of."""


def measured(gpu: str, sample: Sample, clients: Mapping[int, Client]) -> MemoryMeasured:
    """What a sample says, given who is a client. What one context costs shows in a client that has nothing else; the
    cheapest counts, so that one that hides memory does not make everybody's contexts dear."""
    ours = {client.pid: client for client in clients.values() if gpu in client.seats}
    foreign = 0
    contexts: list[int] = []
    for pid, used in sample.processes.items():
        client = ours.get(pid)
        if client is None:
            foreign += used
            continue
        memory = client.seats[gpu].memory
        if memory.contexts == 1 and memory.used == 0 and 0 < used <= MOST_CONTEXT_BYTES:
            contexts.append(used)
    return MemoryMeasured(gpu, foreign, min(contexts, default=None))


class Measurements:
    """Samples every GPU that NVML knows, as long as somebody is registered; otherwise it sleeps.

    Where strangers are to be looked for it never sleeps: a process without the library registers nowhere."""

    def __init__(
        self, engine: Engine, nvml: Nvml, *, see_strangers: Callable[[str, Iterable[int]], None] | None = None
    ) -> None:
        self._engine = engine
        self._nvml = nvml
        self._see_strangers = see_strangers
        self._somebody = asyncio.Event()
        self._last: dict[str, MemoryMeasured] = {}
        self._lost: set[str] = set()

    def discover(self) -> int:
        """Tell the core which GPUs there are."""
        gpus = self._nvml.discover()
        for gpu in gpus:
            self._engine.post(GpuFound(gpu.uuid, gpu.total_bytes))
        return len(gpus)

    def observe(self, step: Step) -> None:
        if isinstance(step.event, ClientRegistered):
            self._somebody.set()

    async def run(self) -> None:
        while True:
            if self._see_strangers is None:
                await self._somebody.wait()
            self._lost &= self._engine.node.gpus.keys()
            for gpu in list(self._engine.node.gpus):
                await self._sample(gpu)
            if not self._engine.node.clients:
                self._somebody.clear()
            await asyncio.sleep(INTERVAL_S)

    def _sampled(self, gpu: str) -> asyncio.Future[Sample]:
        """NVML's answer. It can take long, even for ever, while a driver is in trouble: so it is asked in a thread that
        neither the event loop nor the end of this process waits for."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Sample] = loop.create_future()

        def settle(sample: Sample | None, error: Exception | None) -> None:
            if answer.cancelled():
                return
            if error is not None:
                answer.set_exception(error)
            elif sample is not None:
                answer.set_result(sample)

        def ask() -> None:
            sample, error = None, None
            try:
                sample = self._nvml.sample(gpu)
            except Exception as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(settle, sample, error)

        threading.Thread(target=ask, name="nvml", daemon=True).start()
        return answer

    async def _sample(self, gpu: str) -> None:
        try:
            sample = await self._sampled(gpu)
        except (GpuLostError, NvmlUnavailableError) as error:
            if gpu not in self._lost:
                self._lost.add(gpu)
                log.warning(f"NVML no longer tells about {gpu}: {error}")
            return
        self._lost.discard(gpu)
        if self._see_strangers is not None:
            clients = {client.pid for client in self._engine.node.clients.values()}
            self._see_strangers(gpu, sample.processes.keys() - clients)
        event = measured(gpu, sample, self._engine.node.clients)
        last = self._last.get(gpu, MemoryMeasured(gpu, 0))
        is_news = abs(event.foreign - last.foreign) >= NOISE_BYTES or event.context_bytes not in (
            None,
            last.context_bytes,
        )
        if is_news:
            self._last[gpu] = event
            self._engine.post(event)

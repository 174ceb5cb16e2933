"""Watches the health of GPUs with NVML: XID errors in a thread of their own, and a probe of each GPU at an interval."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from nvshare.inventory.gpus import Xid
from nvshare.inventory.nvml import GpuLostError, Nvml, NvmlUnavailableError
from nvshare.plugin.health import Health

log = logging.getLogger(__name__)

_XID_WAIT_MS = 1000

Publish = Callable[[Mapping[str, str]], Awaitable[None]]
"""publish(unhealthy GPUs, each with the reason)"""


class HealthWatch:
    """Publishes each change. `run()` goes on until it is cancelled."""

    def __init__(
        self, nvml: Nvml, gpus: tuple[str, ...], *, ignored_xids: Iterable[int], probe_s: float, publish: Publish
    ) -> None:
        self._nvml = nvml
        self._gpus = gpus
        self._health = Health(gpus, ignored_xids=ignored_xids)
        self._probe_s = probe_s
        self._publish = publish
        self._stopping = threading.Event()

    async def run(self) -> None:
        thread = self._start_xid_thread(asyncio.get_running_loop())
        try:
            await self._probe_loop()
        finally:
            self._stopping.set()
            if thread is not None:
                await asyncio.to_thread(thread.join)  # it is inside NVML, which must stay open until then

    def _start_xid_thread(self, loop: asyncio.AbstractEventLoop) -> threading.Thread | None:
        unwatched = self._nvml.watch_xids(self._gpus)
        if unwatched:
            log.warning(
                "Cannot watch XID errors of %s; only a GPU that does not answer is detected", ", ".join(unwatched)
            )
        if len(unwatched) == len(self._gpus):
            return None
        thread = threading.Thread(target=self._wait_for_xids, args=(loop,), name="xid", daemon=True)
        thread.start()
        return thread

    def _wait_for_xids(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping.is_set():
            try:
                xid = self._nvml.wait_xid(_XID_WAIT_MS)
            except GpuLostError as error:
                log.warning("%s", error)
                self._stopping.wait(_XID_WAIT_MS / 1000)  # NVML returns at once in this state; the probes go on
                continue
            if xid is not None:
                with contextlib.suppress(RuntimeError):  # the loop may have been closed
                    asyncio.run_coroutine_threadsafe(self._handle_xid(xid), loop)

    async def _handle_xid(self, xid: Xid) -> None:
        log.warning("XID error %d on GPU %s", xid.code, xid.uuid or "(unknown)")
        if self._health.xid(xid.uuid, xid.code, time.monotonic()):
            await self._report()

    async def _probe_loop(self) -> None:
        while True:
            changed = [await self._probe(uuid) for uuid in self._gpus]
            if any(changed):
                await self._report()
            await asyncio.sleep(self._probe_s)

    async def _probe(self, uuid: str) -> bool:
        answers, needs_recovery = True, None
        try:
            await asyncio.to_thread(self._nvml.sample, uuid)
            needs_recovery = await asyncio.to_thread(self._nvml.needs_recovery, uuid)
        except (GpuLostError, NvmlUnavailableError):
            answers = False
        return self._health.probed(uuid, time.monotonic(), answers=answers, needs_recovery=needs_recovery)

    async def _report(self) -> None:
        unhealthy = self._health.unhealthy()
        for uuid in self._gpus:
            log.warning("GPU %s: %s", uuid, unhealthy.get(uuid, "healthy"))
        await self._publish(unhealthy)

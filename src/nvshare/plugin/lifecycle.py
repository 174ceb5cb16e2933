"""Being a device plugin for as long as kubelet comes and goes.

Kubelet wipes its plugin directory when it starts, our socket too, and learns of plugins only when they register. So the
life of a plugin is a loop: serve, register, and when anything about that is no longer true, end the streams, stop, and
begin again. What must be true is looked up in the file system, after inotify says that it is time to look:

    our own socket is still the one we made
    kubelet.sock is still the one we registered with (a restart gives it another inode)
    kubelet still holds a ListAndWatch stream open (it may drop us and stay)

Serving comes before registering because kubelet dials back inside Register; the old stream ends before the new
registration because kubelet otherwise takes its end for the death of the new one and drops allocatable to 0."""

import asyncio
import contextlib
import logging
import random
from pathlib import Path

import grpc

from nvshare.inotify import Inotify
from nvshare.plugin.api import deviceplugin_pb2 as api
from nvshare.plugin.api import deviceplugin_pb2_grpc as api_grpc
from nvshare.plugin.service import PREFERENCES, DevicePlugin

log = logging.getLogger(__name__)

API_VERSION = "v1beta1"
_REGISTER_S = 15.0
_FIRST_STREAM_S = 10.0
_PAUSE_S = (0.05, 1.0)

Identity = tuple[int, int, int]


class Lifecycle:
    """Keeps one DevicePlugin registered with kubelet. `run()` ends only by being cancelled."""

    def __init__(self, plugin: DevicePlugin, *, directory: Path, socket: str, resource: str) -> None:
        self._plugin = plugin
        self._directory = directory
        self._own = directory / socket
        self._kubelet = directory / "kubelet.sock"
        self._resource = resource
        self._look = asyncio.Event()
        self._pause_s = _PAUSE_S[0]
        self.registrations = 0

    async def run(self) -> None:
        """Serve and register, again and again."""
        inotify = Inotify(self._look.set)
        inotify.watch(self._directory)
        try:
            while True:
                await self._until_kubelet_is_there()
                await self._one_life()
        finally:
            inotify.close()

    async def _until_kubelet_is_there(self) -> None:
        if _identity(self._kubelet) is None:
            log.info("Waiting for kubelet (%s)", self._kubelet)
        while _identity(self._kubelet) is None:
            await self._look.wait()
            self._look.clear()

    async def _one_life(self) -> None:
        self._own.unlink(missing_ok=True)
        server = grpc.aio.server()
        api_grpc.add_DevicePluginServicer_to_server(self._plugin, server)  # type: ignore[no-untyped-call]
        server.add_insecure_port(f"unix://{self._own}")
        await server.start()
        try:
            kubelet, own = _identity(self._kubelet), _identity(self._own)
            if kubelet is not None and own is not None and await self._register():
                await self._while_true(kubelet, own)
        finally:
            await self._plugin.end_streams()
            await server.stop(grace=0.5)
            self._plugin.reopen()

    async def _register(self) -> bool:
        try:
            async with grpc.aio.insecure_channel(f"unix://{self._kubelet}") as channel:
                kubelet = api_grpc.RegistrationStub(channel)  # type: ignore[no-untyped-call]
                await kubelet.Register(self._request(), timeout=_REGISTER_S)
        except grpc.aio.AioRpcError as error:
            log.warning("Kubelet did not take the registration (%s); trying again", error.details())
            await self._pause()
            return False
        self._pause_s = _PAUSE_S[0]
        self.registrations += 1
        log.info("Registered %s with kubelet", self._resource)
        return True

    def _request(self) -> api.RegisterRequest:
        # The options are here too for kubelets that do not ask GetDevicePluginOptions.
        return api.RegisterRequest(
            version=API_VERSION, endpoint=self._own.name, resource_name=self._resource, options=PREFERENCES
        )

    async def _pause(self) -> None:
        """Wait before another try: for a change in the directory, at most for a moment that grows."""
        self._look.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s * random.uniform(0.5, 1.0)):  # noqa: S311 - jitter
                await self._look.wait()
        self._pause_s = min(self._pause_s * 2, _PAUSE_S[1])

    async def _while_true(self, kubelet: Identity, own: Identity) -> None:
        """Return when kubelet has gone, has come anew, or no longer listens to us."""
        streamless_since: float | None = asyncio.get_running_loop().time()
        while _identity(self._kubelet) == kubelet and _identity(self._own) == own:
            now = asyncio.get_running_loop().time()
            if self._plugin.streams:
                streamless_since = None
            elif streamless_since is None:
                log.warning("Kubelet closed our stream; registering again")
                return
            elif now - streamless_since > _FIRST_STREAM_S:
                log.warning("Kubelet took the registration but never listened; registering again")
                return
            await self._next_look(None if streamless_since is None else streamless_since + _FIRST_STREAM_S - now + 0.1)
        log.info("Kubelet was restarted; serving and registering again")

    async def _next_look(self, at_most_s: float | None) -> None:
        looks = {asyncio.ensure_future(event.wait()) for event in (self._look, self._plugin.stream_changed)}
        try:
            await asyncio.wait(looks, timeout=at_most_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for look in looks:
                look.cancel()
        self._look.clear()
        self._plugin.stream_changed.clear()


def _identity(path: Path) -> Identity | None:
    """What tells one socket from a later one under the same name; None when there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns

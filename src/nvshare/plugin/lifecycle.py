"""Keeps the device plugin registered with kubelet, across restarts of kubelet.

When kubelet starts it empties its plugin directory, including the plugin's socket, and plugins have to register again.
So this is a loop: serve, register, and when one of these conditions is no longer true, end the streams, stop the server
and begin again. inotify tells when to check them:

    the plugin's own socket is still the one that it made
    kubelet.sock is still the one that it registered with (a restart of kubelet gives another inode)
    kubelet has a ListAndWatch stream open (kubelet can drop a plugin without a restart)

Serving starts before registering, because kubelet connects to the plugin inside Register. Old streams end before the
new registration: otherwise kubelet takes the end of an old stream for the end of the new one and sets allocatable to 0.

Each server has a socket with a name of its own. Kubelet may notice the end of the old stream while it registers the
new server. Kubelet 1.37 knows plugins by the paths of their sockets: with one path for both it forgets the new one's
client, never notices that it ends, and refuses every later registration at that path ("already connected") until it
restarts.
"""

import asyncio
import contextlib
import logging
import random
import secrets
import socket
from pathlib import Path

import grpc

from nvshare.inotify import Inotify
from nvshare.plugin.api import deviceplugin_pb2 as api
from nvshare.plugin.api import deviceplugin_pb2_grpc as api_grpc
from nvshare.plugin.service import PREFERENCES, DevicePlugin

log = logging.getLogger(__name__)

API_VERSION = "v1beta1"
_REGISTER_TIMEOUT_S = 15.0
_FIRST_STREAM_TIMEOUT_S = 10.0
_PAUSE_S = (0.05, 1.0)

Identity = tuple[int, int, int]


class Lifecycle:
    """Keeps one DevicePlugin registered with kubelet. `run()` goes on until it is cancelled."""

    def __init__(self, plugin: DevicePlugin, *, directory: Path, name: str, resource: str) -> None:
        self._plugin = plugin
        self._directory = directory
        self._name = name
        self._kubelet = directory / "kubelet.sock"
        self._resource = resource
        self._look = asyncio.Event()
        self._pause_s = _PAUSE_S[0]
        self.registrations = 0

    async def run(self) -> None:
        """Serve and register, in a loop."""
        inotify = Inotify(self._look.set)
        inotify.watch(self._directory)
        try:
            self._remove_old_sockets()
            while True:
                await self._wait_for_kubelet()
                await self._serve_once()
        finally:
            inotify.close()

    async def _wait_for_kubelet(self) -> None:
        if _identity(self._kubelet) is None:
            log.info("Waiting for kubelet (%s)", self._kubelet)
        while _identity(self._kubelet) is None:
            await self._look.wait()
            self._look.clear()

    def _remove_old_sockets(self) -> None:
        """Those of earlier plugins that were killed: nobody listens there. Kubelet removes them only when it starts."""
        for path in self._directory.glob(f"{self._name}*.sock"):
            with socket.socket(socket.AF_UNIX) as probe:
                probe.setblocking(False)
                with contextlib.suppress(OSError):
                    try:
                        probe.connect(str(path))
                    except ConnectionRefusedError:
                        path.unlink()

    async def _serve_once(self) -> None:
        path = self._directory / f"{self._name}-{secrets.token_hex(4)}.sock"
        server = grpc.aio.server()
        api_grpc.add_DevicePluginServicer_to_server(self._plugin, server)  # type: ignore[no-untyped-call]
        server.add_insecure_port(f"unix://{path}")
        await server.start()
        try:
            kubelet, own = _identity(self._kubelet), _identity(path)
            if kubelet is not None and own is not None and await self._register(path):
                await self._while_registered(kubelet, path, own)
        finally:
            await self._plugin.end_streams()
            await server.stop(grace=0.5)
            path.unlink(missing_ok=True)
            self._plugin.reopen()

    async def _register(self, own: Path) -> bool:
        try:
            async with grpc.aio.insecure_channel(f"unix://{self._kubelet}") as channel:
                kubelet = api_grpc.RegistrationStub(channel)  # type: ignore[no-untyped-call]
                await kubelet.Register(self._request(own), timeout=_REGISTER_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            log.warning("Kubelet refused the registration (%s); trying again", error.details())
            await self._pause()
            return False
        self._pause_s = _PAUSE_S[0]
        self.registrations += 1
        log.info("Registered %s with kubelet", self._resource)
        return True

    def _request(self, own: Path) -> api.RegisterRequest:
        # The options are in the request too, for kubelets that do not call GetDevicePluginOptions.
        return api.RegisterRequest(
            version=API_VERSION, endpoint=own.name, resource_name=self._resource, options=PREFERENCES
        )

    async def _pause(self) -> None:
        """Wait before another try: for a change in the directory, at most for a time that doubles."""
        self._look.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s * random.uniform(0.5, 1.0)):  # noqa: S311 - jitter
                await self._look.wait()
        self._pause_s = min(self._pause_s * 2, _PAUSE_S[1])

    async def _while_registered(self, kubelet: Identity, path: Path, own: Identity) -> None:
        """Return when kubelet has ended or restarted, or has closed the stream."""
        streamless_since: float | None = asyncio.get_running_loop().time()
        while _identity(self._kubelet) == kubelet and _identity(path) == own:
            now = asyncio.get_running_loop().time()
            if self._plugin.streams:
                streamless_since = None
            elif streamless_since is None:
                log.warning("Kubelet closed the stream; registering again")
                return
            elif now - streamless_since > _FIRST_STREAM_TIMEOUT_S:
                log.warning("Kubelet accepted the registration but did not connect; registering again")
                return
            await self._wait_for_change(
                None if streamless_since is None else streamless_since + _FIRST_STREAM_TIMEOUT_S - now + 0.1
            )
        log.info("Kubelet was restarted; serving and registering again")

    async def _wait_for_change(self, at_most_s: float | None) -> None:
        looks = {asyncio.ensure_future(event.wait()) for event in (self._look, self._plugin.stream_changed)}
        try:
            await asyncio.wait(looks, timeout=at_most_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for look in looks:
                look.cancel()
        self._look.clear()
        self._plugin.stream_changed.clear()


def _identity(path: Path) -> Identity | None:
    """Tells a socket from a later one with the same name; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns

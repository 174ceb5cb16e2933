"""A fake kubelet: the plugin manager's behaviour that device plugins must live with, over real gRPC sockets.

- Register dials the plugin back before it answers, and fails if nobody serves there.
- The end of any ListAndWatch stream of a resource, even an older one, drops what is allocatable to nothing.
- A start wipes every socket in the directory.
- As kubelet 1.37 does, it knows plugins by the paths of their sockets. The end of a stream removes all clients of its
  path; a registration at a path that is still known is refused, and also removes all clients of that path. With
  `notices_ends_late` it notices the end of a stream only while the next plugin registers."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc

from nvshare.plugin.api import deviceplugin_pb2 as api
from nvshare.plugin.api import deviceplugin_pb2_grpc as api_grpc


class FakeKubelet(api_grpc.RegistrationServicer):
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.socket = directory / "kubelet.sock"
        self.registrations: list[api.RegisterRequest] = []
        self.devices: dict[str, str] = {}
        self.history: list[int] = []
        self.options: api.DevicePluginOptions | None = None
        self.stub: Any = None
        self._server: Any = None
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._channels: list[Any] = []
        self.notices_ends_late = False
        self._is_registering = asyncio.Event()
        self._clients: list[str] = []
        self._connected: set[str] = set()

    async def start(self) -> None:
        for path in self.directory.iterdir():
            path.unlink(missing_ok=True)
        self._server = grpc.aio.server()
        api_grpc.add_RegistrationServicer_to_server(self, self._server)  # type: ignore[no-untyped-call]
        self._server.add_insecure_port(f"unix://{self.socket}")
        await self._server.start()

    async def stop(self, *, leave_socket: bool = False) -> None:
        """Stop as after SIGTERM, or, with `leave_socket`, as after SIGKILL: the socket file stays behind."""
        for task in self._tasks:
            task.cancel()
        for channel in self._channels:
            await channel.close()
        self._tasks.clear()
        self._channels.clear()
        await self._server.stop(grace=0)
        self.devices = {}
        self._clients.clear()
        self._connected.clear()
        if leave_socket:
            self.socket.touch()

    async def drop_plugin(self) -> None:
        """Close the stream and stay, as kubelet does after an error on its side."""
        for channel in self._channels:
            await channel.close()
        self._channels.clear()

    @property
    def allocatable(self) -> int:
        return sum(1 for health in self.devices.values() if health == "Healthy")

    async def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(condition)

    async def Register(self, request: api.RegisterRequest, context: Any) -> api.Empty:  # noqa: N802
        channel = grpc.aio.insecure_channel(f"unix://{self.directory / request.endpoint}")
        self.stub = api_grpc.DevicePluginStub(channel)  # type: ignore[no-untyped-call]
        try:
            self.options = await self.stub.GetDevicePluginOptions(api.Empty(), timeout=60)
        except grpc.aio.AioRpcError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, f"cannot dial back: {error.details()}")
        self._channels.append(channel)
        self._clients.append(request.endpoint)
        await self._notice_ends()
        if request.endpoint in self._connected:
            self._forget_clients(request.endpoint)
            await context.abort(grpc.StatusCode.UNKNOWN, f"device plugin already connected: {request.endpoint}")
        self._connected.add(request.endpoint)
        task = asyncio.create_task(self._follow(self.stub, request.endpoint))
        self._tasks.add(task)
        async with self._changed:
            self.registrations.append(request)
            self._changed.notify_all()
        return api.Empty()

    async def _notice_ends(self) -> None:
        """The ends of streams that are noticed only now."""
        if self.notices_ends_late and self._tasks:
            self._is_registering.set()
            await asyncio.wait(self._tasks)
            self._is_registering.clear()

    def _forget_clients(self, endpoint: str) -> None:
        self._clients = [client for client in self._clients if client != endpoint]

    async def _follow(self, stub: Any, endpoint: str) -> None:
        try:
            async for answer in stub.ListAndWatch(api.Empty()):
                await self._offer({device.ID: device.health for device in answer.devices})
        except (grpc.aio.AioRpcError, asyncio.CancelledError):
            pass
        if self.notices_ends_late:
            await self._is_registering.wait()
        if endpoint in self._clients:
            self._forget_clients(endpoint)
            self._connected.discard(endpoint)
        await self._offer({})

    async def _offer(self, devices: dict[str, str]) -> None:
        async with self._changed:
            self.devices = devices
            self.history.append(self.allocatable)
            self._changed.notify_all()

"""A fake kubelet: the plugin manager's behaviour that device plugins must live with, over real gRPC sockets.

- Register dials the plugin back before it answers, and fails if nobody serves there.
- The end of any ListAndWatch stream of a resource, even an older one, drops what is allocatable to nothing.
- A start wipes every socket in the directory."""

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

    async def start(self) -> None:
        for path in self.directory.iterdir():
            path.unlink()
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
        task = asyncio.create_task(self._follow(self.stub))
        self._tasks.add(task)
        async with self._changed:
            self.registrations.append(request)
            self._changed.notify_all()
        return api.Empty()

    async def _follow(self, stub: Any) -> None:
        try:
            async for answer in stub.ListAndWatch(api.Empty()):
                await self._offer({device.ID: device.health for device in answer.devices})
        except (grpc.aio.AioRpcError, asyncio.CancelledError):
            pass
        await self._offer({})

    async def _offer(self, devices: dict[str, str]) -> None:
        async with self._changed:
            self.devices = devices
            self.history.append(self.allocatable)
            self._changed.notify_all()

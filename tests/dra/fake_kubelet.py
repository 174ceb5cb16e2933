"""Kubelet as a DRA driver meets it: it finds the registration socket, asks, registers, and calls the driver."""

import asyncio
from pathlib import Path
from typing import Any

import grpc

from nvshare.dra.api import dra_pb2 as api
from nvshare.dra.service import HEALTH_SERVICES, PLUGIN_SERVICES, REGISTRATION_SERVICE


class FakeKubelet:
    def __init__(self, registry_dir: Path, version: str = "v1.DRAPlugin") -> None:
        self._registry_dir = registry_dir
        self._service = PLUGIN_SERVICES[version]
        self._channels: list[Any] = []
        self.info: Any = None
        self._driver: Any = None

    async def find(self, name: str = "gpu.nvshare.com-reg.sock", seconds: float = 60) -> None:
        """Wait for the driver's socket and register it, as the plugin manager does; it looks again after an error."""
        async with asyncio.timeout(seconds):
            while not await self._register(self._registry_dir / name):
                await asyncio.sleep(0.05)
        self._driver = self._channel(Path(self.info.endpoint))

    async def _register(self, path: Path) -> bool:
        """One try, whole: the server behind the socket may end between its two questions."""
        channel = self._channel(path)
        status = _unary(channel, REGISTRATION_SERVICE, "NotifyRegistrationStatus", api.RegistrationStatusResponse)
        try:
            self.info = await _unary(channel, REGISTRATION_SERVICE, "GetInfo", api.PluginInfo)(api.InfoRequest())
            await status(api.RegistrationStatus(plugin_registered=True))
        except grpc.aio.AioRpcError:
            return False
        return True

    def _channel(self, path: Path) -> Any:
        # A pool of its own: kubelet dials again for each call, it never uses a connection to a socket that is gone.
        options = [("grpc.use_local_subchannel_pool", 1)]
        self._channels.append(grpc.aio.insecure_channel(f"unix://{path}", options))
        return self._channels[-1]

    async def prepare(self, *claims: tuple[str, str]) -> dict[str, Any]:
        request = api.NodePrepareResourcesRequest(claims=_claims(claims))
        call = _unary(self._driver, self._service, "NodePrepareResources", api.NodePrepareResourcesResponse)
        return dict((await call(request, timeout=45)).claims)

    async def unprepare(self, *claims: tuple[str, str]) -> dict[str, str]:
        request = api.NodeUnprepareResourcesRequest(claims=_claims(claims))
        call = _unary(self._driver, self._service, "NodeUnprepareResources", api.NodeUnprepareResourcesResponse)
        return {uid: answer.error for uid, answer in (await call(request, timeout=45)).claims.items()}

    def health(self, version: str = "v1.DRAResourceHealth") -> Any:
        """The stream of health reports."""
        call = self._driver.unary_stream(
            f"/{HEALTH_SERVICES[version]}/NodeWatchResources",
            request_serializer=api.NodeWatchResourcesRequest.SerializeToString,
            response_deserializer=api.NodeWatchResourcesResponse.FromString,
        )
        return call(api.NodeWatchResourcesRequest())

    async def stop(self) -> None:
        for channel in self._channels:
            await channel.close()


def _claims(claims: tuple[tuple[str, str], ...]) -> list[Any]:
    return [api.Claim(namespace="team", name=name, uid=uid) for name, uid in claims]


def _unary(channel: Any, service: str, method: str, answer: Any) -> Any:
    return channel.unary_unary(
        f"/{service}/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=answer.FromString,
    )

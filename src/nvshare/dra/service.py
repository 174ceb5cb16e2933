"""The gRPC services that kubelet calls. They only translate; the decisions are in claims.py.

Kubelet asks for a service by a short name when the driver registers, and calls it by the full one. Both versions of a
service have the same messages, so one handler serves both."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import grpc

from nvshare.claim_file import PreparedClaim
from nvshare.dra.api import dra_pb2 as api
from nvshare.dra.devices import DRIVER
from nvshare.dra.preparation import Preparation

PLUGIN_SERVICES = {
    "v1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin",
    "v1beta1.DRAPlugin": "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin",
}
HEALTH_SERVICES = {
    "v1.DRAResourceHealth": "v1.DRAResourceHealth",
    "v1alpha1.DRAResourceHealth": "v1alpha1.DRAResourceHealth",
}
REGISTRATION_SERVICE = "pluginregistration.Registration"
_REFRESH_S = 10.0
"""Kubelet takes a health report for unknown after 30 s."""


class DeviceHealth:
    """The health of the node's devices, for kubelet's streams."""

    def __init__(self, pool: str, devices: Mapping[str, str]) -> None:
        self._pool = pool
        self._devices = devices
        """By UUID of the GPU: the name of the device."""
        self._unhealthy: Mapping[str, str] = {}
        self._changed = asyncio.Condition()

    async def set_unhealthy(self, unhealthy: Mapping[str, str]) -> None:
        """From now on these GPUs, each with its reason, and no others are unhealthy."""
        async with self._changed:
            self._unhealthy = dict(unhealthy)
            self._changed.notify_all()

    async def watch(self, request: Any, context: Any) -> AsyncIterator[api.NodeWatchResourcesResponse]:
        """All devices now, after every change, and often enough that kubelet believes it."""
        while True:
            sent = self._unhealthy
            yield self._report(sent)
            async with self._changed:
                try:
                    async with asyncio.timeout(_REFRESH_S):
                        await self._changed.wait_for(lambda: self._unhealthy is not sent)  # noqa: B023
                except TimeoutError:
                    pass

    def _report(self, unhealthy: Mapping[str, str]) -> api.NodeWatchResourcesResponse:
        now = int(time.time())
        return api.NodeWatchResourcesResponse(
            devices=[
                api.DeviceHealth(
                    device=api.DeviceIdentifier(pool_name=self._pool, device_name=name),
                    health=api.HealthStatus.UNHEALTHY if uuid in unhealthy else api.HealthStatus.HEALTHY,
                    last_updated_time=now,
                    message=unhealthy.get(uuid, ""),
                )
                for uuid, name in self._devices.items()
            ]
        )


def plugin_handlers(preparation: Preparation, health: DeviceHealth) -> list[grpc.GenericRpcHandler]:
    """What the driver serves on its own socket."""

    async def prepare(request: Any, context: Any) -> api.NodePrepareResourcesResponse:
        answers = await _each(request.claims, lambda claim: _prepared(preparation, claim))
        return api.NodePrepareResourcesResponse(claims=answers)

    async def unprepare(request: Any, context: Any) -> api.NodeUnprepareResourcesResponse:
        answers = await _each(request.claims, lambda claim: _unprepared(preparation, claim))
        return api.NodeUnprepareResourcesResponse(claims=answers)

    plugin = {
        "NodePrepareResources": _unary(prepare, api.NodePrepareResourcesRequest),
        "NodeUnprepareResources": _unary(unprepare, api.NodeUnprepareResourcesRequest),
    }
    watch = {
        "NodeWatchResources": grpc.unary_stream_rpc_method_handler(
            health.watch,
            request_deserializer=api.NodeWatchResourcesRequest.FromString,
            response_serializer=_serialize,
        )
    }
    handlers = [grpc.method_handlers_generic_handler(name, plugin) for name in PLUGIN_SERVICES.values()]
    return handlers + [grpc.method_handlers_generic_handler(name, watch) for name in HEALTH_SERVICES.values()]


def registration_handler(endpoint: str, notify: Callable[[bool, str], None]) -> grpc.GenericRpcHandler:
    """What the driver serves in kubelet's registration directory."""

    async def info(request: Any, context: Any) -> api.PluginInfo:
        versions = [*PLUGIN_SERVICES, *HEALTH_SERVICES]
        return api.PluginInfo(type="DRAPlugin", name=DRIVER, endpoint=endpoint, supported_versions=versions)

    async def status(request: Any, context: Any) -> api.RegistrationStatusResponse:
        notify(request.plugin_registered, request.error)
        return api.RegistrationStatusResponse()

    methods = {
        "GetInfo": _unary(info, api.InfoRequest),
        "NotifyRegistrationStatus": _unary(status, api.RegistrationStatus),
    }
    return grpc.method_handlers_generic_handler(REGISTRATION_SERVICE, methods)


def _unary(method: Callable[[Any, Any], Awaitable[Any]], request: Any) -> grpc.RpcMethodHandler:
    return grpc.unary_unary_rpc_method_handler(
        method, request_deserializer=request.FromString, response_serializer=_serialize
    )


def _serialize(message: Any) -> bytes:
    return bytes(message.SerializeToString())


async def _each(claims: Sequence[Any], answer: Callable[[Any], Awaitable[Any]]) -> dict[str, Any]:
    answers = await asyncio.gather(*(answer(claim) for claim in claims))
    return {claim.uid: one for claim, one in zip(claims, answers, strict=True)}


async def _prepared(preparation: Preparation, claim: Any) -> api.NodePrepareResourceResponse:
    done = await preparation.prepare(claim.namespace, claim.name, claim.uid)
    if isinstance(done, str):
        return api.NodePrepareResourceResponse(error=done)
    return api.NodePrepareResourceResponse(devices=_devices(preparation, done))


def _devices(preparation: Preparation, claim: PreparedClaim) -> list[api.Device]:
    return [
        api.Device(
            request_names=[device.request],
            pool_name=device.pool,
            device_name=device.device,
            cdi_device_ids=preparation.store.device_ids(claim, device.gpu),
            share_id=device.share_id,
        )
        for device in claim.devices
    ]


async def _unprepared(preparation: Preparation, claim: Any) -> api.NodeUnprepareResourceResponse:
    return api.NodeUnprepareResourceResponse(error=await preparation.unprepare(claim.uid))

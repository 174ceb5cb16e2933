"""The gRPC service that kubelet calls. It only translates; the decisions are in slots.py and container.py."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc

from nvshare.plugin.api import deviceplugin_pb2 as api
from nvshare.plugin.api import deviceplugin_pb2_grpc as api_grpc
from nvshare.plugin.container import Options, container
from nvshare.plugin.slots import Offer, Rank, SlotError, gpus_of, preferred, slot_ids

log = logging.getLogger(__name__)

PREFERENCES = api.DevicePluginOptions(get_preferred_allocation_available=True)


class DevicePlugin(api_grpc.DevicePluginServicer):
    """Serves a fixed set of offers whose health may change."""

    def __init__(self, offers: Sequence[Offer], rank: Rank, options: Options, *, prepare: Callable[[], None]) -> None:
        self._offers = offers
        self._rank = rank
        self._options = options
        self._prepare = prepare
        self._unhealthy: frozenset[str] = frozenset()
        self._changed = asyncio.Condition()
        self._closing = False
        self.streams = 0
        self.stream_changed = asyncio.Event()

    async def set_unhealthy(self, gpus: frozenset[str]) -> None:
        """From now on these GPUs, and no others, are reported unhealthy."""
        async with self._changed:
            self._unhealthy = gpus
            self._changed.notify_all()

    async def end_streams(self) -> None:
        """End every ListAndWatch; kubelet must not see an old stream end after a new registration."""
        async with self._changed:
            self._closing = True
            self._changed.notify_all()

    def reopen(self) -> None:
        """Allow streams again, for another server."""
        self._closing = False

    def devices(self) -> api.ListAndWatchResponse:
        """The full list of slots: kubelet wants all of them each time."""
        return api.ListAndWatchResponse(
            devices=[
                api.Device(ID=slot, health="Unhealthy" if offer.gpu.uuid in self._unhealthy else "Healthy")
                for offer in self._offers
                for slot in slot_ids(offer)
            ]
        )

    async def GetDevicePluginOptions(self, request: Any, context: Any) -> api.DevicePluginOptions:  # noqa: N802
        """New kubelets call this; old ones read the options of the registration."""
        return PREFERENCES

    async def ListAndWatch(self, request: Any, context: Any) -> AsyncIterator[api.ListAndWatchResponse]:  # noqa: N802
        """The list now and after every change, until one side ends the stream."""
        self.streams += 1
        self.stream_changed.set()
        try:
            while not self._closing:
                sent = self._unhealthy
                yield self.devices()
                async with self._changed:
                    await self._changed.wait_for(lambda: self._unhealthy != sent or self._closing)  # noqa: B023
        finally:
            self.streams -= 1
            self.stream_changed.set()

    async def GetPreferredAllocation(self, request: Any, context: Any) -> api.PreferredAllocationResponse:  # noqa: N802
        """A preference only. An error would fail the pod, so for an unknown slot there is no preference."""
        try:
            answers = [self._prefer(part) for part in request.container_requests]
        except SlotError as error:
            log.warning("No preferred allocation for kubelet: %s", error)
            answers = [[] for _ in request.container_requests]
        return api.PreferredAllocationResponse(
            container_responses=[api.ContainerPreferredAllocationResponse(deviceIDs=slots) for slots in answers]
        )

    def _prefer(self, part: Any) -> list[str]:
        return preferred(
            self._rank,
            self._offers,
            available=part.available_deviceIDs,
            must=list(part.must_include_deviceIDs),
            size=part.allocation_size,
        )

    async def Allocate(self, request: Any, context: Any) -> api.AllocateResponse:  # noqa: N802
        """What each container gets; kubelet keeps the answer as long as the pod exists."""
        try:
            self._prepare()
            gpus = [gpus_of(part.devices_ids, self._offers) for part in request.container_requests]
        except SlotError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except (OSError, RuntimeError) as error:
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the library cannot be installed on this host: {error}")
        for uuids in gpus:
            log.info("A container gets %s", ", ".join(uuids))
        return api.AllocateResponse(container_responses=[self._answer(uuids) for uuids in gpus])

    def _answer(self, uuids: Sequence[str]) -> api.ContainerAllocateResponse:
        plan = container(uuids, self._options)
        return api.ContainerAllocateResponse(
            envs=dict(plan.envs),
            mounts=[api.Mount(container_path=m.container, host_path=m.host, read_only=True) for m in plan.mounts],
            cdi_devices=[api.CDIDevice(name=name) for name in plan.cdi_devices],
        )

    async def PreStartContainer(self, request: Any, context: Any) -> api.PreStartContainerResponse:  # noqa: N802
        """Kubelet does not call this with our options."""
        return api.PreStartContainerResponse()

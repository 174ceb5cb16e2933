"""Makes kubelet forget the slots that ended pods had of the device plugin.

Kubelet (1.36, 1.37) looks for the device plugin of a container that requests nvshare.com/gpu as long as it remembers
that it gave slots, also if the pod has a claim in place of slots. Five minutes after the plugin has gone it does not
find it any more, and the container fails with "endpoint not found in cache for a registered resource". It forgets the
slots of pods that have ended only when it gives slots again, or when it is asked which pod has what (List of
podresources). So it is asked that before such a container starts. The answer is not needed."""

import logging
from pathlib import Path

import grpc

SOCKET = "kubelet.sock"
LIST = "/v1.PodResourcesLister/List"
_TIMEOUT_S = 5.0

log = logging.getLogger(__name__)


async def forget_ended_slots(directory: Path) -> None:
    """Ask kubelet at its socket in this directory. If that fails the pod may start all the same."""
    try:
        async with grpc.aio.insecure_channel(f"unix://{directory / SOCKET}") as channel:
            await channel.unary_unary(LIST)(b"", timeout=_TIMEOUT_S)
    except grpc.aio.AioRpcError as error:
        log.warning("Kubelet cannot be asked at %s which pods have slots: %s", directory / SOCKET, error.details())

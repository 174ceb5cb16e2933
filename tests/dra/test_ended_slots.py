"""Kubelet forgets the slots of ended pods when it is asked who has what; the driver asks when that matters."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc

from dra.fake_resource_api import FakeResourceApi
from dra.whole_driver import claim, driver
from nvshare.dra.ended_slots import LIST, SOCKET

MADE_FOR_SLOTS = {"resource.kubernetes.io/extended-resource-claim": "true"}


@contextlib.asynccontextmanager
async def pod_resources(place: Path) -> AsyncIterator[list[bytes]]:
    """Kubelet's podresources; the requests that came."""
    came: list[bytes] = []

    async def answer(request: bytes, context: Any) -> bytes:
        came.append(request)
        return b""

    _, service, method = LIST.split("/")
    server = grpc.aio.server()
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    (place / "pod-resources").mkdir()
    server.add_insecure_port(f"unix://{place / 'pod-resources' / SOCKET}")
    await server.start()
    yield came
    await server.stop(None)


def test_kubelet_is_asked_before_a_pod_that_requests_slots_starts_and_not_for_other_claims(place: Path) -> None:
    async def story() -> None:
        async with pod_resources(place) as came, FakeResourceApi() as server, driver(place, server) as kubelet:
            ordinary, made = claim(server, "u-1"), claim(server, "u-2", annotations=MADE_FOR_SLOTS)
            assert (await kubelet.prepare(ordinary))["u-1"].error == ""
            assert came == []
            assert (await kubelet.prepare(made))["u-2"].error == ""
            assert came == [b""]

    asyncio.run(story())


def test_a_kubelet_that_cannot_be_asked_keeps_no_claim_from_being_prepared(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as kubelet:
            made = claim(server, "u-1", annotations=MADE_FOR_SLOTS)
            assert (await kubelet.prepare(made))["u-1"].error == ""

    asyncio.run(story())

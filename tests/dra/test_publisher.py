"""ResourceSlices: what is written, and when."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from dra.fake_resource_api import FakeResourceApi
from dra.test_devices import shared
from nvshare.dra.devices import Json, device, slice_specs
from nvshare.dra.publisher import Publisher, Slice, UnsupportedClusterError, Write, normalized, plan
from nvshare.kube.client import Api

NAME = "node-1-gpu.nvshare.com-0"
OWNER: Json = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "uid-of-node", "controller": True}


def specs(*uuids: str, unhealthy: str = "") -> list[Json]:
    return slice_specs("node-1", [device(shared(uuid), unhealthy) for uuid in uuids])


def known(spec: Json, generation: int = 3, version: str = "7") -> Slice:
    return Slice(version=version, generation=generation, spec=normalized(spec))


def generations(writes: list[Write]) -> list[object]:
    bodies: list[Any] = [write.body for write in writes if write.body]
    return [body["spec"]["pool"]["generation"] for body in bodies]


def test_nothing_is_written_when_the_server_has_what_is_wanted() -> None:
    (spec,) = specs("GPU-a")
    assert plan({NAME: known(spec)}, [spec], "node-1", OWNER) == []


def test_a_new_node_creates_its_slice_with_the_node_as_owner() -> None:
    (spec,) = specs("GPU-a")
    (write,) = plan({}, [spec], "node-1", OWNER)
    assert (write.how, write.name) == ("create", NAME)
    assert write.body is not None
    assert write.body["metadata"] == {"name": NAME, "ownerReferences": [OWNER]}
    assert generations([write]) == [1]


def test_a_change_replaces_the_slice_with_the_next_generation() -> None:
    (old,), (new,) = specs("GPU-a", "GPU-b"), specs("GPU-b", "GPU-a")
    (write,) = plan({NAME: known(old)}, [new], "node-1", OWNER)
    assert write.how == "replace"
    assert write.body is not None
    assert write.body["metadata"] == {"name": NAME, "ownerReferences": [OWNER], "resourceVersion": "7"}
    assert generations([write]) == [4]


def test_all_slices_of_a_pool_get_the_same_generation_and_one_too_many_is_deleted() -> None:
    (spec,) = specs("GPU-a")
    extra = NAME[:-1] + "1"
    writes = plan({NAME: known(spec), extra: known(spec, generation=5)}, [spec], "node-1", OWNER)
    assert [(write.how, write.name) for write in writes] == [("replace", NAME), ("delete", extra)]
    assert generations(writes) == [6]


def test_a_slice_with_an_older_generation_is_written_again() -> None:
    two = slice_specs("node-1", [device(shared(f"GPU-{number}")) for number in range(65)])
    names = [NAME, NAME[:-1] + "1"]
    found = {name: known(spec, generation=2 + at) for at, (name, spec) in enumerate(zip(names, two, strict=True))}
    assert generations(plan(found, two, "node-1", OWNER)) == [4, 4]


@contextlib.asynccontextmanager
async def publishing(server: FakeResourceApi, folder: Path) -> AsyncIterator[Publisher]:
    publisher = Publisher(Api(server.address), "node-1", folder / "lock")
    task = asyncio.create_task(publisher.keep())
    try:
        yield publisher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def first_slice(server: FakeResourceApi, publisher: Publisher) -> None:
    """GPU-a is published, and the slices are watched."""
    publisher.publish(specs("GPU-a"))
    await server.until(lambda: NAME in server.slices and server.count(watch=True) >= 1)


def names(server: FakeResourceApi) -> list[str]:
    return [device["name"] for device in server.devices()]


def test_slices_are_published_and_follow_what_is_wanted(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, publishing(server, tmp_path) as publisher:
            publisher.publish(specs("GPU-a", "GPU-b"))
            await server.until(lambda: names(server) == ["gpu-a", "gpu-b"])
            publisher.publish(specs("GPU-b", "GPU-a"))
            await server.until(lambda: names(server) == ["gpu-b", "gpu-a"])
            assert server.generations() == {2}
            assert server.writes == [("POST", "resourceslices"), ("PUT", NAME)]

    asyncio.run(story())


def test_slices_that_kubelet_deletes_come_back(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, publishing(server, tmp_path) as publisher:
            publisher.publish(specs("GPU-a"))
            for _ in range(3):
                await server.until(lambda: NAME in server.slices and server.count(watch=True) >= 1)
                await server.remove(NAME)
            await server.until(lambda: NAME in server.slices)
            assert server.generations() == {4}

    asyncio.run(story())


def test_a_slice_that_somebody_changed_is_corrected(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, publishing(server, tmp_path) as publisher:
            await first_slice(server, publisher)
            item = server.slices[NAME]
            changed = item | {"metadata": {"name": NAME}, "spec": item["spec"] | {"devices": []}}
            await server.store(changed)
            await server.until(lambda: names(server) == ["gpu-a"])
            assert server.generations() == {2}

    asyncio.run(story())


def test_a_restarted_driver_leaves_slices_alone_that_are_as_it_wants_them(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server:
            for uuids in (("GPU-a",), ("GPU-a",), ("GPU-a", "GPU-b")):
                async with publishing(server, tmp_path) as publisher:
                    lists = server.count(watch=False)
                    publisher.publish(specs(*uuids, unhealthy="XID error 79"))
                    await server.until(lambda: server.count(watch=False) > lists and len(names(server)) == len(uuids))  # noqa: B023
            assert server.writes == [("POST", "resourceslices"), ("PUT", NAME)]

    asyncio.run(story())


def test_a_conflict_reads_the_slice_again_and_writes(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, publishing(server, tmp_path) as publisher:
            await first_slice(server, publisher)
            server.slices[NAME]["metadata"]["resourceVersion"] = "102"  # unseen by the watch
            publisher.publish(specs("GPU-b"))
            await server.until(lambda: names(server) == ["gpu-b"])

    asyncio.run(story())


def test_a_server_that_was_set_back_to_older_versions_gets_the_slices_that_are_wanted(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, publishing(server, tmp_path) as publisher:
            await first_slice(server, publisher)
            backup = json.loads(json.dumps(server.slices[NAME]))
            publisher.publish(specs("GPU-b"))
            await server.until(lambda: names(server) == ["gpu-b"])
            await server.stop()
            server.version, server.oldest, server.history = 50, 200, []
            server.slices[NAME] = backup | {"metadata": backup["metadata"] | {"resourceVersion": "40"}}
            await server.start()
            await server.until(lambda: names(server) == ["gpu-b"])

    asyncio.run(story())


def test_a_server_that_answers_every_write_with_a_conflict_is_not_hammered(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, publishing(server, tmp_path) as publisher:
            await first_slice(server, publisher)
            server.slices[NAME]["metadata"]["resourceVersion"] = "1"  # older than what was seen
            began = time.monotonic()
            publisher.publish(specs("GPU-b"))
            await server.until(lambda: server.writes.count(("PUT", NAME)) >= 5)
            # Pauses of 0.1, 0.2, 0.4 and 0.8 s, each shortened to a half at most.
            assert time.monotonic() - began >= 0.7

    asyncio.run(story())


def test_a_server_that_refuses_is_asked_again(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, publishing(server, tmp_path) as publisher:
            server.refuse = (403, "forbidden")
            publisher.publish(specs("GPU-a"))
            await server.until(lambda: len(server.requests) >= 2)
            server.refuse = None
            await server.until(lambda: NAME in server.slices)

    asyncio.run(story())


def test_an_api_server_that_cannot_share_devices_ends_the_driver_with_the_remedy(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server:
            server.keeps_sharing = False
            publisher = Publisher(Api(server.address), "node-1", tmp_path / "lock")
            publisher.publish(specs("GPU-a"))
            with pytest.raises(UnsupportedClusterError, match=r"1\.36"):
                await publisher.keep()
            assert server.slices == {}

    asyncio.run(story())


def test_a_server_that_drops_taints_is_not_written_to_for_ever(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, publishing(server, tmp_path) as publisher:
            server.keeps_taints = False
            publisher.publish(specs("GPU-a", unhealthy="XID error 79"))
            await server.until(lambda: NAME in server.slices and server.count(watch=True) >= 1)
            for _ in range(3):
                await server.bookmark()  # each event wakes the publisher
                publisher.publish(specs("GPU-a", unhealthy="XID error 79"))
            publisher.publish(specs("GPU-b"))
            await server.until(lambda: names(server) == ["gpu-b"])
            assert server.writes == [("POST", "resourceslices"), ("PUT", NAME)]

    asyncio.run(story())


def test_an_answer_that_is_no_slice_ends_the_driver_instead_of_leaving_it_blind(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server:
            server.slices["odd"] = {"metadata": {"name": "odd", "resourceVersion": "1"}}
            publisher = Publisher(Api(server.address), "node-1", tmp_path / "lock")
            publisher.publish(specs("GPU-a"))
            with pytest.raises(KeyError):
                await asyncio.wait_for(publisher.keep(), 60)

    asyncio.run(story())


def test_of_two_drivers_only_one_writes_until_it_ends(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server:
            async with publishing(server, tmp_path) as old:
                old.publish(specs("GPU-a"))
                await server.until(lambda: names(server) == ["gpu-a"])
                new = Publisher(Api(server.address), "node-1", tmp_path / "lock")
                new.publish(specs("GPU-b"))
                waiting = asyncio.create_task(new.keep(lambda: new.publish(specs("GPU-d"))))
                old.publish(specs("GPU-c"))
                await server.until(lambda: names(server) == ["gpu-c"])
            # What the second wanted before is not written: what it depends on may have changed since.
            await server.until(lambda: names(server) == ["gpu-d"])
            assert len(server.writes) == 3
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    asyncio.run(story())

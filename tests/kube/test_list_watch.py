"""Listing and watching, with the pod watch as the example: what is asked after a refusal, and for which version."""

import asyncio
import time

import pytest

from kube.fake_apiserver import FakeApiServer
from kube.test_watch import GIB, changed, following, limited, not_older_than
from nvshare.core.events import PodRemoved


def test_410_inside_a_stream_lists_again_and_posts_only_the_difference() -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            for name in ("kept", "gone", "raised"):
                await server.put(limited(name, "1Gi"))
            async with following(server) as listener:
                await listener.take(4)
                await server.until(lambda: server.count(watch=True) == 1)
                seen = str(server.version)
                server.cut_connections()
                del server.pods["uid-gone"]
                server.pods["uid-raised"] = limited("raised", "3Gi")
                await server.forget_history()
                assert await listener.take(2) == [PodRemoved(pod="uid-gone"), changed("raised", 3 * GIB)]
                lists = [query for _, _, query in server.requests if "watch" not in query]
                assert [query["resourceVersion"] for query in lists] == ["0", seen]

    asyncio.run(story())


def test_a_list_after_410_accepts_nothing_older_than_was_seen() -> None:
    async def story() -> None:
        async with FakeApiServer() as server, following(server) as listener:
            await listener.take(1)
            await server.put(limited("a", "2Gi"))
            await listener.take(1)
            seen = str(server.version)
            await server.forget_history()
            await server.end_streams()
            await server.until(lambda: server.count(watch=False) == 2)
            last = [query for _, _, query in server.requests if "watch" not in query][-1]
            assert last == {"fieldSelector": "spec.nodeName=node-1"} | not_older_than(seen)

    asyncio.run(story())


def test_a_server_that_was_set_back_to_older_versions_is_asked_for_what_etcd_has() -> None:
    async def story() -> None:
        async with FakeApiServer() as server, following(server) as listener:
            await listener.take(1)
            await server.put(limited("a", "2Gi"))
            await listener.take(1)
            await server.stop()
            server.version, server.oldest, server.history = 50, 200, []
            server.pods["uid-a"] = limited("a", "1Gi")
            await server.start()
            assert await listener.take(1) == [changed("a", GIB)]
            lists = [query for _, _, query in server.requests if "watch" not in query]
            assert [query.get("resourceVersion") for query in lists[:3]] == ["0", "101", None]

    asyncio.run(story())


def test_410_as_a_status_lists_again() -> None:
    async def story() -> None:
        async with FakeApiServer() as server, following(server) as listener:
            await listener.take(1)
            server.refuse = (410, "Expired")
            await server.end_streams()
            await server.until(lambda: len(server.requests) >= 4)
            server.refuse = None
            await server.put(limited("a", "1Gi"))
            assert await listener.take(1) == [changed("a", GIB)]

    asyncio.run(story())


def test_a_server_that_refuses_is_not_hammered() -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            server.refuse = (403, "pods is forbidden")
            began = time.monotonic()
            async with following(server):
                await server.until(lambda: len(server.requests) >= 5)
            # Pauses of 0.1, 0.2, 0.4 and 0.8 s, each shortened to a half at most.
            assert time.monotonic() - began >= 0.75

    asyncio.run(story())


def test_a_watch_that_is_one_too_many_is_asked_for_again_when_the_server_says_and_nothing_is_listed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with FakeApiServer() as server, following(server) as listener:
            await listener.take(1)
            await server.until_watched(1)
            server.refuse = (429, "Too many requests, please try again later.")
            await server.end_streams()
            await server.until_watched(2)
            began = time.monotonic()
            server.refuse = None
            await server.put(limited("a", "1Gi"))
            assert await listener.take(1) == [changed("a", GIB)]
            assert time.monotonic() - began >= 1.0
            assert server.count(watch=False) == 1

    asyncio.run(story())
    assert "HTTP 429: Too many requests, please try again later.; the last limits stay in force" in caplog.text


def test_a_list_that_is_one_too_many_is_asked_for_again_when_the_server_says() -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            server.refuse = (429, "Too many requests, please try again later.")
            async with following(server) as listener:
                await server.until(lambda: server.count(watch=False) == 1)
                began = time.monotonic()
                server.refuse = None
                await listener.take(1)
                assert time.monotonic() - began >= 1.0
                assert server.count(watch=False) == 2

    asyncio.run(story())

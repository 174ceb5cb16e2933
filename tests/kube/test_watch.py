"""The pod watch against a fake API server: every way a stream can end, and what reaches the core."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from kube.fake_apiserver import FakeApiServer, pod
from nvshare.core.events import ClientRegistered, PodChanged, PodRemoved, PodsListed
from nvshare.core.model import SECOND, Claim, Settings
from nvshare.core.node import Node
from nvshare.kube import list_watch as module
from nvshare.kube.annotations import MEMORY_LIMIT, Complaint
from nvshare.kube.client import Api
from nvshare.kube.watch import PodEvent, PodWatch

GIB = 1 << 30


class Listener:
    """Collects what the watch posts and lets a test wait for it."""

    def __init__(self, server: FakeApiServer) -> None:
        self.events: list[PodEvent] = []
        self.complaints: list[tuple[str, str, Complaint]] = []
        self._more = asyncio.Event()
        self.tries = 0
        self.watch = PodWatch(Api(server.address), "node-1", post=self._post, complain=self._complain)
        self._pause = self.watch._pause
        self.watch._pause = self._failed  # type: ignore[method-assign]

    def _post(self, event: PodEvent) -> None:
        self.events.append(event)
        self._more.set()

    def _complain(self, pod: str, label: str, complaint: Complaint) -> None:
        self.complaints.append((pod, label, complaint))
        self._more.set()

    async def _failed(self, why: str, *, at_once: bool = False, at_least_s: int = 0) -> None:
        self.tries += 1
        self._more.set()
        await self._pause(why, at_once=at_once, at_least_s=at_least_s)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self._more.clear()
                await self._more.wait()

    async def take(self, count: int) -> list[PodEvent]:
        await self.until(lambda: len(self.events) >= count)
        taken, self.events = self.events, []
        return taken


@contextlib.asynccontextmanager
async def following(server: FakeApiServer) -> AsyncIterator[Listener]:
    listener = Listener(server)
    task = asyncio.create_task(listener.watch.run())
    try:
        yield listener
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def changed(name: str, limit: int | None = None) -> PodChanged:
    return PodChanged(pod=f"uid-{name}", label=f"default/{name}", limit=limit)


def limited(name: str, text: str) -> dict[str, object]:
    return pod(name, annotations={MEMORY_LIMIT: text})


def not_older_than(version: str) -> dict[str, str]:
    return {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}


def test_pods_are_listed_then_followed() -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            await server.put(limited("a", "2Gi"))
            async with following(server) as listener:
                assert await listener.take(2) == [changed("a", 2 * GIB), PodsListed()]
                await server.put(limited("a", "4Gi"))
                await server.put(pod("b"))
                await server.put(pod("a"))
                await server.delete("b")
                assert await listener.take(4) == [
                    changed("a", 4 * GIB),
                    changed("b"),
                    changed("a"),
                    PodRemoved(pod="uid-b"),
                ]
                assert server.requests[0][2] == {"fieldSelector": "spec.nodeName=node-1"} | not_older_than("0")
                assert server.count(watch=False) == 1

    asyncio.run(story())


def test_a_change_that_says_nothing_new_is_not_posted() -> None:
    async def story() -> None:
        async with FakeApiServer() as server, following(server) as listener:
            assert await listener.take(1) == [PodsListed()]
            await server.put(limited("a", "2Gi"))
            await server.put(limited("a", "2048Mi"))
            await server.put(pod("b"))
            assert await listener.take(2) == [changed("a", 2 * GIB), changed("b")]

    asyncio.run(story())


def test_a_clean_end_continues_from_the_last_version_without_a_list() -> None:
    async def story() -> None:
        async with FakeApiServer() as server, following(server) as listener:
            assert await listener.take(1) == [PodsListed()]
            await server.put(limited("a", "1Gi"))
            await listener.take(1)
            for round_ in range(2, 5):
                await server.end_streams()
                await server.until_watched(round_)
                await server.put(limited("a", f"{round_}Gi"))
                assert await listener.take(1) == [changed("a", round_ * GIB)]
            assert server.count(watch=False) == 1

    asyncio.run(story())


def test_an_outage_keeps_the_last_limits_and_the_return_posts_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST_PAUSE_S", 0.2)

    async def story() -> None:
        async with FakeApiServer() as server:
            await server.put(limited("a", "1Gi"))
            async with following(server) as listener:
                await listener.take(2)
                await server.until(lambda: server.count(watch=True) == 1)
                await server.stop()
                await server.put(limited("a", "2Gi"))
                await listener.until(lambda: listener.tries >= 3)
                assert listener.events == []
                await server.start()
                assert await listener.take(1) == [changed("a", 2 * GIB)]
                assert server.count(watch=False) == 1

    asyncio.run(story())


def test_a_bad_value_changes_nothing_and_is_complained_about_once() -> None:
    async def story() -> None:
        async with FakeApiServer() as server, following(server) as listener:
            assert await listener.take(1) == [PodsListed()]
            await server.put(limited("a", "2Gi"))
            await server.put(limited("a", "a lot"))
            await server.put(limited("a", "a lot"))
            await server.put(limited("a", "3Gi"))
            assert await listener.take(2) == [changed("a", 2 * GIB), changed("a", 3 * GIB)]
            assert [(uid, it.key, it.value) for uid, _, it in listener.complaints] == [("uid-a", MEMORY_LIMIT, "a lot")]

    asyncio.run(story())


def test_after_a_restart_a_bad_value_does_not_lift_the_limit_that_its_pod_was_told() -> None:
    node = Node(Settings(), epoch=2, settles_at=2 * SECOND, expects_pods=True)
    told = Claim("g0", 16 * GIB, limit=8 * GIB, budget=8 * GIB)

    async def story() -> None:
        async with FakeApiServer() as server:
            await server.put(limited("a", "8Gu"))
            async with following(server) as listener:
                for event in await listener.take(2):
                    node.handle(0, event)

    asyncio.run(story())
    node.handle(SECOND, ClientRegistered(1, "pod/uid-a", "a", "", (told,)))
    assert node.groups["pod/uid-a"].limit == 8 * GIB


def test_bookmarks_are_welcome_but_not_needed() -> None:
    async def story() -> None:
        async with FakeApiServer() as server, following(server) as listener:
            await listener.take(1)
            await server.until(lambda: server.count(watch=True) == 1)
            await server.bookmark()
            await server.end_streams()
            await server.until(lambda: server.count(watch=True) == 2)
            assert server.requests[-1][2]["resourceVersion"] == str(server.version)

    asyncio.run(story())


def test_a_pod_made_again_under_the_same_name_is_another_pod() -> None:
    async def story() -> None:
        async with FakeApiServer() as server, following(server) as listener:
            assert await listener.take(1) == [PodsListed()]
            await server.put(limited("a", "1Gi"))
            await server.delete("a")
            again = limited("a", "2Gi")
            again["metadata"]["uid"] = "uid-a2"  # type: ignore[index]
            await server.put(again)
            assert await listener.take(3) == [
                changed("a", GIB),
                PodRemoved(pod="uid-a"),
                PodChanged(pod="uid-a2", label="default/a", limit=2 * GIB),
            ]

    asyncio.run(story())


def test_a_static_pod_is_known_by_the_uid_that_its_cgroups_have() -> None:
    async def story() -> None:
        async with FakeApiServer() as server, following(server) as listener:
            assert await listener.take(1) == [PodsListed()]
            annotations = {MEMORY_LIMIT: "1Gi", "kubernetes.io/config.mirror": "0123456789abcdef0123456789abcdef"}
            await server.put(pod("static", annotations=annotations))
            await server.delete("static")
            uid = annotations["kubernetes.io/config.mirror"]
            assert await listener.take(2) == [
                PodChanged(pod=uid, label="default/static", limit=GIB),
                PodRemoved(pod=uid),
            ]

    asyncio.run(story())

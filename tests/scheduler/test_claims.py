"""ResourceClaims that the DRA driver has prepared: their limits reach the core, and pods that want more are told."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from kube.fake_apiserver import FakeApiServer, pod
from nvshare import claim_file
from nvshare.claim_file import PreparedClaim
from nvshare.config import load
from nvshare.core.events import ClaimEnded, ClaimPrepared, ClientRegistered, Event
from nvshare.core.model import Claim
from nvshare.journal import Step
from nvshare.kube.annotations import CORE_LIMIT, MEMORY_LIMIT
from nvshare.scheduler import back_off
from nvshare.scheduler.main import settings_of
from nvshare.scheduler.shutdown import Shutdown
from nvshare.scheduler.sources.claims import Claims
from support.cluster import cluster

GIB = 1 << 30


def put(folder: Path, uid: str, limit: int, **more: Any) -> None:
    """As the driver does: beside its place, and renamed."""
    fields = {"limits": {"g0": limit}} | more
    claim = PreparedClaim(uid=uid, namespace="default", name=f"c-{uid}", devices=(), **fields)
    path = folder / "claims" / claim_file.file_name(uid)
    fresh = path.with_suffix(".json.new")
    fresh.write_bytes(claim_file.encode(claim))
    fresh.replace(path)


class Posted:
    """An engine that keeps what is posted."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._more = asyncio.Event()

    def post(self, event: Event) -> None:
        self.events.append(event)
        self._more.set()

    async def take(self, count: int) -> list[Event]:
        async with asyncio.timeout(60):
            while len(self.events) < count:
                self._more.clear()
                await self._more.wait()
        taken, self.events = self.events, []
        return taken


def prepared(uid: str, limit: int, **more: Any) -> ClaimPrepared:
    return ClaimPrepared(uid=uid, label=f"default/c-{uid}", limits={"g0": limit}, **more)


def test_claims_that_could_not_be_read_because_of_a_defect_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(back_off, "FIRST_S", 0.01)

    class Defective(Claims):
        fails = True

        def read(self) -> None:
            if (tmp_path / "claims/u-1.json").exists() and self.fails:
                self.fails = False
                raise AssertionError("put in")
            super().read()

    async def story() -> None:
        engine = Posted()
        claims = Defective(engine, tmp_path, Shutdown(asyncio.get_running_loop()).retried)  # type: ignore[arg-type]
        claims.start()
        put(tmp_path, "u-1", GIB)
        assert await engine.take(1) == [prepared("u-1", GIB)]
        assert not claims.fails
        claims.close()

    asyncio.run(story())


def test_claims_are_read_at_the_start_and_followed(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "claims").mkdir()
        put(tmp_path, "u-1", GIB)
        engine = Posted()
        claims = Claims(engine, tmp_path)  # type: ignore[arg-type]
        claims.start()
        assert engine.events == [prepared("u-1", GIB)]
        await engine.take(1)
        more = {"weight": 7, "priority": -1, "core_limits": {"g0": 30}}
        put(tmp_path, "u-2", 2 * GIB, **more)
        assert await engine.take(1) == [prepared("u-2", 2 * GIB, **more)]
        assert claims.labels == {"default/c-u-1", "default/c-u-2"}
        (tmp_path / "claims/u-1.json").unlink()
        assert await engine.take(1) == [ClaimEnded("u-1")]
        claims.close()

    asyncio.run(story())


def test_a_file_that_is_no_claim_is_passed_over(tmp_path: Path) -> None:
    async def story() -> None:
        engine = Posted()
        claims = Claims(engine, tmp_path)  # type: ignore[arg-type]
        claims.start()
        (tmp_path / "claims/bad.json").write_text("{")
        (tmp_path / "claims/folder.json").mkdir()
        put(tmp_path, "u-1", GIB)
        assert await engine.take(1) == [prepared("u-1", GIB)]
        (tmp_path / "claims/bad.json").unlink()
        put(tmp_path, "u-2", GIB)
        assert await engine.take(1) == [prepared("u-2", GIB)]
        claims.close()

    asyncio.run(story())


def claiming(name: str, claim: str, limit: str | None = None) -> dict[str, Any]:
    item = pod(name, annotations={MEMORY_LIMIT: limit} if limit else None)
    item["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    return item


def test_an_annotation_above_the_claim_is_refused_with_an_event_and_one_below_it_counts(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "claims").mkdir()
        put(tmp_path, "u-1", 4 * GIB)
        async with FakeApiServer() as server, cluster(server, tmp_path) as (engine, kubernetes):
            await asyncio.wait_for(kubernetes.pods_listed.wait(), 60)
            await server.put(claiming("high", "c-u-1", "5Gi"))
            await server.until(lambda: bool(server.events))
            (event,) = server.events
            assert (event["reason"], event["involvedObject"]["name"]) == ("LimitAboveClaim", "high")
            assert f"{4 * GIB} bytes" in event["message"]
            assert engine.node.groups["pod/uid-high"].limit == 4 * GIB
            changed = asyncio.Event()
            engine.observers.append(lambda step: changed.set() if "pod/uid-low" in engine.node.groups else None)
            await server.put(claiming("low", "c-u-1", "1Gi"))
            await asyncio.wait_for(changed.wait(), 60)
            assert engine.node.groups["pod/uid-low"].limit == GIB
            assert len(server.events) == 1

    asyncio.run(story())


def test_an_annotation_above_what_the_claim_allows_on_one_of_two_gpus_is_refused_there(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "claims").mkdir()
        put(tmp_path, "u-1", 0, limits={"g0": 8 * GIB, "g1": 5 * GIB})
        async with FakeApiServer() as server, cluster(server, tmp_path) as (engine, kubernetes):
            await asyncio.wait_for(kubernetes.pods_listed.wait(), 60)
            await server.put(claiming("p", "c-u-1", "6Gi"))
            await server.until(lambda: bool(server.events))
            (event,) = server.events
            assert event["reason"] == "LimitAboveClaim"
            assert event["message"].endswith(f"in force: {5 * GIB} bytes on GPU g1")
            group = engine.node.groups["pod/uid-p"]
            assert (group.limit_on("g0"), group.limit_on("g1")) == (6 * GIB, 5 * GIB)

    asyncio.run(story())


def test_a_core_limit_above_the_claims_is_refused_with_an_event(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "claims").mkdir()
        put(tmp_path, "u-1", 4 * GIB, core_limits={"g0": 30})
        async with FakeApiServer() as server, cluster(server, tmp_path) as (engine, kubernetes):
            await asyncio.wait_for(kubernetes.pods_listed.wait(), 60)
            item = claiming("p", "c-u-1", "1Gi")
            item["metadata"]["annotations"][CORE_LIMIT] = "60"
            await server.put(item)
            await server.until(lambda: bool(server.events))
            (event,) = server.events
            assert (event["reason"], event["message"]) == (
                "LimitAboveClaim",
                f"{CORE_LIMIT}=60 is more than the pod's ResourceClaims allow; in force: 30 % of GPU g0",
            )
            assert engine.node.groups["pod/uid-p"].core_limit_on("g0") == 30

    asyncio.run(story())


def test_an_operator_who_allows_it_lets_an_annotation_exceed_the_claim(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "claims").mkdir()
        put(tmp_path, "u-1", 4 * GIB)
        settings = settings_of(load([], {"NVSHARE_ANNOTATION_ABOVE_CLAIM": "allow"}))
        async with FakeApiServer() as server, cluster(server, tmp_path, settings) as (engine, kubernetes):
            await asyncio.wait_for(kubernetes.pods_listed.wait(), 60)
            await server.put(claiming("p", "c-u-1", "5Gi"))
            await server.put(claiming("q", "c-u-1", "much"))
            await server.until(lambda: bool(server.events))
            # Events are posted in order: there is none of the first pod.
            assert [(it["reason"], it["involvedObject"]["name"]) for it in server.events] == [("BadAnnotation", "q")]
            assert engine.node.groups["pod/uid-p"].limit_on("g0") == 5 * GIB

    asyncio.run(story())


def test_a_process_without_the_library_in_a_pod_with_a_claim_is_reported(tmp_path: Path) -> None:
    async def story() -> None:
        uid = "0a1b2c3d-0000-4000-8000-000000000001"
        (tmp_path / "claims").mkdir()
        put(tmp_path, "u-1", 4 * GIB)
        (tmp_path / "proc/77").mkdir(parents=True)
        (tmp_path / "proc/77/cgroup").write_text(f"0::/kubepods/pod{uid}/abc\n")
        async with FakeApiServer() as server:
            item = claiming("p", "c-u-1")
            item["metadata"]["uid"] = uid
            await server.put(item)
            async with cluster(server, tmp_path) as (_, kubernetes):
                await asyncio.wait_for(kubernetes.pods_listed.wait(), 60)
                for _ in range(2):
                    kubernetes.see_strangers("g0", [77], proc=tmp_path / "proc")
                await server.until(lambda: bool(server.events))
                assert server.events[0]["reason"] == "NotShared"

    asyncio.run(story())


def test_the_claims_limit_is_in_force_for_a_process_that_registers(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "claims").mkdir()
        put(tmp_path, "u-1", 4 * GIB)
        async with FakeApiServer() as server:
            await server.put(claiming("p", "c-u-1"))
            async with cluster(server, tmp_path) as (engine, kubernetes):
                steps: list[Step] = []
                engine.observers.append(steps.append)
                await asyncio.wait_for(kubernetes.pods_listed.wait(), 60)
                actions = engine.node.handle(
                    time.monotonic_ns(), ClientRegistered(1, "pod/uid-p", "p", "", (Claim("g0", 16 * GIB),))
                )
                assert [action.limit for action in actions if hasattr(action, "limit")] == [4 * GIB]

    asyncio.run(story())

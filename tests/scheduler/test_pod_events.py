"""What a pod that waits is told by an Event."""

import asyncio
from pathlib import Path

from kube.fake_apiserver import FakeApiServer, pod
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.journal import Step
from nvshare.kube.annotations import CORE_LIMIT, PRIORITY, SPEC_CORE_LIMIT, SPEC_LIMIT, WEIGHT
from support.cluster import cluster

GPU = "GPU-1"


async def messages_of(server: FakeApiServer, folder: Path, report: ac.ReportLongWait) -> list[str]:
    """The Events after this report, while pod p1 holds the GPU and p2 waits."""
    for name in ("p1", "p2"):
        await server.put(pod(name))
    auto = Settings(quantum=QuantumRule(mode="auto"))
    async with cluster(server, folder, auto) as (engine, kubernetes):
        await kubernetes.pods_listed.wait()
        engine.post(ev.GpuFound(GPU, 10 * GIB))
        for client in (1, 2):
            claims = (Claim(GPU, 10 * GIB),)
            engine.post(
                ev.ClientRegistered(client, f"pod/uid-p{client}", f"default/p{client}", "train", claims, pid=client)
            )
            engine.post(ev.LockRequested(client, GPU, Memory(6 * GIB)))
        kubernetes.observe(Step(0, 0.0, ev.AlarmRang(), (report,)))
        await server.until(lambda: bool(server.events))
    return [event["message"] for event in server.events if event["reason"] == "WaitingForGPU"]


def test_a_long_wait_says_who_holds_the_gpu_and_when_it_will_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            wait = ac.ReportLongWait(2, GPU, 1, 30 * SECOND, 1, 1, 30 * SECOND)
            (message,) = await messages_of(server, tmp_path, wait)
            assert "place 1; it is held by default/p1 (train); it will probably start within 30 s" in message

    asyncio.run(story())


def test_a_pod_that_has_used_its_share_is_told_so(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            wait = ac.ReportLongWait(2, GPU, 2, 30 * SECOND, 0, 0, 0, is_held_back=True)
            (message,) = await messages_of(server, tmp_path, wait)
            assert message.endswith(": it has used its share of GPU time")

    asyncio.run(story())


def test_a_variable_that_cannot_be_read_is_no_bad_annotation(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeApiServer() as server, cluster(server, tmp_path) as (_, kubernetes):
            await kubernetes.pods_listed.wait()
            bad = [{"name": SPEC_LIMIT, "value": "lots"}, {"name": SPEC_CORE_LIMIT, "value": "half"}]
            await server.put(pod("p1", annotations={CORE_LIMIT: "some"}, env=bad))
            await server.until(lambda: len(server.events) == 3)
            assert [(event["reason"], event["message"].partition("=")[0]) for event in server.events] == [
                ("BadVariable", SPEC_LIMIT),
                ("BadAnnotation", CORE_LIMIT),
                ("BadVariable", SPEC_CORE_LIMIT),
            ]
            assert {event["message"].partition("; ")[2] for event in server.events} == {"it is ignored"}

    asyncio.run(story())


def test_a_paused_pod_is_told_that_it_is_paused(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeApiServer() as server:
            wait = ac.ReportLongWait(2, GPU, 1, 30 * SECOND, 1, 1, 30 * SECOND, is_paused=True)
            (message,) = await messages_of(server, tmp_path, wait)
            assert "it is paused, by its annotation nvshare.com/gpu-pause or by `nvsharectl pause`" in message

    asyncio.run(story())


def test_a_weight_that_the_policy_ignores_is_told_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeApiServer() as server, cluster(server, tmp_path) as (engine, kubernetes):
            await kubernetes.pods_listed.wait()

            async def told(count: int) -> list[str]:
                await server.until(lambda: len(server.events) == count)
                assert {event["reason"] for event in server.events} == {"WeightIgnored"}
                return [event["message"] for event in server.events]

            await server.put(pod("p1", annotations={WEIGHT: "300"}))
            reason = "has no effect: weights count only with policy fair, and the policy is priority"
            assert await told(1) == [f"{WEIGHT}=300 {reason}"]
            await server.put(pod("p1", annotations={WEIGHT: "300", PRIORITY: "1"}))
            engine.post(ev.PolicySet("fair"))
            engine.post(ev.PolicySet("fcfs"))
            await server.put(pod("p2", annotations={WEIGHT: "7"}))
            fcfs = reason.replace("priority", "fcfs")
            assert (await told(3))[1:] == [f"{WEIGHT}=300 {fcfs}", f"{WEIGHT}=7 {fcfs}"]

    asyncio.run(story())


def test_a_weight_of_a_claim_that_is_ignored_is_told_unless_the_operator_has_set_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with FakeApiServer() as server, cluster(server, tmp_path) as (engine, kubernetes):
            await kubernetes.pods_listed.wait()
            engine.post(ev.ClaimPrepared("u-1", "default/c", {GPU: GIB}, weight=200))
            engine.post(ev.WeightSet("pod/uid-p2", 50))
            for name in ("p2", "p1"):
                item = pod(name)
                item["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
                await server.put(item)
            await server.until(lambda: bool(server.events))
            assert [(event["involvedObject"]["name"], event["message"]) for event in server.events] == [
                (
                    "p1",
                    "The weight of 200 in its ResourceClaim has no effect: weights count only with policy fair, and the"
                    " policy is priority",
                )
            ]

    asyncio.run(story())

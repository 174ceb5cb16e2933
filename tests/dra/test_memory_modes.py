"""Two claims of one pod that name different memory modes: a process has one mode, so the second is refused."""

import asyncio
import json
from pathlib import Path

from dra.fake_kubelet import FakeKubelet
from dra.fake_resource_api import FakeResourceApi
from dra.test_claims import config
from dra.whole_driver import claim, driver, files


def test_claims_of_one_pod_with_different_memory_modes_are_refused(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as kubelet:
            managed = _claim(server, "u-1", "managed", "p-1")
            native = _claim(server, "u-2", "native", "p-1")
            errors = await _errors(kubelet, managed, native)
            (refused,) = [uid for uid, error in errors.items() if error]
            kept = "u-1" if refused == "u-2" else "u-2"
            assert f"of claim team/c-{kept}, which pod name-p-1 has too; all claims of a pod" in errors[refused]
            assert files(place) == {f"{kept}.json", f"nvshare.com-claim_{kept}.json"}
            # Kubelet asks again; the answer is the same until the other is gone.
            assert await _errors(kubelet, managed, native) == errors
            await kubelet.unprepare((f"c-{kept}", kept))
            assert await _errors(kubelet, (f"c-{refused}", refused)) == {refused: ""}

    asyncio.run(story())


def test_a_claim_that_was_prepared_for_another_pod_is_compared_by_the_pods_that_it_has_now(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as kubelet:
            shared = _claim(server, "u-1", "managed", "p-1")
            assert await _errors(kubelet, shared) == {"u-1": ""}
            _claim(server, "u-1", "managed", "p-1", "p-2")
            assert (
                "memoryMode native differs" in (await _errors(kubelet, _claim(server, "u-2", "native", "p-2")))["u-2"]
            )
            del server.claims["c-u-1"]
            assert await _errors(kubelet, ("c-u-2", "u-2")) == {"u-2": ""}

    asyncio.run(story())


def test_other_pods_may_have_other_modes_and_a_claim_without_one_follows(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as kubelet:
            claims = [
                _claim(server, "u-1", "managed", "p-1"),
                _claim(server, "u-2", "native", "p-2"),
                _claim(server, "u-3", None, "p-1"),
                _claim(server, "u-4", "managed", "p-1"),
            ]
            assert set((await _errors(kubelet, *claims)).values()) == {""}

    asyncio.run(story())


def _claim(server: FakeResourceApi, uid: str, mode: str | None, *pods: str) -> tuple[str, str]:
    """A claim that some pods use."""
    name, _ = claim(server, uid)
    body = json.loads(server.claims[name])
    body["status"]["reservedFor"] = [{"resource": "pods", "name": f"name-{pod}", "uid": pod} for pod in pods]
    body["status"]["allocation"]["devices"]["config"] = [config(memoryMode=mode)] if mode else []
    server.claims[name] = json.dumps(body).encode()
    return name, uid


async def _errors(kubelet: FakeKubelet, *claims: tuple[str, str]) -> dict[str, str]:
    return {uid: answer.error for uid, answer in (await kubelet.prepare(*claims)).items()}

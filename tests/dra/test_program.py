"""nvshare-dra-driver as a whole: the program, the simulated NVML, a fake kubelet and a fake API server."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dra.fake_resource_api import FakeResourceApi
from dra.test_claims import config
from dra.whole_driver import GIB, claim, command, driver, environment, files, flags
from nvshare import claim_file
from nvshare.dra.api import dra_pb2 as api
from nvshare.plugin.served_gpus import DEVICE_PLUGIN, GpuServedError, ServedGpus
from nvshare.simgpu.events import RECOVERED, inject_xid


def test_a_claim_is_prepared_placed_and_unprepared(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as kubelet:
            assert kubelet.info.type == "DRAPlugin"
            assert kubelet.info.supported_versions[0] == "v1.DRAPlugin"
            first, second = (device["name"] for device in server.devices())
            name, uid = claim(server, "u-1", shareID="s-1")
            for _ in range(2):
                answer = (await kubelet.prepare((name, uid)))[uid]
                assert answer.error == ""
                (device,) = answer.devices
                assert (device.device_name, device.pool_name, device.share_id) == (first, "node-1", "s-1")
                uuid = device.cdi_device_ids[0].removeprefix("nvidia.com/gpu=")
                assert list(device.cdi_device_ids)[1] == "nvshare.com/claim=u-1"
            prepared = claim_file.decode((place / "operator/claims/u-1.json").read_bytes())
            assert prepared.limits == {uuid: 8 * GIB}
            assert prepared.devices[0].consumed_bytes == 8 * GIB
            # The GPU that is less loaded is offered first from now on.
            await server.until(lambda: [device["name"] for device in server.devices()] == [second, first])
            assert await kubelet.unprepare((name, uid)) == {uid: ""}
            assert await kubelet.unprepare((name, uid)) == {uid: ""}
            assert files(place) == set()
            await server.until(lambda: [device["name"] for device in server.devices()] == [first, second])

    asyncio.run(story())


def test_each_claim_of_a_request_is_answered_on_its_own(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as kubelet:
            good, bad = claim(server, "u-1"), claim(server, "u-2", memory=None)
            server.claims["c-u-3"] = b'{"metadata": {"uid": "u-9"}}'
            answers = await kubelet.prepare(good, bad, ("c-u-3", "u-3"), ("c-u-4", "u-4"), ("c", "../u"))
            errors = {uid: answer.error for uid, answer in answers.items()}
            assert errors.pop("u-1") == ""
            assert "DRAConsumableCapacity" in errors.pop("u-2")
            assert "another one" in errors.pop("u-3")
            assert "404" in errors.pop("u-4")
            assert list(errors) == ["../u"]
            assert files(place) == {"u-1.json", "nvshare.com-claim_u-1.json"}
            assert (await kubelet.unprepare(("c", "../u")))["../u"] != ""

    asyncio.run(story())


def test_unprepare_waits_for_a_prepare_that_kubelet_has_given_up(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as kubelet:
            name, uid = claim(server, "u-1")
            server.gate.clear()
            preparing = asyncio.create_task(kubelet.prepare((name, uid)))
            await server.until(lambda: any("/resourceclaims/" in path for _, path, _ in server.requests))
            unpreparing = asyncio.create_task(kubelet.unprepare((name, uid)))
            server.gate.set()
            await asyncio.gather(preparing, unpreparing)
            assert files(place) == set()

    asyncio.run(story())


def test_an_xid_error_taints_the_gpu_and_kubelet_is_told(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server, "--probe-seconds=0.2") as kubelet:
            broken = server.devices()[0]["name"]
            uuid = server.devices()[0]["attributes"]["uuid"]["string"]
            for version in ("v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"):
                reports = kubelet.health(version)
                assert _unhealthy(await reports.read()) == {}
                inject_xid(uuid, 79, directory=place / "sim")
                await server.until(lambda: bool(_tainted(server)))
                assert _tainted(server) == [broken]
                assert _unhealthy(await reports.read()) == {broken: "XID error 79"}
                inject_xid(uuid, RECOVERED, directory=place / "sim")
                await server.until(lambda: not _tainted(server))
                assert _unhealthy(await reports.read()) == {}
                reports.cancel()

    asyncio.run(story())


def _tainted(server: FakeResourceApi) -> list[str]:
    return [device["name"] for device in server.devices() if device.get("taints")]


def _unhealthy(report: Any) -> dict[str, str]:
    assert len(report.devices) == 2
    return {it.device.device_name: it.message for it in report.devices if it.health == api.HealthStatus.UNHEALTHY}


def test_a_socket_that_was_removed_comes_back(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as kubelet:
            (place / "registry/gpu.nvshare.com-reg.sock").unlink()
            await kubelet.find()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("flag", "code", "why"),
    [
        ("--gpus=7", 2, "no GPU '7'"),
        ("--oversubscription=much", 2, "is not a number"),
        ("--oversubscription=0", 2, "from 0.1 to 100"),
        ("--node-name=", 2, "NVSHARE_NODE_NAME"),
        ("--ignore-xids=a", 2, "--ignore-xids"),
        ("--slots=0", 2, "slots"),
    ],
)
def test_a_wrong_setting_is_one_line(place: Path, flag: str, code: int, why: str) -> None:
    done = subprocess.run(
        command(place, 1, flag), env=environment(place), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, why in done.stderr) == (code, True), done.stderr


def test_a_gpu_is_not_offered_by_the_device_plugin_as_well(place: Path) -> None:
    plugin = ServedGpus(place / "operator/served", DEVICE_PLUGIN)

    async def story() -> str:
        async with FakeResourceApi() as server, driver(place, server):
            uuid: str = server.devices()[0]["attributes"]["uuid"]["string"]
            with pytest.raises(GpuServedError):
                plugin.take([uuid])
            return uuid

    uuid = asyncio.run(story())
    plugin.take([uuid])
    line = _refusal(place)
    plugin.release()
    assert f"GPU {uuid} is offered by nvshare-device-plugin on this node; exclude the node from one" in line


def test_without_the_directory_of_locks_it_offers_nothing(place: Path) -> None:
    (place / "operator/served").touch()
    assert "cannot check whether nvshare-device-plugin offers the same GPUs" in _refusal(place)


def _refusal(place: Path) -> str:
    """The last line that the driver writes before it ends with an error. It has not reached an API server by then."""
    done = subprocess.run(
        command(place, 1), env=environment(place), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1, done.stderr
    return done.stderr.splitlines()[-1]


def test_outside_a_cluster_it_says_so(place: Path) -> None:
    kept = {name: value for name, value in environment(place).items() if not name.startswith("KUBERNETES_")}
    line = [sys.executable, "-m", "nvshare.dra.main", *flags(place)]
    done = subprocess.run(line, env=kept, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, "not inside a Kubernetes cluster" in done.stderr) == (2, True), done.stderr


def test_parameters_reach_the_container(place: Path) -> None:
    async def story() -> None:
        async with FakeResourceApi() as server, driver(place, server) as kubelet:
            name, uid = claim(server, "u-1")
            body = json.loads(server.claims[name])
            body["status"]["allocation"]["devices"]["config"] = [config(memoryMode="native", weight=7)]
            server.claims[name] = json.dumps(body).encode()
            await kubelet.prepare((name, uid))
            assert "NVSHARE_MEMORY_MODE=native" in (place / "cdi/nvshare.com-claim_u-1.json").read_text()
            assert claim_file.decode((place / "operator/claims/u-1.json").read_bytes()).weight == 7

    asyncio.run(story())

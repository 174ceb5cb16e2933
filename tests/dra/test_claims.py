"""From a ResourceClaim to what is prepared."""

import json
from typing import Any

import pytest

from dra.test_devices import GIB, shared
from nvshare import claim_file
from nvshare.claim_file import PreparedClaim, PreparedDevice
from nvshare.dra.claims import ClaimError, prepare, read_claim, read_config

GPUS = {it.name: it for it in (shared("GPU-a"), shared("GPU-b"))}
CONFIG = {"apiVersion": "gpu.nvshare.com/v1alpha1", "kind": "NvshareConfig"}


def result(request: str = "gpu", device: str = "gpu-a", memory: int | None = 8 * GIB, **more: object) -> dict[str, Any]:
    consumed = {} if memory is None else {"consumedCapacity": {"memory": str(memory), "slots": "1"}}
    return {"request": request, "driver": "gpu.nvshare.com", "pool": "node-1", "device": device, **consumed, **more}


def config(source: str = "FromClaim", requests: list[str] | None = None, **fields: object) -> dict[str, Any]:
    opaque = {"driver": "gpu.nvshare.com", "parameters": CONFIG | fields}
    return {"source": source, "opaque": opaque} | ({"requests": requests} if requests else {})


def claim(*results: dict[str, Any], configs: list[dict[str, Any]] | None = None) -> bytes:
    devices = {"results": list(results), "config": configs or []}
    metadata = {"name": "c", "namespace": "team", "uid": "u-1", "labels": {"unknown": "fields are no error"}}
    return json.dumps({"metadata": metadata, "status": {"allocation": {"devices": devices}}}).encode()


def prepared(content: bytes) -> PreparedClaim:
    return prepare(read_claim(content), uid="u-1", node="node-1", gpus=GPUS)


def test_the_limit_is_the_memory_that_the_claim_consumes() -> None:
    assert prepared(claim(result(shareID="s-1"))) == PreparedClaim(
        uid="u-1",
        namespace="team",
        name="c",
        devices=(
            PreparedDevice(
                request="gpu", pool="node-1", device="gpu-a", gpu="GPU-a", share_id="s-1", consumed_bytes=8 * GIB
            ),
        ),
        limits={"GPU-a": 8 * GIB},
    )


def test_two_shares_of_one_gpu_add_up_and_two_gpus_do_not() -> None:
    made = prepared(claim(result("a"), result("b", memory=GIB), result("c", "gpu-b", 2 * GIB)))
    assert made.limits == {"GPU-a": 9 * GIB, "GPU-b": 2 * GIB}
    assert [device.request for device in made.devices] == ["a", "b", "c"]


def test_devices_of_other_drivers_and_nodes_are_not_ours() -> None:
    made = prepared(claim(result(), result(pool="node-2"), result(driver="nic.example.com")))
    assert len(made.devices) == 1


def test_the_claim_overrides_the_class() -> None:
    configs = [config(weight=200, memoryLimit="4Gi"), config("FromClass", weight=50, priority=3, memoryMode="native")]
    made = prepared(claim(result(), configs=configs))
    assert (made.limits, made.weight, made.priority, made.memory_mode) == ({"GPU-a": 4 * GIB}, 200, 3, "native")


def test_a_configuration_may_be_for_one_request_or_one_alternative_of_it() -> None:
    configs = [config(requests=["a"], memoryLimit="1Gi"), config(requests=["b/big"], memoryLimit="2Gi")]
    made = prepared(claim(result("a/small"), result("b/big", "gpu-b"), configs=configs))
    assert made.limits == {"GPU-a": GIB, "GPU-b": 2 * GIB}


def test_the_core_limits_of_a_claims_devices_on_a_gpu_add_up_to_the_whole_gpu_at_most() -> None:
    def limits(*results: dict[str, Any], **by_request: int) -> dict[str, int] | None:
        configs = [config(requests=[request], coreLimit=percent) for request, percent in by_request.items()]
        return prepared(claim(*results, configs=configs)).core_limits

    two_gpus = (result("a"), result("b", "gpu-b"))
    assert limits(*two_gpus) is None
    assert limits(*two_gpus, a=30, b=60) == {"GPU-a": 30, "GPU-b": 60}
    assert limits(*two_gpus, a=30) == {"GPU-a": 30}
    one_gpu = (result("a"), result("b"))
    assert limits(*one_gpu, a=30, b=40) == {"GPU-a": 70}
    assert limits(*one_gpu, a=60, b=60) == {"GPU-a": 100}
    assert limits(*one_gpu, a=30) is None, "the other device has all of the GPU's time"


def test_the_core_limit_of_the_claim_overrides_that_of_the_class() -> None:
    configs = [config("FromClass", coreLimit=50), config(coreLimit=20)]
    assert prepared(claim(result(), configs=configs)).core_limits == {"GPU-a": 20}


def test_parameters_for_another_driver_are_not_read() -> None:
    other = {"source": "FromClaim", "opaque": {"driver": "nic.example.com", "parameters": {"kind": "Other"}}}
    assert prepared(claim(result(), configs=[other])).limits == {"GPU-a": 8 * GIB}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"memoryLimt": "4Gi"}, "memoryLimt"),
        ({"memoryLimit": 4}, "memoryLimit"),
        ({"memoryLimit": "4GB"}, "was Gi meant"),
        ({"memoryLimit": "0"}, "more than 0"),
        ({"memoryLimit": "9Gi"}, "more than the 8589934592 bytes"),
        ({"weight": 0}, "weight"),
        ({"weight": 1001}, "weight"),
        ({"priority": 11}, "priority"),
        ({"memoryMode": "fast"}, "memoryMode"),
        ({"coreLimit": 0}, "coreLimit 0 is not from 1 to 100 percent"),
        ({"coreLimit": 101}, "coreLimit 101 is not from 1 to 100 percent"),
        ({"coreLimit": "50"}, "coreLimit"),
        ({"kind": "GpuConfig"}, "GpuConfig"),
        ({"apiVersion": "v9"}, "v9"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ClaimError, match=why):
        prepared(claim(result(), configs=[config(**fields)]))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (claim(result(memory=None)), "DRAConsumableCapacity"),
        (claim(result(adminAccess=True)), "adminAccess"),
        (claim(result(device="gpu-z")), "gpu-z"),
        (claim(), "no device"),
        (claim(result(pool="node-2")), "no device"),
        (b'{"metadata": {"uid": "u-2"}}', "another one"),
        (b'{"metadata": {"uid": "u-1"}}', "not allocated"),
        (b"<html>", "cannot be read"),
        (
            claim(
                result("a"), result("b"), configs=[config(requests=["a"], weight=1), config(requests=["b"], weight=2)]
            ),
            "weight must be the same",
        ),
    ],
)
def test_a_claim_that_cannot_be_prepared_says_why(content: bytes, why: str) -> None:
    with pytest.raises(ClaimError, match=why):
        prepared(content)


def test_parameters_that_are_no_json_are_refused() -> None:
    with pytest.raises(ClaimError, match="NvshareConfig"):
        read_config(b"weight: 3")


def test_the_file_of_a_claim_is_read_back_as_it_was_written() -> None:
    made = prepared(claim(result(shareID="s-1"), configs=[config(weight=5)]))
    assert claim_file.decode(claim_file.encode(made)) == made
    assert made.label == "team/c"


@pytest.mark.parametrize("uid", ["", "..", "a/b", ".hidden", "a" * 64, "a\n"])
def test_a_uid_cannot_name_another_file(uid: str) -> None:
    with pytest.raises(ValueError, match="is not the UID"):
        claim_file.file_name(uid)
    assert claim_file.file_name("8f-1") == "8f-1.json"

"""What NvshareConfig says is in force in the pod; what it must not say is an Event that names the field."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.dra import claim, claiming, claims, devices, needs_shared_claims, uuid_of
from e2e.kit import (
    GIB,
    annotate,
    apply,
    background,
    clients,
    control,
    execute,
    has_clients,
    kubectl,
    pods,
    status,
    wait_until,
)

pytestmark = [needs_shared_claims, pytest.mark.usefixtures("dra_driver")]


def test_a_memory_limit_below_what_the_claim_consumes_is_enforced() -> None:
    with (
        claims(claim("lowered", "8Gi", memoryLimit="3Gi")),
        pods(claiming("has-three", "workload", "serve", claims=("lowered",))),
    ):
        wait_until(lambda: has_clients(1), "the process registers")
        assert clients()[0]["limit_bytes"] == 3 * GIB
        assert execute("has-three", "workload", "ask", "alloc", "4Gi") == "OOM (2)\n"
        assert execute("has-three", "workload", "ask", "alloc", "3Gi") == "Success (0)\n"


def test_a_core_limit_is_the_pods_and_an_annotation_lowers_it_and_does_not_raise_it() -> None:
    def core_limit() -> int:
        return _client("default/has-half")["core_limit_percent"]

    with (
        claims(claim("half", "4Gi", coreLimit=50)),
        pods(claiming("has-half", "workload", "serve", claims=("half",))),
    ):
        wait_until(lambda: has_clients(1), "the process registers")
        assert core_limit() == 50
        annotate("has-half", "20", "nvshare.com/gpu-core-limit")
        wait_until(lambda: core_limit() == 20, "the annotation lowers it")
        annotate("has-half", "80", "nvshare.com/gpu-core-limit")
        wait_until(lambda: core_limit() == 50, "what the claim allows counts")
        said = "nvshare.com/gpu-core-limit=80 is more than the pod's ResourceClaims allow; in force: 50 % of GPU"
        wait_until(lambda: said in _events("has-half"), "an Event says so", 60)


def test_the_memory_mode_is_that_of_the_process() -> None:
    with (
        claims(claim("plain", "4Gi"), claim("as-it-is", "4Gi", memoryMode="native")),
        pods(*(claiming(f"pod-{name}", "workload", "serve", claims=(name,)) for name in ("plain", "as-it-is"))),
    ):
        wait_until(lambda: has_clients(2), "both processes register")
        assert execute("pod-as-it-is", "printenv", "NVSHARE_MEMORY_MODE") == "native\n"
        for name in ("pod-plain", "pod-as-it-is"):
            assert execute(name, "workload", "ask", "alloc", "2Gi") == "Success (0)\n"
        wait_until(lambda: _swappable("default/pod-plain") >= 2 * GIB, "managed memory can be evicted")
        wait_until(lambda: _unswappable("default/pod-as-it-is") >= 2 * GIB, "native memory cannot")
        assert _swappable("default/pod-as-it-is") == 0
        assert execute("pod-as-it-is", "workload", "ask", "alloc", "3Gi") == "OOM (2)\n"


def _client(label: str) -> dict[str, int]:
    (found,) = [client for client in clients() if client["label"] == label]
    return found


def _swappable(label: str) -> int:
    return _client(label)["swappable_bytes"]


def _unswappable(label: str) -> int:
    return _client(label)["unswappable_bytes"]


@contextlib.contextmanager
def _policy(name: str, quantum_s: int) -> Iterator[None]:
    before = status()["policy"]
    control("set-policy", name)
    control("set-tq", str(quantum_s))
    try:
        yield
    finally:
        control("set-mode", "balanced")
        control("set-policy", before)


def test_a_higher_priority_gets_the_gpu_at_once() -> None:
    gpu = uuid_of(devices()[0])
    with (
        claims(claim("low", "12Gi", gpu=gpu, priority=-1), claim("high", "12Gi", gpu=gpu, priority=7)),
        pods(claiming("pod-low", claims=("low",)), claiming("pod-high", claims=("high",))),
        _policy("priority", 3600),
        background("pod-low", "workload", "run", "1000", "0", "11Gi") as low,
    ):
        low.until_count(3)
        with background("pod-high", "workload", "run", "1000", "0", "11Gi") as high:
            high.until_count(3)  # it would wait for an hour with an equal priority
            wait_until(lambda: has_clients(2), "both are there")
            assert {client["label"]: client["priority"] for client in clients()} == {
                "default/pod-low": -1,
                "default/pod-high": 7,
            }


def test_weights_are_shares_of_gpu_time_and_the_annotation_overrides() -> None:
    gpu = uuid_of(devices()[0])
    with (
        claims(claim("light", "12Gi", gpu=gpu, weight=100), claim("heavy", "12Gi", gpu=gpu, weight=300)),
        pods(claiming("pod-light", claims=("light",)), claiming("pod-heavy", claims=("heavy",))),
        _policy("fair", 1),
        background("pod-light", "workload", "run", "1000", "0", "11Gi"),
        background("pod-heavy", "workload", "run", "1000", "0", "11Gi"),
    ):
        wait_until(lambda: has_clients(2), "both are there")
        wait_until(lambda: _client("default/pod-heavy")["turns"] >= 1, "both compete: until then one was alone", 60)
        began = _held()
        turns = _client("default/pod-light")["turns"]
        wait_until(lambda: _client("default/pod-light")["turns"] >= turns + 5, "the light one has had five turns", 120)
        held = {label: seconds - began[label] for label, seconds in _held().items()}
        assert held["default/pod-heavy"] > 2 * held["default/pod-light"], held
        annotate("pod-light", "500", "nvshare.com/gpu-weight")
        wait_until(lambda: _client("default/pod-light")["weight"] == 500, "the annotation's weight counts")
        assert _client("default/pod-heavy")["weight"] == 300


def _held() -> dict[str, float]:
    return {client["label"]: client["held_seconds"] for client in clients()}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"memoryLimt": "1Gi"}, "memoryLimt"),
        ({"memoryLimit": "5Gi"}, "memoryLimit 5Gi is more than the"),
        ({"coreLimit": 150}, "coreLimit 150 is not from 1 to 100 percent"),
    ],
    ids=["unknown field", "limit above the claim", "coreLimit"],
)
def test_a_wrong_parameter_is_named_in_an_event_on_the_pod(parameters: dict[str, Any], said: str) -> None:
    with claims(claim("wrong", "4Gi", **parameters)):
        apply(claiming("refused", claims=("wrong",)))
        wait_until(lambda: said in _events("refused"), f"the Event says {said}", 60)


def test_two_claims_of_a_container_with_different_memory_modes_are_refused_with_an_event() -> None:
    modes = [claim("one", "2Gi", memoryMode="managed"), claim("two", "2Gi", memoryMode="native")]
    with claims(*modes):
        apply(claiming("both-modes", claims=("one", "two")))
        wait_until(lambda: "all claims of a pod that set memoryMode must set the same" in _events("both-modes"),
                   "an Event says why", 60)  # fmt: skip
        assert "which pod both-modes has too" in _events("both-modes")


def _events(name: str) -> str:
    selector = f"involvedObject.name={name}"
    return kubectl("get", "events", f"--field-selector={selector}", "-o", "jsonpath={.items[*].message}")

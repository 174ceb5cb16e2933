"""Claims by GPU memory: kube-scheduler places them, the driver prepares them, nvshare enforces their limits."""

import re
import time
from collections import Counter
from collections.abc import Callable

import pytest

from e2e.dra import (
    ANOTHER_NODE,
    allocated,
    another_node,
    claim,
    claiming,
    claims,
    consumed,
    devices,
    driver_pid,
    finished,
    needs_several_devices,
    needs_shared_claims,
    node_of,
    pending_reason,
    phase,
    plugin_is_registered,
    remembered_slots,
    slices,
    tolerant,
    uuid_of,
)
from e2e.kit import (
    GIB,
    annotate,
    apply,
    clients,
    events_on,
    execute,
    has_clients,
    kubectl,
    kubectl_nvshare,
    pod,
    pods,
    resident_mb,
    status,
    wait_until,
)

pytestmark = [needs_shared_claims, pytest.mark.usefixtures("had_slots", "dra_driver")]


@pytest.fixture(scope="module")
def had_slots(nvshare: None) -> None:
    """Before the driver came, kubelet gave a slot of the device plugin to a pod, which has ended."""
    with pods(pod("had-a-slot", slots=1)):
        assert remembered_slots()


def test_a_pod_written_for_the_device_plugin_gets_a_claim() -> None:
    with pods(pod("asks-for-a-slot", slots=1)):
        path = "jsonpath={.status.extendedResourceClaimStatus.resourceClaimName}"
        assert len(allocated(kubectl("get", "pod", "asks-for-a-slot", "-o", path))) == 1
        assert execute("asks-for-a-slot", "workload", "alloc", "1Gi") == "Allocating 1Gi: Success (0)\n"
        assert execute("asks-for-a-slot", "workload", "alloc", "4Gi", code=1) == "Allocating 4Gi: OOM (2)\n"


@needs_several_devices
def test_a_pod_that_requests_two_slots_gets_two_gpus() -> None:
    with pods(pod("asks-for-two", "workload", "serve", slots=2)):
        path = "jsonpath={.status.extendedResourceClaimStatus.resourceClaimName}"
        assert len(set(allocated(kubectl("get", "pod", "asks-for-two", "-o", path)))) == 2
        wait_until(lambda: has_clients(2), "the process is at both GPUs")


def test_the_node_publishes_its_gpus_with_their_memory(figure: Callable[[str], None]) -> None:
    assert len(slices()) == 1
    wait_until(lambda: [it["attributes"]["index"]["int"] for it in devices()] == [0, 1], "no GPU has a claim", 60)
    for device in devices():
        assert device["allowMultipleAllocations"] is True
        assert device["capacity"]["memory"]["value"] == "32Gi"
    figure(f"nvshare-dra-driver: {resident_mb(driver_pid()):.0f} MB resident")
    assert resident_mb(driver_pid()) <= 60


def test_a_claims_limit_is_enforced_lowered_by_annotation_and_not_raised() -> None:
    with claims(claim("eight", "8Gi")), pods(claiming("has-eight", "workload", "serve", claims=("eight",))):
        wait_until(lambda: has_clients(1), "the process registers")
        assert clients()[0]["limit_bytes"] == 8 * GIB
        assert execute("has-eight", "workload", "ask", "alloc", "9Gi") == "OOM (2)\n"
        assert execute("has-eight", "workload", "ask", "alloc", "5Gi") == "Success (0)\n"
        (shown,) = status()["claims"]
        assert (shown["label"], shown["limit_bytes"], shown["pods"]) == (
            "default/eight",
            8 * GIB,
            ["default/has-eight"],
        )
        assert shown["used_bytes"] >= 5 * GIB
        assert re.search(r"default/eight +GPU-\S+ +8\.00Gi +5\.\d\dGi +default/has-eight", kubectl_nvshare("status"))
        annotate("has-eight", "6Gi")
        wait_until(lambda: clients()[0]["limit_bytes"] == 6 * GIB, "the annotation lowers the limit")
        assert execute("has-eight", "workload", "ask", "alloc", "2Gi") == "OOM (2)\n"
        annotate("has-eight", "12Gi")
        wait_until(lambda: clients()[0]["limit_bytes"] == 8 * GIB, "the claim's limit is in force")
        wait_until(lambda: bool(events_on("has-eight", "LimitAboveClaim")), "an Event says why", 60)
        assert execute("has-eight", "workload", "ask", "alloc", "2Gi") == "Success (0)\n"


@needs_several_devices
def test_memory_goes_where_there_is_room_and_what_has_none_stays_pending_with_a_reason() -> None:
    names = ("a", "b", "c", "d")
    with (
        claims(*(claim(name, "16Gi") for name in names), claim("late", "8Gi")),
        pods(*(claiming(f"pod-{name}", claims=(name,)) for name in names)),
    ):
        used = [device for name in names for device in allocated(name)]
        assert sorted(used.count(device) for device in set(used)) == [2, 2]
        apply(claiming("waits", claims=("late",)))
        assert "cannot allocate all claims" in pending_reason("waits")
        kubectl("delete", "pod", "pod-a", "--force", "--grace-period=0")
        kubectl("delete", "resourceclaim", "a")
        wait_until(lambda: phase("waits") == "Running", "it runs when there is room", 60)
        assert allocated("late") == [used[0]]


def test_a_claim_of_more_than_the_card_is_not_placed() -> None:
    with claims(claim("too-big", "17Gi")):
        apply(claiming("never", claims=("too-big",)))
        assert "cannot allocate all claims" in pending_reason("never")


@needs_several_devices
def test_fifty_pods_at_once_never_get_more_than_the_cards_have(figure: Callable[[str], None]) -> None:
    sizes = {f"many-{number}": f"{(1, 2, 4, 8, 16)[number % 5]}Gi" for number in range(50)}
    with claims(*(claim(name, size) for name, size in sizes.items())):
        apply(*(claiming(name, "sleep", "2", claims=(name,)) for name in sizes))
        most: Counter[str] = Counter()
        began = time.monotonic()
        while (done := finished()) < len(sizes):
            assert time.monotonic() - began < 300, f"only {done} pods have finished"
            for device, size in consumed().items():
                most[device] = max(most[device], size)
                assert size <= 32 * GIB
        assert len(most) == 2
        took_s = time.monotonic() - began
        resident = resident_mb(driver_pid())
        figure(
            f"50 pods at once: done after {took_s:.0f} s; claims had at most {max(most.values()) >> 30} GiB of a GPU;"
            f" nvshare-dra-driver then has {resident:.0f} MB resident"
        )
        assert resident <= 60


def test_two_pods_with_one_claim_share_its_limit() -> None:
    both = [claiming(name, "workload", "serve", claims=("shared",)) for name in ("first", "second")]
    with claims(claim("shared", "8Gi")), pods(*both):
        wait_until(lambda: has_clients(2), "both processes register")
        assert execute("first", "workload", "ask", "alloc", "5Gi") == "Success (0)\n"
        assert execute("second", "workload", "ask", "alloc", "4Gi") == "OOM (2)\n"
        assert execute("second", "workload", "ask", "alloc", "3Gi") == "Success (0)\n"


def test_one_container_may_have_two_claims_and_their_limits_add_up_on_one_gpu() -> None:
    gpu = uuid_of(devices()[0])
    with (
        claims(claim("one", "4Gi", gpu=gpu), claim("two", "6Gi", gpu=gpu)),
        pods(claiming("has-two", "workload", "serve", claims=("one", "two"))),
    ):
        wait_until(lambda: has_clients(1), "the process is at the claims' GPU")
        assert clients()[0]["limit_bytes"] == 10 * GIB
        assert execute("has-two", "workload", "ask", "alloc", "9Gi") == "Success (0)\n"
        assert execute("has-two", "workload", "ask", "alloc", "1025Mi") == "OOM (2)\n"
        assert execute("has-two", "workload", "ask", "alloc", "1Gi") == "Success (0)\n"


@needs_several_devices
def test_one_container_may_have_claims_on_two_gpus_each_with_its_own_limit() -> None:
    first, second = (uuid_of(device) for device in devices())
    with (
        claims(claim("one", "4Gi", gpu=first), claim("two", "6Gi", gpu=second)),
        pods(claiming("has-two", "workload", "serve", claims=("one", "two"))),
    ):
        wait_until(lambda: has_clients(2), "the process is at both GPUs")
        assert {client["gpu"]: client["limit_bytes"] for client in clients()} == {first: 4 * GIB, second: 6 * GIB}


def test_a_pod_keeps_an_ld_preload_of_its_own() -> None:
    own = "/lib/x86_64-linux-gnu/libresolv.so.2"  # of glibc, and used by no program of this pod
    made = claiming("own-preload", "workload", "serve", claims=("c",), env={"LD_PRELOAD": own})
    with claims(claim("c", "4Gi")), pods(made):
        wait_until(lambda: has_clients(1), "the process is shared")
        for process in ("self", "1"):
            maps = execute("own-preload", "cat", f"/proc/{process}/maps")
            assert "libresolv.so.2" in maps
            assert "/usr/lib/nvshare/libnvshare.so" in maps


@needs_several_devices
def test_memory_goes_to_the_node_that_has_it() -> None:
    names = ("a", "b", "c", "d")
    late = [tolerant(claiming(f"pod-{name}", claims=(name,))) for name in ("eight", "too-late", "four")]
    with (
        claims(*(claim(name, "16Gi") for name in names), claim("eight"), claim("too-late"), claim("four", "4Gi")),
        pods(*(claiming(f"pod-{name}", claims=(name,)) for name in names)),
    ):
        apply(late[0])
        assert "cannot allocate all claims" in pending_reason("pod-eight")
        with another_node("12Gi"):
            wait_until(lambda: node_of("pod-eight") == ANOTHER_NODE, "8Gi go to the node that has them", 60)
            apply(late[1])
            assert "cannot allocate all claims" in pending_reason("pod-too-late")
            apply(late[2])
            wait_until(lambda: node_of("pod-four") == ANOTHER_NODE, "the last 4Gi are used", 60)


@needs_several_devices
def test_a_request_for_two_devices_gets_two_gpus() -> None:
    with claims(claim("both", "2Gi", count=2)), pods(claiming("has-both", "workload", "serve", claims=("both",))):
        assert len(set(allocated("both"))) == 2
        wait_until(lambda: has_clients(2), "the process is at both GPUs")


def test_a_pod_that_requests_slots_runs_after_kubelet_has_given_the_device_plugin_up(
    figure: Callable[[str], None],
) -> None:
    """Last in this file: the plugin has gone when the file began, and kubelet waits five minutes for it."""
    took = wait_until(lambda: not plugin_is_registered(), "kubelet gives the device plugin up", 400)
    figure(f"kubelet waited for the device plugin, at the end of the file, for {took:.0f} s more")
    with pods(pod("comes-late", slots=1)):
        assert execute("comes-late", "workload", "alloc", "1Gi") == "Allocating 1Gi: Success (0)\n"

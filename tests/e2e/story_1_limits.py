"""Scenarios 1 to 4 of docs/kubernetes.md: limits by annotation on a real cluster."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from e2e.kit import (
    GIB,
    LIMIT,
    NODE,
    SYSTEM,
    allocatable,
    annotate,
    clients,
    control,
    events_on,
    execute,
    kubectl,
    kubectl_nvshare,
    metrics,
    pod,
    pods,
    resident_mb,
    scheduler_log,
    scheduler_pid,
    wait_for_log,
    wait_until,
)


def test_scenario_1_a_limit_is_set_changed_and_removed_and_the_log_shows_each_step() -> None:
    since = len(scheduler_log())
    with pods(pod("dynamic-limit-test", "workload", "serve")):
        wait_for_log("Client registered", since=since)
        for value in ("2Gi", "4Gi", None):
            annotate("dynamic-limit-test", value)
        wait_for_log(r"dynamic-limit-test: 4294967296 -> 0 bytes", since=since)
        lines = [line for line in scheduler_log()[since:] if "dynamic-limit-test" in line or "UPDATE_LIMIT" in line]
        steps = [re.sub(r"client [0-9a-f]+", "client ID", line) for line in lines if "registered" not in line]
        changed, sending = (
            "Memory limit changed for pod default/dynamic-limit-test:",
            "Sending UPDATE_LIMIT to client ID:",
        )
        assert steps == [
            f"[NVSHARE][INFO]: {changed} 0 -> 2147483648 bytes",
            f"[NVSHARE][INFO]: {sending} 2147483648 bytes (2.00 GiB)",
            f"[NVSHARE][INFO]: {changed} 2147483648 -> 4294967296 bytes",
            f"[NVSHARE][INFO]: {sending} 4294967296 bytes (4.00 GiB)",
            f"[NVSHARE][INFO]: {changed} 4294967296 -> 0 bytes",
            f"[NVSHARE][INFO]: {sending} 0 bytes (limit removed)",
        ]


def test_scenario_2_two_pods_have_limits_of_their_own() -> None:
    with pods(pod("pod-a"), pod("pod-b")):
        annotate("pod-a", "1Gi")
        annotate("pod-b", "3Gi")
        with ThreadPoolExecutor() as pool:
            fails = pool.submit(execute, "pod-a", "workload", "alloc", "2Gi", code=1)
            succeeds = pool.submit(execute, "pod-b", "workload", "alloc", "2Gi", code=0)
            assert fails.result() == "Allocating 2Gi: OOM (2)\n"
            assert succeeds.result() == "Allocating 2Gi: Success (0)\n"


def test_scenario_3_the_same_process_succeeds_after_its_limit_is_raised() -> None:
    with pods(pod("dynamic-resize-pod", "workload", "serve", annotations={LIMIT: "1Gi"})):
        wait_until(lambda: len(clients()) == 1, "the process registers")
        assert execute("dynamic-resize-pod", "workload", "ask", "alloc", "2Gi") == "OOM (2)\n"
        assert execute("dynamic-resize-pod", "workload", "ask", "info").split()[1] == str(GIB)
        (before,) = clients()
        annotate("dynamic-resize-pod", "4Gi")
        wait_until(lambda: clients()[0]["limit_bytes"] == 4 * GIB, "the limit reaches the process")
        assert execute("dynamic-resize-pod", "workload", "ask", "alloc", "2Gi") == "Success (0)\n"
        free, total = map(int, execute("dynamic-resize-pod", "workload", "ask", "info").split())
        assert (free, total) == (2 * GIB, 4 * GIB)
        (after,) = clients()
        assert (after["id"], after["pid"]) == (before["id"], before["pid"])


def test_scenario_4_twenty_rounds_leak_nothing(figure: Callable[[str], None]) -> None:
    pid = scheduler_pid()

    def state() -> tuple[int, int, int]:
        wait_until(lambda: not clients(), "all clients have left")
        return len(list(Path(f"/proc/{pid}/fd").iterdir())), len(clients()), len(metrics())

    with pods(pod("stress-pod", annotations={LIMIT: "4Gi"})):
        resident, states = [], []
        for _ in range(20):
            annotate("stress-pod", "1Gi")
            assert "OOM" in execute("stress-pod", "workload", "alloc", "2Gi", code=1)
            annotate("stress-pod", "4Gi")
            assert "Success" in execute("stress-pod", "workload", "alloc", "2Gi", code=0)
            resident.append(resident_mb(pid))
            states.append(state())
        figure(
            f"scheduler, round 5 to 20: {resident[4]:.1f} -> {resident[-1]:.1f} MB resident,"
            f" (fds, clients, series) {states[4]} -> {states[-1]}"
        )
        assert scheduler_pid() == pid
        assert abs(resident[-1] - resident[4]) <= 2
        assert states[-1] == states[4]


def test_a_limit_by_the_specs_environment_cannot_be_lifted_from_inside() -> None:
    with pods(pod("by-environment", env={"NVSHARE_GPU_MEMORY_LIMIT": "1Gi"})):
        assert "OOM" in execute("by-environment", "workload", "alloc", "2Gi", code=1)
        for trick in ("-u NVSHARE_GPU_MEMORY_LIMIT", "NVSHARE_GPU_MEMORY_LIMIT=100Gi", "NVSHARE_GPU_MEMORY_LIMIT=0"):
            assert "OOM" in execute("by-environment", "env", *trick.split(), "workload", "alloc", "2Gi", code=1)
        assert "OOM" in execute(
            "by-environment", "env", "NVSHARE_GPU_MEMORY_LIMIT=512Mi", "workload", "alloc", "768Mi", code=1
        )
        annotate("by-environment", "3Gi")
        wait_for_log(r"by-environment: 1073741824 -> 3221225472")


def test_two_processes_of_a_pod_share_its_limit() -> None:
    with pods(pod("shared-limit", "workload", "serve", annotations={LIMIT: "3Gi"})):
        wait_until(lambda: len(clients()) == 1, "the process registers")
        assert execute("shared-limit", "workload", "ask", "alloc", "2Gi") == "Success (0)\n"
        assert "OOM" in execute("shared-limit", "workload", "alloc", "2Gi", code=1)
        assert "Success" in execute("shared-limit", "workload", "alloc", "512Mi", code=0)
        assert execute("shared-limit", "workload", "ask", "free") == "freed\n"
        assert "Success" in execute("shared-limit", "workload", "alloc", "2Gi", code=0)


def test_a_bad_value_changes_nothing_and_is_told_on_the_pod() -> None:
    with pods(pod("bad-value", "workload", "serve", annotations={LIMIT: "1Gi"})):
        wait_until(lambda: bool(clients()), "the process registers")
        errors = metrics()["nvshare_annotation_errors_total"]
        annotate("bad-value", "8GB")
        wait_for_log(
            r"Pod default/bad-value: nvshare.com/gpu-memory-limit='8GB' has an unknown suffix 'GB'; was Gi meant\?"
        )
        wait_until(lambda: bool(events_on("bad-value", "BadAnnotation")), "an Event on the pod")
        assert metrics()["nvshare_annotation_errors_total"] == errors + 1
        assert execute("bad-value", "workload", "ask", "alloc", "2Gi") == "OOM (2)\n"


def test_an_annotated_pod_refuses_nvsharectls_limit() -> None:
    with pods(pod("annotated", "workload", "serve", annotations={LIMIT: "1Gi"}), pod("free", "workload", "serve")):
        wait_until(lambda: len(clients()) == 2, "both register")
        control("limit", "default/free", "1Gi")
        assert execute("free", "workload", "ask", "alloc", "2Gi") == "OOM (2)\n"
        with pytest.raises(RuntimeError, match="annotation"):
            control("limit", "default/annotated", "4Gi")


def test_two_containers_of_a_pod_share_its_limit_on_each_gpu() -> None:
    both = pod("two-containers", "workload", "serve", slots=2, annotations={LIMIT: "3Gi"})
    (first,) = both["spec"]["containers"]
    both["spec"]["containers"].append({**first, "name": "second", "command": ["sleep", "infinity"]})
    with pods(both):
        # Each has a slot of both GPUs, so the first GPU of one is the first GPU of the other.
        wait_until(lambda: bool(clients()), "the process registers")
        assert execute("two-containers", "workload", "ask", "alloc", "2Gi") == "Success (0)\n"
        assert "OOM" in execute("two-containers", "workload", "alloc", "2Gi", code=1, container="second")
        assert "Success" in execute("two-containers", "workload", "alloc", "512Mi", container="second")
        assert {client["label"] for client in clients()} == {"default/two-containers"}


def test_kubectl_nvshare_shows_the_node_and_limits_a_pod() -> None:
    with pods(pod("seen", "workload", "serve")):
        wait_until(lambda: len(clients()) == 1, "the process registers")
        assert kubectl_nvshare("limit", "seen", "1Gi") == "pod/seen annotated\n"
        wait_until(lambda: clients()[0]["limit_bytes"] == GIB, "the limit reaches the process")
        table = kubectl_nvshare("status")
        assert NODE in table
        assert re.search(r"default/seen .* workload .* 1\.00Gi", table), table
        kubectl_nvshare("limit", "seen", "none")
        wait_until(lambda: clients()[0]["limit_bytes"] == 0, "the limit is gone")


def test_a_pod_with_a_preload_of_its_own_is_shared_by_ld_so_preload() -> None:
    daemonset = ("-n", SYSTEM, "daemonset/nvshare-device-plugin")
    own = {"LD_PRELOAD": "/lib/x86_64-linux-gnu/libdl.so.2"}
    wait_until(lambda: not clients(), "the clients of earlier pods have left")
    with pods(pod("own-preload", "workload", "serve", env=own)):
        wait_until(
            lambda: "Success" in execute("own-preload", "workload", "ask", "alloc", "1Gi", code=None), "it works"
        )
        assert not clients()
    kubectl("set", "env", *daemonset, "NVSHARE_INJECTION=ld.so.preload")
    try:
        kubectl("rollout", "status", *daemonset, "--timeout=90s")
        wait_until(lambda: allocatable() == 20, "the node offers 20 slots")
        with pods(pod("own-preload", "workload", "serve", env=own, annotations={LIMIT: "1Gi"})):
            wait_until(lambda: len(clients()) == 1, "the process registers")
            assert execute("own-preload", "workload", "ask", "alloc", "2Gi") == "OOM (2)\n"
            assert "libdl" in execute("own-preload", "printenv", "LD_PRELOAD")
    finally:
        kubectl("set", "env", *daemonset, "NVSHARE_INJECTION=env")
        kubectl("rollout", "status", *daemonset, "--timeout=90s")
        wait_until(lambda: allocatable() == 20, "the node offers 20 slots")

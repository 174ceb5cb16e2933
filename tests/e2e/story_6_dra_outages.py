"""The DRA driver in trouble: restarts, outages, upgrades, faults, what is left behind, what is forbidden."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.directory_events import recorded
from e2e.dra import (
    ANOTHER_NODE,
    CLAIMS,
    MANIFESTS,
    REGISTRY,
    allocated,
    as_driver,
    claim,
    claiming,
    claims,
    devices,
    driver_pid,
    left_of,
    needs_several_devices,
    needs_shared_claims,
    phase,
    slice_of_another_node,
    slice_uids,
    sockets,
    uid,
    uuid_of,
)
from e2e.kit import (
    SIM_DIR,
    SYSTEM,
    apply,
    clients,
    cluster,
    execute,
    has_clients,
    kubectl,
    pods,
    system_pod,
    wait_until,
)
from nvshare.simgpu.events import RECOVERED, inject_xid

WIPED_AFTER_S = 30
"""After this time without a driver kubelet removes its slices."""
OUTAGE_S = WIPED_AFTER_S + 10
"""Longer, so that the ended claim is still there when nothing offers its device any more."""

pytestmark = [needs_shared_claims, pytest.mark.usefixtures("dra_driver")]


def test_kubelet_restarted_and_the_driver_killed_leave_running_pods_alone(figure: Callable[[str], None]) -> None:
    with (
        claims(claim("kept", "4Gi"), claim("later", "4Gi")),
        pods(claiming("computes", "workload", "serve", claims=("kept",))),
    ):
        wait_until(lambda: has_clients(1), "the process registers")
        (before,) = clients()
        for how in (signal.SIGTERM, signal.SIGKILL):
            took = _restart_kubelet(how)
            figure(f"kubelet restarted by {how.name}: there are new slices {took:.1f} s later")
        kubectl("delete", "pod", "-n", SYSTEM, system_pod("dra-driver"), "--force", "--grace-period=0")
        with pods(claiming("comes-later", claims=("later",))):
            assert [(client["id"], client["pid"]) for client in clients()] == [(before["id"], before["pid"])]
        assert execute("computes", "workload", "ask", "alloc", "1Gi") == "Success (0)\n"


def _restart_kubelet(how: signal.Signals) -> float:
    """It removes the node's slices when it starts; how long it takes until there are new ones."""
    old = slice_uids()
    cluster.restart("kubelet", how=how)
    return wait_until(lambda: slice_uids().isdisjoint(old) and len(devices()) == 2, "there are new slices", 60)


def test_a_driver_that_is_away_for_40_seconds_leaves_running_pods_alone_and_nothing_behind(
    figure: Callable[[str], None],
) -> None:
    with (
        claims(claim("kept", "4Gi"), claim("ended", "4Gi")),
        pods(claiming("computes", "workload", "serve", claims=("kept",)), claiming("ends", claims=("ended",))),
    ):
        wait_until(lambda: has_clients(1), "the process registers")
        (before,) = clients()
        ended = uid("ended")
        _kill_driver()
        began = time.monotonic()
        try:
            wait_until(lambda: not devices(), "kubelet removes the slices", 90)
            figure(f"driver killed: its slices are gone after {time.monotonic() - began:.0f} s")
            kubectl("delete", "pod", "ends", "--force", "--grace-period=0")
            kubectl("delete", "resourceclaim", "ended", "--wait=false")
            assert execute("computes", "workload", "ask", "alloc", "1Gi") == "Success (0)\n"
            time.sleep(max(0.0, OUTAGE_S - (time.monotonic() - began)))
            assert left_of([ended])
        finally:
            kubectl("apply", "-f", str(MANIFESTS / "dra"))
        wait_until(lambda: len(devices()) == 2, "the slices are back", 60)
        wait_until(lambda: not left_of([ended]), "nothing is left of the claim that ended meanwhile", 60)
        wait_until(lambda: sockets() == (1, 1), f"the killed driver's sockets are gone: {sockets()}", 60)
        assert [(client["id"], client["pid"]) for client in clients()] == [(before["id"], before["pid"])]
        assert execute("computes", "workload", "ask", "alloc", "1Gi") == "Success (0)\n"


def _kill_driver() -> None:
    """So that it cannot tidy up, and nobody starts it again."""
    name, pid = system_pod("dra-driver"), driver_pid()
    kubectl("delete", "daemonset", "-n", SYSTEM, "nvshare-dra-driver", "--cascade=orphan")
    os.kill(pid, signal.SIGSTOP)  # SIGTERM finds it stopped, SIGKILL follows
    kubectl("delete", "pod", "-n", SYSTEM, name, "--force", "--grace-period=0")
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the driver is killed", 60)


def test_an_upgrade_runs_two_drivers_at_the_same_time_and_the_devices_never_vanish() -> None:
    restart = ("rollout", "restart", "-n", SYSTEM, "daemonset/nvshare-dra-driver")
    with (
        recorded(REGISTRY) as changes,
        claims(claim("before", "4Gi"), claim("meanwhile", "4Gi")),
        pods(claiming("computes", "workload", "serve", claims=("before",))),
    ):
        wait_until(lambda: has_clients(1), "the process registers")
        old = system_pod("dra-driver")
        (old_socket,) = (path.name for path in REGISTRY.glob("gpu.nvshare.com*"))
        kubectl(*restart)
        apply(claiming("comes-meanwhile", claims=("meanwhile",)))
        deadline = time.monotonic() + 90
        while not _has_replaced(old):
            assert len(devices()) == 2
            assert time.monotonic() < deadline, "the upgrade does not end"
        wait_until(lambda: phase("comes-meanwhile") == "Running", "the pod that came meanwhile runs", 60)
        wait_until(lambda: sockets() == (1, 1), f"the old driver's sockets are gone: {sockets()}", 60)
        (new_socket,) = (path.name for path in REGISTRY.glob("gpu.nvshare.com*"))
        # Both served kubelet at the same time: the new one's socket came before the old one's went.
        assert changes() == [("+", new_socket), ("-", old_socket)]
        assert len(devices()) == 2
        assert execute("computes", "workload", "ask", "alloc", "1Gi") == "Success (0)\n"


def _has_replaced(old: str) -> bool:
    """Whether the only pod of the driver is another one, and is ready."""
    selector = ("-l", "app.kubernetes.io/component=dra-driver")
    path = "{range .items[*]}{.metadata.name} {.status.containerStatuses[0].ready}{'\\n'}{end}"
    rows = kubectl("get", "pods", "-n", SYSTEM, *selector, "-o", f"jsonpath={path}").split()
    return len(rows) == 2 and rows[0] != old and rows[1] == "true"


@needs_several_devices
def test_a_gpu_fault_taints_it_and_new_claims_go_elsewhere() -> None:
    broken, healthy = devices()
    inject_xid(uuid_of(broken), 79, directory=SIM_DIR / "state")
    try:
        wait_until(lambda: _tainted() == [broken["name"]], "the GPU is tainted", 60)
        with claims(claim("x"), claim("y")), pods(claiming("p-x", claims=("x",)), claiming("p-y", claims=("y",))):
            assert allocated("x") + allocated("y") == [healthy["name"]] * 2
    finally:
        inject_xid(uuid_of(broken), RECOVERED, directory=SIM_DIR / "state")
        wait_until(lambda: _tainted() == [], "the taint is removed", 60)


def _tainted() -> list[str]:
    return [device["name"] for device in devices() if device.get("taints")]


def test_a_gpu_fault_is_seen_in_the_status_of_a_pod_that_runs_on_it() -> None:
    gpu = uuid_of(devices()[0])
    with claims(claim("mine", "4Gi", gpu=gpu)), pods(claiming("computes", "workload", "serve", claims=("mine",))):
        wait_until(lambda: _health("computes") == [("claim:mine", "Healthy", "")], "kubelet knows the GPU's health", 60)
        inject_xid(gpu, 79, directory=SIM_DIR / "state")
        try:
            faulty = [("claim:mine", "Unhealthy", "XID error 79")]
            wait_until(lambda: _health("computes") == faulty, "the pod's status says what is wrong with its GPU", 60)
        finally:
            inject_xid(gpu, RECOVERED, directory=SIM_DIR / "state")
        wait_until(lambda: _health("computes") == [("claim:mine", "Healthy", "")], "it is healthy again", 60)
        assert phase("computes") == "Running"


def _health(name: str) -> list[tuple[str, str, str]]:
    """allocatedResourcesStatus of a pod: the claim, its GPU's health and what is said about it."""
    text = kubectl("get", "pod", name, "-o", "jsonpath={.status.containerStatuses[0].allocatedResourcesStatus}")
    return [
        (claim["name"], resource["health"], resource.get("message", ""))
        for claim in json.loads(text or "[]")
        for resource in claim["resources"]
    ]


def test_a_driver_may_not_write_slices_of_another_node() -> None:
    forged = slice_of_another_node("12Gi")
    refused = "must not write slices of another node"
    assert refused in as_driver("create", "--validate=false", "-f", "-", item=forged)
    apply(forged)
    try:
        assert refused in as_driver("replace", "--validate=false", "-f", "-", item=forged)
        assert refused in as_driver("delete", "resourceslice", ANOTHER_NODE)
    finally:
        kubectl("delete", "resourceslice", ANOTHER_NODE)


def test_a_forced_deletion_leaves_nothing_behind() -> None:
    with claims(claim("gone", "4Gi")):
        name = uid("gone")
        with pods(claiming("killed", claims=("gone",))):
            assert (CLAIMS / f"{name}.json").exists()
        wait_until(lambda: not left_of([name]), "its files are removed", 60)

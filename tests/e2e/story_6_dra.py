"""Claims by GPU memory: kube-scheduler places them, the driver prepares them, nvshare enforces their limits."""

import json
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from e2e.dra import (
    CLAIMS,
    allocated,
    claim,
    claiming,
    claims,
    devices,
    driver_instead_of_plugin,
    left_of,
    pending_reason,
    phase,
    running,
    slices,
    uid,
    uuid_of,
)
from e2e.kit import (
    BIN,
    GIB,
    SIM_DIR,
    SYSTEM,
    annotate,
    apply,
    clients,
    cluster,
    events_on,
    execute,
    has_clients,
    kubectl,
    pod,
    pods,
    resident_mb,
    status,
    system_pod,
    wait_until,
)
from nvshare.simgpu.events import RECOVERED, inject_xid
from settings import HAS_SHARED_CLAIMS, KUBERNETES_MINOR, PKI, SERVICE_IP

pytestmark = pytest.mark.skipif(
    not HAS_SHARED_CLAIMS, reason="needs Kubernetes 1.36 or later: KUBERNETES=1.37 make e2e"
)


needs_several_devices = pytest.mark.skipif(
    KUBERNETES_MINOR < 36, reason="kube-scheduler 1.34 takes the first device of a slice only"
)


@pytest.fixture(scope="module", autouse=True)
def driver(nvshare: None) -> Iterator[None]:
    with driver_instead_of_plugin():
        yield


def test_the_node_publishes_its_gpus_with_their_memory(figure: Callable[[str], None]) -> None:
    (item,) = slices()
    assert [device["attributes"]["index"]["int"] for device in item["spec"]["devices"]] == [0, 1]
    for device in devices():
        assert device["allowMultipleAllocations"] is True
        assert device["capacity"]["memory"]["value"] == "32Gi"
    figure(f"nvshare-dra-driver: {resident_mb(_driver_pid()):.0f} MB resident")
    assert resident_mb(_driver_pid()) <= 60


def _driver_pid() -> int:
    done = subprocess.run(["pgrep", "-f", "bin/nvshare-dra-driver"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


def test_a_claims_limit_is_enforced_lowered_by_annotation_and_not_raised() -> None:
    with claims(claim("eight", "8Gi")), pods(claiming("has-eight", "workload", "serve", claims=("eight",))):
        wait_until(lambda: has_clients(1), "the process registers")
        assert clients()[0]["limit_bytes"] == 8 * GIB
        assert execute("has-eight", "workload", "ask", "alloc", "9Gi") == "OOM (2)\n"
        assert execute("has-eight", "workload", "ask", "alloc", "5Gi") == "Success (0)\n"
        annotate("has-eight", "6Gi")
        wait_until(lambda: clients()[0]["limit_bytes"] == 6 * GIB, "the annotation lowers the limit")
        assert execute("has-eight", "workload", "ask", "alloc", "2Gi") == "OOM (2)\n"
        annotate("has-eight", "12Gi")
        wait_until(lambda: clients()[0]["limit_bytes"] == 8 * GIB, "the claim's limit is in force")
        wait_until(lambda: bool(events_on("has-eight", "LimitAboveClaim")), "an Event says why", 30)
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
def test_many_pods_at_once_never_get_more_than_the_cards_have() -> None:
    names = [f"many-{number}" for number in range(20)]
    with claims(*(claim(name, "6Gi") for name in names)):
        apply(*(claiming(name, claims=(name,)) for name in names))
        wait_until(lambda: len(running()) == 10, "ten pods of 6 GiB run", 120)
        taken = allocated(*names)
        assert sorted(taken.count(device) for device in set(taken)) == [5, 5]


def test_two_pods_with_one_claim_share_its_limit() -> None:
    both = [claiming(name, "workload", "serve", claims=("shared",)) for name in ("first", "second")]
    with claims(claim("shared", "8Gi")), pods(*both):
        wait_until(lambda: has_clients(2), "both processes register")
        assert execute("first", "workload", "ask", "alloc", "5Gi") == "Success (0)\n"
        assert execute("second", "workload", "ask", "alloc", "4Gi") == "OOM (2)\n"
        assert execute("second", "workload", "ask", "alloc", "3Gi") == "Success (0)\n"


def test_one_container_may_have_two_claims_and_their_limits_add_up_on_one_gpu() -> None:
    with (
        claims(claim("one", "4Gi"), claim("two", "6Gi")),
        pods(claiming("has-two", "workload", "serve", claims=("one", "two"))),
    ):
        names = {device["name"]: uuid_of(device) for device in devices()}
        wanted: Counter[str] = Counter()
        for name, size in (("one", 4 * GIB), ("two", 6 * GIB)):
            wanted[names[allocated(name)[0]]] += size
        wait_until(lambda: has_clients(len(wanted)), "the process is at the claims' GPUs")
        seats = [(gpu["uuid"], client) for gpu in status()["gpus"] for client in gpu["clients"]]
        assert {uuid: client["limit_bytes"] for uuid, client in seats} == dict(wanted)


def test_a_wrong_parameter_is_named_in_an_event_on_the_pod() -> None:
    with claims(claim("wrong", "4Gi", memoryLimt="1Gi")):
        apply(claiming("refused", claims=("wrong",)))
        wait_until(lambda: "memoryLimt" in _events("refused"), "the Event names the field", 60)


def _events(name: str) -> str:
    selector = f"involvedObject.name={name}"
    return kubectl("get", "events", f"--field-selector={selector}", "-o", "jsonpath={.items[*].message}")


def test_a_pod_keeps_an_ld_preload_of_its_own() -> None:
    made = claiming("own-preload", "workload", "serve", claims=("c",), env={"LD_PRELOAD": "libSegFault-missing.so"})
    with claims(claim("c", "4Gi")), pods(made):
        wait_until(lambda: has_clients(1), "the library is loaded")
        assert "libSegFault-missing" in execute("own-preload", "sh", "-c", "echo $LD_PRELOAD")


def test_a_pod_written_for_the_device_plugin_gets_a_claim() -> None:
    with pods(pod("asks-for-a-slot", slots=1)):
        path = "jsonpath={.status.extendedResourceClaimStatus.resourceClaimName}"
        assert len(allocated(kubectl("get", "pod", "asks-for-a-slot", "-o", path))) == 1
        assert execute("asks-for-a-slot", "workload", "alloc", "1Gi") == "Allocating 1Gi: Success (0)\n"
        assert execute("asks-for-a-slot", "workload", "alloc", "4Gi", code=1) == "Allocating 4Gi: OOM (2)\n"


def test_a_claim_for_two_different_gpus_gets_both() -> None:
    made = claim("both", "2Gi", count=2)
    made["spec"]["devices"]["constraints"] = [{"requests": ["gpu"], "distinctAttribute": "gpu.nvshare.com/uuid"}]
    with claims(made), pods(claiming("has-both", "workload", "serve", claims=("both",))):
        assert len(set(allocated("both"))) == 2
        wait_until(lambda: has_clients(2), "the process is at both GPUs")


def test_kubelet_restarted_and_the_driver_killed_leave_running_pods_alone(figure: Callable[[str], None]) -> None:
    with (
        claims(claim("kept", "4Gi"), claim("later", "4Gi")),
        pods(claiming("computes", "workload", "serve", claims=("kept",))),
    ):
        wait_until(lambda: has_clients(1), "the process registers")
        (before,) = clients()
        for how in (signal.SIGTERM, signal.SIGKILL):
            cluster.restart("kubelet", how=how)
            took = wait_until(lambda: len(devices()) == 2, "the slices are there", 60)
            figure(f"kubelet restarted by {how.name}: slices are back after {took:.1f} s")
        kubectl("delete", "pod", "-n", SYSTEM, system_pod("dra-driver"), "--force", "--grace-period=0")
        with pods(claiming("comes-later", claims=("later",))):
            assert [(client["id"], client["pid"]) for client in clients()] == [(before["id"], before["pid"])]
        assert execute("computes", "workload", "ask", "alloc", "1Gi") == "Success (0)\n"


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


def test_a_driver_may_not_write_slices_of_another_node() -> None:
    (item,) = slices()
    other = {
        "apiVersion": item["apiVersion"],
        "kind": "ResourceSlice",
        "metadata": {"name": "forged"},
        "spec": item["spec"] | {"nodeName": "another-node", "pool": item["spec"]["pool"] | {"name": "another-node"}},
    }
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={system_pod('dra-driver')}")
    token = kubectl("create", "token", "-n", SYSTEM, "nvshare-dra-driver", *bound)
    # Without the administrator's kubeconfig: its certificate would win over the token.
    server = (f"--server=https://{SERVICE_IP}", f"--certificate-authority={PKI}/ca.crt", "--kubeconfig=/dev/null")
    line = [str(BIN / "kubectl"), *server, f"--token={token}", "create", "--validate=false", "-f", "-"]
    done = subprocess.run(line, input=json.dumps(other), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "must not write slices of another node" in done.stderr


def test_a_forced_deletion_leaves_nothing_behind() -> None:
    with claims(claim("gone", "4Gi")):
        name = uid("gone")
        with pods(claiming("killed", claims=("gone",))):
            assert (CLAIMS / f"{name}.json").exists()
        wait_until(lambda: not left_of([name]), "its files are removed", 60)

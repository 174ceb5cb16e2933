"""What the stories of the DRA driver are told with: claims, slices, pods that have a claim."""

import contextlib
import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.kit import BIN, NODE, ROOT, SLOT, SYSTEM, allocatable, apply, kubectl, pod, system_pod, wait_until
from nvshare.quantity import parse_bytes
from settings import HAS_SHARED_CLAIMS, KUBELET_ROOT, KUBERNETES_MINOR, PKI, SERVICE_IP
from sim_gpu_hook import cdi_file

needs_shared_claims = pytest.mark.skipif(
    not HAS_SHARED_CLAIMS, reason="needs Kubernetes 1.36 or later: KUBERNETES=1.37 make e2e"
)
needs_several_devices = pytest.mark.skipif(
    KUBERNETES_MINOR < 36, reason="kube-scheduler 1.34 takes the first device of a slice only"
)

ANOTHER_NODE = "another-node"
CDI = Path("/var/run/cdi")
CLAIMS = Path("/run/nvshare-operator/claims")
MANIFESTS = ROOT / "deploy" / "manifests"
REGISTRY = KUBELET_ROOT / "plugins_registry"
_CHECKPOINT = KUBELET_ROOT / "device-plugins" / "kubelet_internal_checkpoint"
_SIMULATED = CDI / "simulated-gpus.json"


@contextlib.contextmanager
def driver_instead_of_plugin() -> Iterator[None]:
    """Inside the block the node's GPUs are offered to claims; after it as slots again."""
    kubectl("delete", "daemonset", "-n", SYSTEM, "nvshare-device-plugin", "--wait=true")
    plugin_pods = ("get", "pods", "-n", SYSTEM, "-l", "app.kubernetes.io/component=device-plugin", "-o", "name")
    wait_until(lambda: not kubectl(*plugin_pods), "the device plugin has ended", 60)
    kubectl("apply", "-f", str(MANIFESTS / "dra"))
    try:
        kubectl("rollout", "status", "-n", SYSTEM, "daemonset/nvshare-dra-driver", "--timeout=90s")
        wait_until(lambda: len(devices()) == 2, "the node's slice has two devices", 60)
        CDI.mkdir(parents=True, exist_ok=True)
        _SIMULATED.write_text(json.dumps(cdi_file([uuid_of(device) for device in devices()])))
        yield
    finally:
        kubectl("delete", "-f", str(MANIFESTS / "dra"), "--ignore-not-found", "--wait=true")
        _SIMULATED.unlink(missing_ok=True)
        kubectl("apply", "-f", str(MANIFESTS))
        wait_until(lambda: allocatable() == 20, "the node offers 20 slots again", 90)


def remembered_slots() -> list[str]:
    """The pods, by UID, that kubelet gave slots to and has not forgotten."""
    entries = json.loads(_CHECKPOINT.read_text())["Data"]["PodDeviceEntries"] or []
    return [entry["PodUID"] for entry in entries if entry["ResourceName"] == SLOT]


def plugin_is_registered() -> bool:
    """Whether kubelet has a device plugin for slots, or waits for one to come back."""
    return SLOT in (json.loads(_CHECKPOINT.read_text())["Data"]["RegisteredDevices"] or {})


def driver_pid() -> int:
    """The driver's pid on this machine."""
    done = subprocess.run(["pgrep", "-f", "bin/nvshare-dra-driver"], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0])


def sockets() -> tuple[int, int]:
    """How many sockets drivers have: their own, and those by which kubelet finds them."""
    folders = (KUBELET_ROOT / "plugins" / "gpu.nvshare.com").glob("dra*.sock"), REGISTRY.glob("gpu.nvshare.com*")
    own, registered = (len(list(found)) for found in folders)
    return own, registered


@contextlib.contextmanager
def driver_settings(**environment: str) -> Iterator[None]:
    """The driver with other settings; those of the manifest again after the block."""
    daemonset = ("-n", SYSTEM, "daemonset/nvshare-dra-driver")
    kubectl("set", "env", *daemonset, *(f"{name}={value}" for name, value in environment.items()))
    try:
        kubectl("rollout", "status", *daemonset, "--timeout=120s")
        yield
    finally:
        kubectl("apply", "-f", str(MANIFESTS / "dra" / "dra-driver.yaml"))
        kubectl("rollout", "status", *daemonset, "--timeout=120s")


def is_refused(component: str, by: str) -> bool:
    """Whether one of our DaemonSets has said that the other offers the GPUs, and what to do about it."""
    selector = ("-n", SYSTEM, "-l", f"app.kubernetes.io/component={component}")
    said = "".join(kubectl("logs", *selector, *flags, check=False) for flags in ((), ("--previous",)))
    remedy = (
        "exclude the node from one of the two DaemonSets (nodeSelector), or give each program its own GPUs (--gpus)"
    )
    return f"is offered by {by} on this node; {remedy}" in said


def as_driver(*args: str, item: dict[str, Any] | None = None) -> str:
    """kubectl with the driver's own token; what it says about its failure."""
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={system_pod('dra-driver')}")
    token = kubectl("create", "token", "-n", SYSTEM, "nvshare-dra-driver", *bound)
    # Without the administrator's kubeconfig: its certificate would win over the token.
    server = (f"--server=https://{SERVICE_IP}", f"--certificate-authority={PKI}/ca.crt", "--kubeconfig=/dev/null")
    line = [str(BIN / "kubectl"), *server, f"--token={token}", *args]
    done = subprocess.run(line, input=json.dumps(item), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr


@contextlib.contextmanager
def another_node(memory: str) -> Iterator[None]:
    """A second Node object with one GPU. It has no kubelet: what is placed there does not start. After a minute it is
    not ready any more."""
    taint = {"key": "test", "value": "nvshare", "effect": "NoSchedule"}  # DaemonSets stay away
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": ANOTHER_NODE}, "spec": {"taints": [taint]}}
    room = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": "as kubelet would say"}
    apply(node, slice_of_another_node(memory))
    try:
        status = json.dumps({"status": {"capacity": room, "allocatable": room, "conditions": [ready]}})
        kubectl("patch", "node", ANOTHER_NODE, "--subresource=status", "--type=merge", "-p", status)
        yield
    finally:
        kubectl("delete", "pod", "--force", "--grace-period=0", "-l", "test=nvshare")
        kubectl("delete", "resourceslice", ANOTHER_NODE)
        kubectl("delete", "node", ANOTHER_NODE)


def slice_of_another_node(memory: str) -> dict[str, Any]:
    """What another node's driver would publish: one GPU."""
    spec = slices()[0]["spec"]
    device = json.loads(json.dumps(spec["devices"][0]))
    device["capacity"]["memory"]["value"] = memory
    device["capacity"]["memory"]["requestPolicy"]["validRange"]["max"] = memory
    pool = {"name": ANOTHER_NODE, "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": ANOTHER_NODE},
        "spec": {"driver": spec["driver"], "nodeName": ANOTHER_NODE, "pool": pool, "devices": [device]},
    }


def tolerant(made: dict[str, Any]) -> dict[str, Any]:
    """A pod that may go to the other node."""
    made["spec"]["tolerations"] = [{"key": "test", "operator": "Exists"}]
    return made


def node_of(name: str) -> str:
    return kubectl("get", "pod", name, "-o", "jsonpath={.spec.nodeName}")


def slices() -> list[dict[str, Any]]:
    items = json.loads(kubectl("get", "resourceslices", "-o", "json") or '{"items": []}')["items"]
    return [item for item in items if item["spec"]["driver"] == "gpu.nvshare.com" and item["spec"]["nodeName"] == NODE]


def slice_uids() -> set[str]:
    return {item["metadata"]["uid"] for item in slices()}


def devices() -> list[dict[str, Any]]:
    """The published devices, in the order in which claims get them."""
    return [device for item in slices() for device in item["spec"].get("devices", [])]


def uuid_of(device: dict[str, Any]) -> str:
    return str(device["attributes"]["uuid"]["string"])


def claim(
    name: str, memory: str | None = "8Gi", *, count: int = 1, gpu: str = "", **parameters: object
) -> dict[str, Any]:
    """A ResourceClaim, on one GPU if its UUID is given; parameters are those of NvshareConfig."""
    request: dict[str, Any] = {"deviceClassName": "gpu.nvshare.com", "count": count}
    if memory:
        request["capacity"] = {"requests": {"memory": memory}}
    if gpu:
        same = f'device.attributes["gpu.nvshare.com"].uuid == "{gpu}"'
        request["selectors"] = [{"cel": {"expression": same}}]
    spec: dict[str, Any] = {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}
    if parameters:
        config = {"apiVersion": "gpu.nvshare.com/v1alpha1", "kind": "NvshareConfig", **parameters}
        spec["devices"]["config"] = [{"opaque": {"driver": "gpu.nvshare.com", "parameters": config}}]
    labels = {"test": "nvshare"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def claiming(name: str, *command: str, claims: tuple[str, ...], **more: Any) -> dict[str, Any]:
    """A pod that has some claims."""
    made = pod(name, *command, slots=0, **more)
    made["spec"]["resourceClaims"] = [{"name": one, "resourceClaimName": one} for one in claims]
    made["spec"]["containers"][0]["resources"] = {"claims": [{"name": one} for one in claims]}
    return made


@contextlib.contextmanager
def claims(*items: dict[str, Any]) -> Iterator[None]:
    """Claims that exist inside the block; nothing of them is left on the node after it."""
    apply(*items)
    uids = [uid(item["metadata"]["name"]) for item in items]
    try:
        yield
    finally:
        kubectl("delete", "pod", "-l", "test=nvshare", "--force", "--grace-period=0", "--ignore-not-found")
        names = [item["metadata"]["name"] for item in items]
        kubectl("delete", "resourceclaim", "--wait=true", "--ignore-not-found", *names)
        wait_until(lambda: not left_of(uids), f"nothing is left of {names}: {left_of(uids)}", 90)


def uid(claim_name: str) -> str:
    return kubectl("get", "resourceclaim", claim_name, "-o", "jsonpath={.metadata.uid}")


def left_of(uids: list[str]) -> list[str]:
    """Files of claims on the node."""
    found = [path.name for folder in (CLAIMS, CDI) for path in folder.iterdir()]
    return [name for name in found if any(one in name for one in uids)]


def allocated(*claim_names: str) -> list[str]:
    """The devices that some claims have."""
    items = json.loads(kubectl("get", "resourceclaim", "-o", "json"))["items"]
    found = {item["metadata"]["name"]: item.get("status", {}).get("allocation", {}) for item in items}
    results = [found[name].get("devices", {}).get("results", []) for name in claim_names]
    return [result["device"] for one in results for result in one]


def pending_reason(name: str) -> str:
    """Why kube-scheduler does not place a pod; waits until it says so."""
    path = '{.status.conditions[?(@.type=="PodScheduled")].message}'
    wait_until(lambda: bool(kubectl("get", "pod", name, "-o", f"jsonpath={path}")), f"{name} is judged", 60)
    return kubectl("get", "pod", name, "-o", f"jsonpath={path}")


def consumed() -> Counter[str]:
    """By device: how much of its memory claims have, at one moment."""
    items = json.loads(kubectl("get", "resourceclaim", "-A", "-o", "json"))["items"]
    allocations = [item.get("status", {}).get("allocation", {}) for item in items]
    total: Counter[str] = Counter()
    for result in (result for one in allocations for result in one.get("devices", {}).get("results", [])):
        total[result["device"]] += parse_bytes(result["consumedCapacity"]["memory"])
    return total


def finished() -> int:
    """How many of the test's pods have ended well."""
    selector = ("-l", "test=nvshare", "--field-selector=status.phase=Succeeded")
    return len(kubectl("get", "pods", *selector, "-o", "name").split())


def phase(name: str) -> str:
    return kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")

"""What the stories of the DRA driver are told with: claims, slices, pods that have a claim."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from e2e.kit import NODE, ROOT, SYSTEM, allocatable, apply, kubectl, pod, wait_until
from sim_gpu_hook import cdi_file

CDI = Path("/var/run/cdi")
CLAIMS = Path("/run/nvshare-operator/claims")
MANIFESTS = ROOT / "deploy" / "manifests"
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


def slices() -> list[dict[str, Any]]:
    items = json.loads(kubectl("get", "resourceslices", "-o", "json") or '{"items": []}')["items"]
    return [item for item in items if item["spec"]["driver"] == "gpu.nvshare.com" and item["spec"]["nodeName"] == NODE]


def devices() -> list[dict[str, Any]]:
    """The published devices, in the order in which claims get them."""
    return [device for item in slices() for device in item["spec"].get("devices", [])]


def uuid_of(device: dict[str, Any]) -> str:
    return str(device["attributes"]["uuid"]["string"])


def claim(name: str, memory: str | None = "8Gi", *, count: int = 1, **parameters: object) -> dict[str, Any]:
    """A ResourceClaim; parameters are those of NvshareConfig."""
    request: dict[str, Any] = {"deviceClassName": "gpu.nvshare.com", "count": count}
    if memory:
        request["capacity"] = {"requests": {"memory": memory}}
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


def running() -> list[str]:
    """The test's pods that run."""
    selector = ("-l", "test=nvshare", "--field-selector=status.phase=Running")
    return kubectl("get", "pods", *selector, "-o", "name").split()


def phase(name: str) -> str:
    return kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")

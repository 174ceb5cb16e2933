"""The chart's DRA driver, and what is rendered from it."""

from pathlib import Path
from typing import Any

import pytest

import render

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (development group)")
HELM = render.find_helm()
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not available (tools/cluster/build-helm.sh builds it)")


def rendered() -> dict[tuple[str, str], Any]:
    texts = [path.read_text() for path in sorted((render.MANIFESTS / "dra").glob("*.yaml"))]
    items = [item for text in texts for item in yaml.safe_load_all(text) if item]
    return {(item["kind"], item["metadata"]["name"]): item for item in items}


def test_the_driver_may_write_slices_and_read_claims_and_its_node_and_nothing_else() -> None:
    assert rendered()["ClusterRole", "nvshare-dra-driver"]["rules"] == [
        {
            "apiGroups": ["resource.k8s.io"],
            "resources": ["resourceslices"],
            "verbs": ["get", "list", "watch", "create", "update", "delete"],
        },
        {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ]


def test_the_policy_binds_the_drivers_own_account() -> None:
    items = rendered()
    policy = items["ValidatingAdmissionPolicy", "nvshare-dra-driver"]["spec"]
    assert policy["failurePolicy"] == "Fail"
    (condition,) = policy["matchConditions"]
    assert "system:serviceaccount:nvshare-system:nvshare-dra-driver" in condition["expression"]
    assert items["ServiceAccount", "nvshare-dra-driver"]["metadata"]["namespace"] == "nvshare-system"
    binding = items["ValidatingAdmissionPolicyBinding", "nvshare-dra-driver"]["spec"]
    assert binding == {"policyName": "nvshare-dra-driver", "validationActions": ["Deny"]}


def test_the_device_class_stands_in_for_the_device_plugins_resource() -> None:
    assert rendered()["DeviceClass", "gpu.nvshare.com"]["spec"] == {
        "selectors": [{"cel": {"expression": 'device.driver == "gpu.nvshare.com"'}}],
        "extendedResourceName": "nvshare.com/gpu",
    }


def test_the_driver_does_not_see_the_operators_socket_and_has_no_capability() -> None:
    pod = rendered()["DaemonSet", "nvshare-dra-driver"]["spec"]["template"]["spec"]
    paths = {volume["hostPath"]["path"] for volume in pod["volumes"]}
    assert "/run/nvshare-operator" not in paths
    assert {"/run/nvshare-operator/claims", "/run/nvshare-operator/served"} <= paths
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_every_setting_of_the_driver_is_one_that_it_knows() -> None:
    from nvshare.dra.main import main

    known = {str(parameter.envvar) for parameter in main.params}
    (container,) = rendered()["DaemonSet", "nvshare-dra-driver"]["spec"]["template"]["spec"]["containers"]
    names = {entry["name"] for entry in container["env"]}
    assert {name for name in names if name.startswith("NVSHARE_")} <= known


@needs_helm
def test_both_ways_may_run_when_they_divide_the_gpus() -> None:
    assert HELM is not None
    text = render.template(HELM, "draDriver.enabled=true", "draDriver.gpus=1", "devicePlugin.gpus=0")
    names = [item["metadata"]["name"] for item in yaml.safe_load_all(text) if item and item["kind"] == "DaemonSet"]
    assert sorted(names) == ["nvshare-device-plugin", "nvshare-dra-driver", "nvshare-scheduler"]


@pytest.mark.parametrize(
    "path", sorted((render.HERE / "examples" / "dra").glob("*.yaml")), ids=lambda path: str(path.name)
)
def test_every_pod_of_the_examples_uses_a_claim_for_memory_that_the_example_has(path: Path) -> None:
    items = [item for item in yaml.safe_load_all(path.read_text()) if item]
    made = {item["metadata"]["name"]: item for item in items if item["kind"].startswith("ResourceClaim")}
    for item in made.values():
        spec = item["spec"]["spec"] if item["kind"] == "ResourceClaimTemplate" else item["spec"]
        (request,) = spec["devices"]["requests"]
        assert request["exactly"]["deviceClassName"] == "gpu.nvshare.com"
        assert list(request["exactly"]["capacity"]["requests"]) == ["memory"]
    used = [item["spec"] for item in items if item["kind"] == "Pod"]
    assert used
    for pod in used:
        (entry,) = pod["resourceClaims"]
        assert (entry.get("resourceClaimName") or entry["resourceClaimTemplateName"]) in made
        assert pod["containers"][0]["resources"] == {"claims": [{"name": entry["name"]}]}

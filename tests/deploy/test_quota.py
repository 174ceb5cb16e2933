"""The examples of quotas of GPU time name what nvshare reads. tests/e2e gives them to an API server."""

import json
import re
from typing import Any

import pytest

import render
from nvshare.dra.claims import read_config
from nvshare.kube.annotations import CORE_LIMIT, RESOURCE

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (development group)")
FOLDER = render.HERE / "examples" / "quota"


def documents(name: str) -> dict[str, dict[str, Any]]:
    """By kind."""
    return {item["kind"]: item for item in yaml.safe_load_all((FOLDER / name).read_text())}


def test_the_policy_reads_the_annotation_that_its_pod_has() -> None:
    found = documents("slots.yaml")
    policy, pod = found["ValidatingAdmissionPolicy"], found["Pod"]
    texts = [variable["expression"] for variable in policy["spec"]["variables"]]
    assert {name for text in texts for name in re.findall('"([^"]+)"', text)} == {CORE_LIMIT, RESOURCE}
    assert list(found["ResourceQuota"]["spec"]["hard"]) == [f"requests.{RESOURCE}"]
    (check,) = policy["spec"]["validations"]
    most = int(check["expression"].rpartition("<=")[2].rstrip(" )"))
    assert int(pod["metadata"]["annotations"][CORE_LIMIT]) <= most
    assert found["ValidatingAdmissionPolicyBinding"]["spec"]["policyName"] == policy["metadata"]["name"]


def test_the_policy_looks_at_every_container_that_may_have_a_slot() -> None:
    variables = documents("slots.yaml")["ValidatingAdmissionPolicy"]["spec"]["variables"]
    (shares,) = [variable["expression"] for variable in variables if variable["name"] == "sharesGpu"]
    assert re.findall(r"object\.spec\.(\w+)\.exists", shares) == ["containers", "initContainers"]
    assert "has(object.spec.initContainers) &&" in shares, "an error of the expression refuses every pod without them"
    assert shares.count(f'"{RESOURCE}" in c.resources.limits') == 2


def test_the_class_has_parameters_that_the_driver_accepts_and_the_quota_counts_it() -> None:
    found = documents("claims.yaml")
    (entry,) = found["DeviceClass"]["spec"]["config"]
    assert read_config(json.dumps(entry["opaque"]["parameters"]).encode()).coreLimit == 25
    name = found["DeviceClass"]["metadata"]["name"]
    assert list(found["ResourceQuota"]["spec"]["hard"]) == [f"{name}.deviceclass.resource.k8s.io/devices"]
    (request,) = found["ResourceClaimTemplate"]["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["deviceClassName"] == name

"""The API server takes every example, with no field that it does not know. Kueue's objects and configuration are
compared with the types of Kueue's release; Kueue itself does not run."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.dra import needs_shared_claims
from e2e.go_types import unknown_fields
from e2e.kit import CORE_LIMIT, ROOT, kubectl, wait_until
from settings import KUEUE_TYPES

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (development group)")
EXAMPLES = ROOT / "deploy" / "examples"
QUEUES = EXAMPLES / "kueue" / "queues.yaml"
OBJECTS = KUEUE_TYPES / "objects"
STRICTLY = ("create", "--validate=strict", "-f", "-")


def named(*paths: Path) -> list[object]:
    return [pytest.param(path, id=path.name) for path in sorted(paths)]


@pytest.mark.parametrize("path", named(*EXAMPLES.glob("*.yaml"), EXAMPLES / "quota" / "slots.yaml"))
def test_the_api_server_knows_every_field_of_a_pod(path: Path) -> None:
    assert kubectl(*STRICTLY, "--dry-run=server", text=path.read_text())


@needs_shared_claims
@pytest.mark.parametrize("path", named(*EXAMPLES.glob("dra/*.yaml"), EXAMPLES / "quota" / "claims.yaml"))
def test_the_api_server_knows_every_field_of_a_claim_and_its_pods(path: Path) -> None:
    assert kubectl(*STRICTLY, "--dry-run=server", text=path.read_text())


def test_the_quota_of_gpu_time_admits_pods_with_a_low_core_limit_and_no_others() -> None:
    *policy, pod = yaml.safe_load_all((EXAMPLES / "quota" / "slots.yaml").read_text())
    team = {"name": "quota-team", "labels": {"nvshare.com/core-limit": "required"}}
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": team}, *policy]

    def admitted(limit: str | None) -> bool:
        pod["metadata"]["annotations"] = {} if limit is None else {CORE_LIMIT: limit}
        return bool(kubectl(*STRICTLY, "-n", "quota-team", "--dry-run=server", text=json.dumps(pod), check=False))

    kubectl(
        "apply", "-n", "quota-team", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    )
    try:
        wait_until(lambda: not admitted(None), "the policy is in force", 60)
        with pytest.raises(RuntimeError, match="a pod that shares a GPU needs the annotation"):
            kubectl(*STRICTLY, "-n", "quota-team", "--dry-run=server", text=json.dumps(pod))
        assert [limit for limit in ("1", "25", "26", "100", "0", "half", "") if admitted(limit)] == ["1", "25"]
    finally:
        for item in policy:
            kubectl("delete", item["kind"], item["metadata"]["name"], "-n", "quota-team", "--ignore-not-found")
        kubectl("delete", "namespace", "quota-team", "--wait=false")


@pytest.fixture(scope="module")
def kueue_types(nvshare: None) -> Iterator[None]:
    """The cluster knows Kueue's objects, and has the namespaces of the examples."""
    names = ("team-a", "team-b")
    kubectl("create", "-f", str(OBJECTS))
    try:
        wait_until(lambda: established() == len(list(OBJECTS.iterdir())), "Kueue's types are served", 60)
        for name in names:
            kubectl("create", "namespace", name)
        yield
    finally:
        kubectl("delete", "namespace", "--ignore-not-found", *names)
        kubectl("delete", "--wait=false", "-f", str(OBJECTS))


def established() -> int:
    """How many of Kueue's types the API server serves. At first a type has no conditions."""
    items = json.loads(kubectl("get", "-f", str(OBJECTS), "-o", "json"))["items"]
    conditions = [condition for item in items for condition in item.get("status", {}).get("conditions") or []]
    return sum(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


@contextlib.contextmanager
def queues() -> Iterator[None]:
    kubectl(*STRICTLY, text=QUEUES.read_text())
    try:
        yield
    finally:
        kubectl("delete", "-f", str(QUEUES))


@pytest.mark.usefixtures("kueue_types")
def test_kueues_types_have_every_field_of_the_queues() -> None:
    with queues():
        for kind, count in (("resourceflavors", 1), ("clusterqueues", 2), ("localqueues", 2)):
            names = kubectl("get", f"{kind}.v1beta2.kueue.x-k8s.io", "-A", "-o", "name").split()
            assert len(names) == count, kind


@pytest.mark.usefixtures("kueue_types")
@pytest.mark.parametrize("field", ["cohortName", "nominalQuota", "clusterQueue"])
def test_a_field_that_kueues_types_do_not_have_is_refused(field: str) -> None:
    text = QUEUES.read_text()
    assert field in text
    with pytest.raises(RuntimeError, match=f'unknown field "spec.*{field}s"'):
        kubectl(*STRICTLY, "--dry-run=server", text=text.replace(f"{field}:", f"{field}s:"))


@needs_shared_claims
@pytest.mark.usefixtures("kueue_types")
def test_the_api_server_knows_every_field_of_the_queued_job() -> None:
    assert kubectl(*STRICTLY, "--dry-run=server", text=(EXAMPLES / "kueue" / "job.yaml").read_text())


def configurations() -> list[object]:
    return named(*EXAMPLES.glob("kueue/configuration-*.yaml"))


@pytest.mark.parametrize("path", configurations())
def test_kueues_configuration_has_every_field_and_feature_of_the_example(path: Path) -> None:
    source = (KUEUE_TYPES / "configuration_types.go").read_text()
    configuration = yaml.safe_load(path.read_text())
    assert configuration.pop("apiVersion") == "config.kueue.x-k8s.io/v1beta2"
    assert configuration.pop("kind") == "Configuration"
    assert unknown_fields(source, "Configuration", configuration) == []
    features = (KUEUE_TYPES / "kube_features.go").read_text()
    for name in configuration.get("featureGates", {}):
        assert f'featuregate.Feature = "{name}"' in features


def test_a_field_that_kueues_configuration_does_not_have_is_found() -> None:
    source = (KUEUE_TYPES / "configuration_types.go").read_text()
    wrong = {"resources": {"transformations": [{"input": "a", "inputs": "b"}]}, "resource": {}}
    assert unknown_fields(source, "Configuration", wrong) == ["resources.transformations.inputs", "resource"]

"""The examples for Kueue agree with each other and with the driver. tests/e2e compares them with Kueue's types."""

from typing import Any

import pytest

import render
from nvshare.dra.devices import DRIVER, MEMORY

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (development group)")
FOLDER = render.HERE / "examples" / "kueue"


def documents(name: str) -> list[dict[str, Any]]:
    return [item for item in yaml.safe_load_all((FOLDER / name).read_text()) if item]


def test_both_configurations_fill_the_quota_that_the_queues_have() -> None:
    (claims,), (slots,) = documents("configuration-claims.yaml"), documents("configuration-slots.yaml")
    (mapping,) = claims["resources"]["deviceClassMappings"]
    (source,) = mapping["sources"]
    assert (source["capacity"]["name"], source["capacity"]["driver"]) == (MEMORY, DRIVER)
    (transformation,) = slots["resources"]["transformations"]
    queues = [item for item in documents("queues.yaml") if item["kind"] == "ClusterQueue"]
    covered = {
        name for queue in queues for group in queue["spec"]["resourceGroups"] for name in group["coveredResources"]
    }
    assert covered == {mapping["name"]} == set(transformation["outputs"])


def test_the_job_names_a_queue_and_a_template_that_the_examples_have() -> None:
    template, job = documents("job.yaml")
    queues = {(item["metadata"].get("namespace"), item["metadata"]["name"]) for item in documents("queues.yaml")}
    labels, namespace = job["metadata"]["labels"], job["metadata"]["namespace"]
    assert (namespace, labels["kueue.x-k8s.io/queue-name"]) in queues
    (claim,) = job["spec"]["template"]["spec"]["resourceClaims"]
    assert (namespace, claim["resourceClaimTemplateName"]) == (
        template["metadata"]["namespace"],
        template["metadata"]["name"],
    )


def test_every_example_says_that_it_is_not_tested() -> None:
    for path in FOLDER.glob("*.yaml"):
        assert "Not tested with Kueue" in path.read_text(), path

"""What a pod's JSON says, and what is complained about."""

import json
from typing import Any

import msgspec
import pytest
from fake_apiserver import pod

from nvshare.kube.annotations import (
    MEMORY_LIMIT,
    PRIORITY,
    SPEC_LIMIT,
    WEIGHT,
    Pod,
    Wishes,
    has_slot,
    label,
    node_uid,
    read_wishes,
)

GIB = 1 << 30


def decode(item: dict[str, Any]) -> Pod:
    return msgspec.json.decode(json.dumps(item), type=Pod)


def test_annotations_and_the_specs_environment_are_read() -> None:
    item = pod(
        "p",
        annotations={MEMORY_LIMIT: "8Gi", PRIORITY: "-5", WEIGHT: "3", "other": "x"},
        env=[{"name": SPEC_LIMIT, "value": "2Gi"}],
    )
    assert read_wishes(decode(item), Wishes()) == (Wishes(limit=8 * GIB, spec_limit=2 * GIB, priority=-5, weight=3), [])
    assert label(decode(item)) == "default/p"


def test_a_pod_that_says_nothing_wishes_nothing() -> None:
    assert read_wishes(decode({"metadata": {"uid": "u", "annotations": None}}), Wishes()) == (Wishes(), [])
    assert read_wishes(decode(pod("p", env=[{"name": SPEC_LIMIT, "valueFrom": {"fieldRef": {}}}])), Wishes()) == (
        Wishes(),
        [],
    )


def test_a_bad_value_keeps_the_last_one_and_is_complained_about() -> None:
    item = pod("p", annotations={MEMORY_LIMIT: "lots", PRIORITY: "1.5", WEIGHT: "0"})
    before = Wishes(limit=GIB, priority=2, weight=7)
    wishes, complaints = read_wishes(decode(item), before)
    assert wishes == before
    assert [(complaint.key, complaint.value) for complaint in complaints] == [
        (MEMORY_LIMIT, "lots"),
        (PRIORITY, "1.5"),
        (WEIGHT, "0"),
    ]


def test_removing_an_annotation_is_not_a_bad_value() -> None:
    assert read_wishes(decode(pod("p")), Wishes(limit=GIB)) == (Wishes(), [])


@pytest.mark.parametrize(
    ("containers", "expected", "others"),
    [
        ([["1Gi"], ["3Gi"]], 3 * GIB, (GIB,)),
        ([["1Gi"], []], GIB, ()),
        ([["1Gi", "2Gi"]], 2 * GIB, ()),
        ([["1Gi"], ["0"]], 0, (GIB,)),
        ([["rubbish"], ["1Gi"]], GIB, ()),
        ([["2Gi"], ["1Gi"], ["3Gi"], ["3Gi"]], 3 * GIB, (GIB, 2 * GIB)),
    ],
)
def test_containers_that_differ_give_the_pod_the_largest(
    containers: list[list[str]], expected: int, others: tuple[int, ...]
) -> None:
    item = pod("p")
    item["spec"]["containers"] = [
        {"env": [{"name": SPEC_LIMIT, "value": value} for value in values]} for values in containers
    ]
    wishes, _ = read_wishes(decode(item), Wishes())
    assert (wishes.spec_limit, wishes.container_limits) == (expected, others)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({"nvshare.com/gpu": "1"}, True), ({"nvshare.com/gpu": "0"}, False), ({"cpu": 1}, False), (None, False)],
)
def test_a_pod_with_a_shared_gpu_is_told_from_others(limits: dict[str, Any] | None, expected: bool) -> None:
    item = pod("p")
    item["spec"]["containers"].append({"resources": {"limits": limits}})
    assert has_slot(decode(item)) is expected


def test_only_a_static_pods_uid_is_taken_from_an_annotation() -> None:
    def known_as(original: str) -> str:
        return node_uid(decode(pod("p", annotations={"kubernetes.io/config.mirror": original})))

    assert known_as("0123456789abcdef0123456789abcdef") == "0123456789abcdef0123456789abcdef"
    assert known_as("920c6b6e-af49-43b2-ac42-d633dc788812") == "uid-p"  # somebody else's
    assert known_as("") == "uid-p"

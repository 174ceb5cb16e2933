"""What a pod's JSON says, and what is complained about."""

import json
from typing import Any

import msgspec
import pytest

from kube.fake_apiserver import pod
from nvshare.kube.annotations import (
    CORE_LIMIT,
    MEMORY_LIMIT,
    MEMORY_SHRINK,
    PAUSE,
    PRIORITY,
    SPEC_CORE_LIMIT,
    SPEC_LIMIT,
    WEIGHT,
    Pod,
    PodSettings,
    claims_of,
    has_slot,
    label,
    node_uid,
    read_settings,
)

GIB = 1 << 30


def decode(item: dict[str, Any]) -> Pod:
    return msgspec.json.decode(json.dumps(item), type=Pod)


def test_annotations_and_the_specs_environment_are_read() -> None:
    item = pod(
        "p",
        annotations={
            MEMORY_LIMIT: "8Gi",
            PRIORITY: "-5",
            WEIGHT: "3",
            MEMORY_SHRINK: "false",
            PAUSE: "true",
            CORE_LIMIT: "30",
            "other": "x",
        },
        env=[{"name": SPEC_LIMIT, "value": "2Gi"}, {"name": SPEC_CORE_LIMIT, "value": "60%"}],
    )
    assert read_settings(decode(item), PodSettings()) == (
        PodSettings(
            limit=8 * GIB,
            spec_limit=2 * GIB,
            priority=-5,
            weight=3,
            shrinks=False,
            is_paused=True,
            core_limit=30,
            spec_core_limit=60,
        ),
        [],
    )
    assert label(decode(item)) == "default/p"


def test_a_pod_that_says_nothing_wishes_nothing() -> None:
    assert read_settings(decode({"metadata": {"uid": "u", "annotations": None}}), PodSettings()) == (PodSettings(), [])
    assert read_settings(
        decode(pod("p", env=[{"name": SPEC_LIMIT, "valueFrom": {"fieldRef": {}}}])), PodSettings()
    ) == (
        PodSettings(),
        [],
    )


def test_a_bad_value_keeps_the_last_one_and_is_complained_about() -> None:
    bad = {MEMORY_LIMIT: "lots", PRIORITY: "1.5", WEIGHT: "0", MEMORY_SHRINK: "no", PAUSE: "yes", CORE_LIMIT: "130"}
    item = pod("p", annotations=bad, env=[{"name": SPEC_CORE_LIMIT, "value": "half"}])
    before = PodSettings(limit=GIB, priority=2, weight=7, shrinks=True, is_paused=True, core_limit=30)
    settings, complaints = read_settings(decode(item), before)
    assert settings == before
    assert [(complaint.key, complaint.value) for complaint in complaints] == [
        (MEMORY_LIMIT, "lots"),
        (PRIORITY, "1.5"),
        (WEIGHT, "0"),
        (MEMORY_SHRINK, "no"),
        (PAUSE, "yes"),
        (CORE_LIMIT, "130"),
        (SPEC_CORE_LIMIT, "half"),
    ]
    assert complaints[-1].reason == "is not a whole number of percent from 1 to 100"
    assert [complaint.instead for complaint in complaints] == [
        *["the value before it stays in force"] * 6,
        "it is ignored",
    ]


def test_a_bad_value_without_one_before_it_is_ignored_and_the_memory_limit_is_what_the_processes_have() -> None:
    bad = {MEMORY_LIMIT: "lots", PRIORITY: "1.5", WEIGHT: "0", MEMORY_SHRINK: "no", PAUSE: "yes", CORE_LIMIT: "130"}
    settings, complaints = read_settings(decode(pod("p", annotations=bad)), PodSettings())
    assert settings == PodSettings(keeps_limit=True)
    assert [complaint.instead for complaint in complaints] == [
        "the limit that the pod's processes have, if any, stays in force",
        *["it is ignored"] * 5,
    ]


def test_a_bad_value_without_one_before_it_says_that_the_limit_stays() -> None:
    """As after a restart: the caller has not seen the value before it. With a value, or without the annotation, no."""
    bad, good = pod("p", annotations={MEMORY_LIMIT: "lots"}), pod("p", annotations={MEMORY_LIMIT: "1Gi"})
    assert read_settings(decode(bad), PodSettings())[0] == PodSettings(keeps_limit=True)
    assert read_settings(decode(bad), PodSettings(keeps_limit=True))[0] == PodSettings(keeps_limit=True)
    assert read_settings(decode(good), PodSettings(keeps_limit=True))[0] == PodSettings(limit=GIB)
    assert read_settings(decode(pod("p")), PodSettings(keeps_limit=True))[0] == PodSettings()


def test_removing_an_annotation_is_not_a_bad_value() -> None:
    assert read_settings(decode(pod("p")), PodSettings(limit=GIB)) == (PodSettings(), [])


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
    settings, _ = read_settings(decode(item), PodSettings())
    assert (settings.spec_limit, settings.container_limits) == (expected, others)


def test_of_containers_with_different_core_limits_the_lowest_is_the_pods() -> None:
    item = pod("p")
    item["spec"]["containers"] = [{"env": [{"name": SPEC_CORE_LIMIT, "value": value}]} for value in ("60", "30", "")]
    assert read_settings(decode(item), PodSettings()) == (
        PodSettings(spec_core_limit=30, container_core_limits=(60,)),
        [],
    )


@pytest.mark.parametrize(
    ("limits", "expected"),
    [({"nvshare.com/gpu": "1"}, True), ({"nvshare.com/gpu": "0"}, False), ({"cpu": 1}, False), (None, False)],
)
def test_a_pod_with_a_shared_gpu_is_told_from_others(limits: dict[str, Any] | None, expected: bool) -> None:
    item = pod("p")
    item["spec"]["containers"].append({"resources": {"limits": limits}})
    assert has_slot(decode(item)) is expected


def test_a_slot_is_known_by_the_name_that_the_device_plugin_offers() -> None:
    item = pod("p")
    item["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    assert not has_slot(decode(item))
    assert has_slot(decode(item), "example.com/gpu")


def test_only_a_static_pods_uid_is_taken_from_an_annotation() -> None:
    def known_as(original: str) -> str:
        return node_uid(decode(pod("p", annotations={"kubernetes.io/config.mirror": original})))

    assert known_as("0123456789abcdef0123456789abcdef") == "0123456789abcdef0123456789abcdef"
    assert known_as("920c6b6e-af49-43b2-ac42-d633dc788812") == "uid-p"  # somebody else's
    assert known_as("") == "uid-p"


def test_claims_are_named_in_the_spec_or_made_from_templates_or_for_an_extended_resource() -> None:
    item = pod("p", namespace="team")
    assert claims_of(decode(item)) == ()
    item["spec"]["resourceClaims"] = [
        {"name": "a", "resourceClaimName": "ready"},
        {"name": "b", "resourceClaimTemplateName": "template"},
    ]
    assert claims_of(decode(item)) == ("team/ready",)
    item["status"] = {
        "phase": "Running",
        "resourceClaimStatuses": [
            {"name": "a", "resourceClaimName": "ready"},
            {"name": "b", "resourceClaimName": "p-b-x7x"},
            {"name": "c"},
        ],
        "extendedResourceClaimStatus": {"resourceClaimName": "p-extended", "requestMappings": []},
    }
    assert read_settings(decode(item), PodSettings())[0].claims == ("team/p-b-x7x", "team/p-extended", "team/ready")

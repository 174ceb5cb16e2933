"""Where claims go on a node: spread, pack, the number of slots, and who may offer a GPU."""

import pytest

from e2e.dra import (
    MANIFESTS,
    allocated,
    claim,
    claiming,
    claims,
    devices,
    driver_settings,
    is_refused,
    needs_several_devices,
    needs_shared_claims,
    pending_reason,
    phase,
)
from e2e.kit import SYSTEM, allocatable, apply, kubectl, pods, wait_until

pytestmark = [needs_shared_claims, needs_several_devices, pytest.mark.usefixtures("dra_driver")]
NAMES = ("a", "b", "c", "d")


def _order() -> list[str]:
    return [device["name"] for device in devices()]


def test_spread_gives_the_next_claim_the_least_loaded_gpu() -> None:
    first, second = _order()
    sizes = claim("a", "8Gi"), claim("b", "4Gi"), claim("c", "2Gi")
    with claims(*sizes), pods(claiming("pod-a", claims=("a",))):
        wait_until(lambda: _order() == [second, first], "the other GPU is offered first", 60)
        with pods(claiming("pod-b", claims=("b",))), pods(claiming("pod-c", claims=("c",))):  # 8 GiB against 4, then 6
            assert [allocated(name) for name in ("a", "b", "c")] == [[first], [second], [second]]


def test_pack_fills_one_gpu_before_the_next() -> None:
    with driver_settings(NVSHARE_PLACEMENT="pack"):
        first, second = _order()
        with claims(*(claim(name, "16Gi") for name in ("a", "b", "c"))), pods(claiming("pod-a", claims=("a",))):
            assert _order() == [first, second]
            with pods(claiming("pod-b", claims=("b",)), claiming("pod-c", claims=("c",))):
                found = [allocated(name) for name in ("a", "b", "c")]
                assert found[0] == [first]
                assert sorted(found[1] + found[2]) == sorted([first, second])


def test_a_claim_that_finds_no_slot_leaves_its_pod_pending_with_a_reason() -> None:
    with driver_settings(NVSHARE_SLOTS="2"):
        wait_until(lambda: _slots() == {"2"}, "each GPU has two slots", 60)
        with (
            claims(*(claim(name, "1Gi") for name in NAMES), claim("fifth", "1Gi")),
            pods(*(claiming(f"pod-{name}", claims=(name,)) for name in NAMES)),
        ):
            apply(claiming("waits", claims=("fifth",)))
            assert "cannot allocate all claims" in pending_reason("waits")
            kubectl("delete", "pod", "pod-a", "--force", "--grace-period=0")
            kubectl("delete", "resourceclaim", "a")
            wait_until(lambda: phase("waits") == "Running", "it runs when there is a slot", 60)


def _slots() -> set[str]:
    return {device["capacity"]["slots"]["value"] for device in devices()}


def test_the_device_plugin_does_not_offer_what_the_driver_offers() -> None:
    kubectl("apply", "-f", str(MANIFESTS / "device-plugin.yaml"))
    try:
        wait_until(lambda: is_refused("device-plugin", "nvshare-dra-driver"), "the device plugin names the remedy", 60)
        assert allocatable() == 0
        assert len(devices()) == 2
        with claims(claim("a")), pods(claiming("pod-a", claims=("a",))):
            assert len(allocated("a")) == 1
    finally:
        kubectl("delete", "-f", str(MANIFESTS / "device-plugin.yaml"), "--wait=true")
        pods_of_it = ("get", "pods", "-n", SYSTEM, "-l", "app.kubernetes.io/component=device-plugin", "-o", "name")
        wait_until(lambda: not kubectl(*pods_of_it), "the device plugin has ended", 60)

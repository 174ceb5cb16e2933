"""The devices that a node publishes."""

from fractions import Fraction

from nvshare.dra.devices import ORDERS, SharedGpu, device, ordered, slice_specs
from nvshare.inventory.gpus import Gpu

GIB = 1 << 30
MIB = 1 << 20


def shared(uuid: str = "GPU-0a", total: int = 16 * GIB, *, slots: int = 10, factor: str = "2") -> SharedGpu:
    gpu = Gpu(uuid=uuid, total_bytes=total, index=0, name="A Card")
    return SharedGpu(
        gpu=gpu,
        slots=slots,
        oversubscription=Fraction(factor),
        architecture="ampere",
        driver_version="535.104.05",
    )


def test_a_gpu_is_one_device_that_many_claims_share() -> None:
    assert device(shared()) == {
        "name": "gpu-0a",
        "allowMultipleAllocations": True,
        "attributes": {
            "uuid": {"string": "GPU-0a"},
            "model": {"string": "A Card"},
            "index": {"int": 0},
            "physicalMemory": {"int": 16 * GIB},
            "oversubscriptionPercent": {"int": 200},
            "architecture": {"string": "ampere"},
            "driverVersion": {"version": "535.104.5"},
        },
        "capacity": {
            "memory": {
                "value": "32768Mi",
                "requestPolicy": {
                    "default": "3276Mi",
                    "validRange": {"min": "1Mi", "max": "16384Mi", "step": "1Mi"},
                },
            },
            "slots": {"value": "10", "requestPolicy": {"default": "1", "validValues": ["1"]}},
        },
    }


def test_all_amounts_are_whole_steps_whatever_the_size_of_the_card() -> None:
    for total in (16 * GIB - 1, 24_576_000_001, 3 * MIB + 5):
        for factor in ("1", "1.5", "0.5", "3"):
            for slots in (1, 7, 1000):
                it = shared(total=total, factor=factor, slots=slots)
                amounts = (it.capacity_bytes, it.most_bytes, it.default_bytes)
                assert all(amount % MIB == 0 for amount in amounts)
                assert MIB <= it.default_bytes <= it.most_bytes <= min(total, it.capacity_bytes)


def test_one_slot_gets_the_whole_card_and_not_more() -> None:
    assert shared(slots=1).default_bytes == 16 * GIB


def test_an_unhealthy_gpu_is_tainted() -> None:
    taints = device(shared(), "XID error 79")["taints"]
    assert taints == [{"key": "nvshare.com/unhealthy", "value": "XID-error-79", "effect": "NoSchedule"}]


def test_a_mig_instance_of_an_old_driver_has_a_valid_name() -> None:
    assert shared("MIG-GPU-b8ea3855-276c-c9cb-b366-c6fa655957c5/1/0").name == (
        "mig-gpu-b8ea3855-276c-c9cb-b366-c6fa655957c5-1-0"
    )


def test_an_unusual_driver_version_is_left_out() -> None:
    attributes = device(SharedGpu(gpu=shared().gpu, slots=1, oversubscription=Fraction(1), driver_version="r570-beta"))[
        "attributes"
    ]
    assert isinstance(attributes, dict)
    assert "driverVersion" not in attributes
    assert "architecture" not in attributes


def test_spread_puts_the_least_loaded_gpu_first_and_pack_the_fullest() -> None:
    gpus = [shared("GPU-a"), shared("GPU-b"), shared("GPU-c", 48 * GIB)]
    consumed = {"GPU-a": 8 * GIB, "GPU-c": 12 * GIB}
    assert [it.gpu.uuid for it in ordered(gpus, consumed, ORDERS["spread"])] == ["GPU-b", "GPU-c", "GPU-a"]
    assert [it.gpu.uuid for it in ordered(gpus, consumed, ORDERS["pack"])] == ["GPU-a", "GPU-c", "GPU-b"]


def test_gpus_of_equal_load_keep_their_order() -> None:
    gpus = [shared("GPU-b"), shared("GPU-a")]
    for order in ORDERS.values():
        assert ordered(gpus, {}, order) == gpus


def test_a_node_with_more_devices_than_a_slice_holds_has_several_slices() -> None:
    specs = slice_specs("node-1", [{"name": f"d{number}"} for number in range(130)])
    assert [len(spec["devices"]) for spec in specs] == [64, 64, 2]  # type: ignore[arg-type]
    assert specs[2] == {
        "driver": "gpu.nvshare.com",
        "nodeName": "node-1",
        "pool": {"name": "node-1", "resourceSliceCount": 3},
        "devices": [{"name": "d128"}, {"name": "d129"}],
    }

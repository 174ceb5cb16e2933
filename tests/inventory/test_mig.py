"""A card that is split into MIG instances, as NVML tells of it. The simulated NVML has none, so its answers are set."""

from types import SimpleNamespace
from typing import Any

import pynvml as raw
import pytest

from nvshare.inventory.nvml import Nvml

GIB = 1 << 30
MEMORY = {"GPU-split": 40 * GIB, "GPU-whole": 16 * GIB, "MIG-one": 5 * GIB, "MIG-two": 20 * GIB}
"""In bytes, by UUID, which is also the handle."""
INSTANCES = {"GPU-split": {0: "MIG-one", 3: "MIG-two"}}


def _mig_mode(handle: str) -> list[int]:
    if handle not in INSTANCES:
        raise raw.NVMLError(raw.NVML_ERROR_NOT_SUPPORTED)
    return [raw.NVML_DEVICE_MIG_ENABLE, raw.NVML_DEVICE_MIG_ENABLE]


def _instance(handle: str, at: int) -> str:
    if at not in INSTANCES[handle]:
        raise raw.NVMLError(raw.NVML_ERROR_NOT_FOUND)
    return INSTANCES[handle][at]


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: dict[str, Any] = {
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: ("GPU-split", "GPU-whole")[index],
        "nvmlDeviceGetMigMode": _mig_mode,
        "nvmlDeviceGetMaxMigDeviceCount": lambda _: 7,
        "nvmlDeviceGetMigDeviceHandleByIndex": _instance,
        "nvmlDeviceGetUUID": lambda handle: handle,
        "nvmlDeviceGetName": lambda handle: f"name of {handle}",
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=MEMORY[handle], used=0),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(raw, name, answer)


@pytest.mark.usefixtures("driver")
def test_each_mig_instance_is_a_gpu_instead_of_the_card_that_is_split() -> None:
    with Nvml() as nvml:
        found = [(gpu.uuid, gpu.total_bytes, gpu.index) for gpu in nvml.discover()]
    assert found == [("MIG-one", 5 * GIB, 0), ("MIG-two", 20 * GIB, 0), ("GPU-whole", 16 * GIB, 1)]

"""The devices that this node publishes: one for each GPU, shared by many claims. Pure.

    capacity memory   = GPU memory * oversubscription; a claim consumes what it requests
                        default = capacity / slots, at most the GPU's memory, steps of 1Mi
    capacity slots    = the number of claims that may share the GPU; each consumes 1

kube-scheduler takes the first device that fits, in the order of the slices. So the order is the placement: with
`spread` the GPU with the smallest part of its memory in use is first, with `pack` the one with the largest."""

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from nvshare.inventory.gpus import Gpu
from nvshare.record import Record

DRIVER = "gpu.nvshare.com"
MEMORY = "memory"
SLOTS = "slots"
UNHEALTHY = "nvshare.com/unhealthy"
STEP_BYTES = 1 << 20
MOST_IN_SLICE = 64
"""Of devices that may have taints; the API server refuses more."""
_MOST_ATTRIBUTE_CHARACTERS = 64
_MOST_LABEL_CHARACTERS = 63

Json = dict[str, object]


class SharedGpu(Record, frozen=True):
    """A GPU as it is offered."""

    gpu: Gpu
    slots: int
    oversubscription: Fraction
    architecture: str = ""
    driver_version: str = ""

    @property
    def name(self) -> str:
        """The device's name: the UUID as a DNS label."""
        return re.sub(r"[^a-z0-9]+", "-", self.gpu.uuid.lower()).strip("-")[:_MOST_LABEL_CHARACTERS].rstrip("-")

    @property
    def capacity_bytes(self) -> int:
        return _whole_steps(int(self.gpu.total_bytes * self.oversubscription))

    @property
    def most_bytes(self) -> int:
        """The largest request: no program gets more than the GPU has."""
        return min(_whole_steps(self.gpu.total_bytes), self.capacity_bytes)

    @property
    def default_bytes(self) -> int:
        return min(self.most_bytes, max(STEP_BYTES, _whole_steps(self.capacity_bytes // self.slots)))


def _whole_steps(size: int) -> int:
    return size // STEP_BYTES * STEP_BYTES


ORDERS: Mapping[str, Callable[[Fraction], Fraction]] = {"spread": lambda load: load, "pack": lambda load: -load}


def ordered(
    gpus: Sequence[SharedGpu], consumed: Mapping[str, int], order: Callable[[Fraction], Fraction]
) -> list[SharedGpu]:
    """The GPUs in the order in which claims should get them; `consumed` is bytes by UUID."""
    return sorted(gpus, key=lambda it: order(Fraction(consumed.get(it.gpu.uuid, 0), it.capacity_bytes)))


def device(shared: SharedGpu, unhealthy: str = "") -> Json:
    """A GPU as a device of a ResourceSlice; `unhealthy` is the reason, if there is one."""
    made: Json = {
        "name": shared.name,
        "allowMultipleAllocations": True,
        "attributes": _attributes(shared),
        "capacity": {
            MEMORY: {
                "value": _quantity(shared.capacity_bytes),
                "requestPolicy": {
                    "default": _quantity(shared.default_bytes),
                    "validRange": {
                        "min": _quantity(STEP_BYTES),
                        "max": _quantity(shared.most_bytes),
                        "step": _quantity(STEP_BYTES),
                    },
                },
            },
            SLOTS: {"value": str(shared.slots), "requestPolicy": {"default": "1", "validValues": ["1"]}},
        },
    }
    if unhealthy:
        made["taints"] = [{"key": UNHEALTHY, "value": _label_value(unhealthy), "effect": "NoSchedule"}]
    return made


def _quantity(size: int) -> str:
    return f"{size // STEP_BYTES}Mi"


def _attributes(shared: SharedGpu) -> Json:
    gpu = shared.gpu
    made: Json = {
        "uuid": {"string": gpu.uuid[:_MOST_ATTRIBUTE_CHARACTERS]},
        "model": {"string": gpu.name[:_MOST_ATTRIBUTE_CHARACTERS]},
        "index": {"int": gpu.index},
        "physicalMemory": {"int": gpu.total_bytes},
        "oversubscriptionPercent": {"int": int(shared.oversubscription * 100)},
    }
    if shared.architecture:
        made["architecture"] = {"string": shared.architecture}
    version = _semantic_version(shared.driver_version)
    if version:
        made["driverVersion"] = {"version": version}
    return made


def _semantic_version(text: str) -> str:
    """`535.104.05` as the API wants it, three numbers without leading zeros: `535.104.5`; empty if it is none."""
    numbers = text.split(".")
    if not all(part.isascii() and part.isdigit() for part in numbers):
        return ""
    return ".".join(str(int(part)) for part in [*numbers, "0", "0"][:3])


def _label_value(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)[:_MOST_LABEL_CHARACTERS].strip("-_.")


def slice_specs(node: str, devices: Sequence[Json]) -> list[Json]:
    """The specifications of the node's ResourceSlices, without the generation of the pool, which `publisher` counts."""
    parts = [devices[at : at + MOST_IN_SLICE] for at in range(0, len(devices), MOST_IN_SLICE)]
    return [
        {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "resourceSliceCount": len(parts)},
            "devices": list(part),
        }
        for part in parts
    ]

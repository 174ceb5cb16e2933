"""Slots: the virtual devices kubelet counts, `<uuid>__<n>`, and which of them a container should get. Pure.

Kubelet allocates slots, not GPUs, and each request lists the slots that are still available. So the plugin keeps no
state: load of a GPU = slots that are not available / all its slots."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from nvshare.inventory.gpus import Gpu, SelectionError
from nvshare.record import Record

_SEPARATOR = "__"
MAX_SLOTS = 1000
"""Per GPU. A message to kubelet has at most 4 MiB, about 120,000 slots; no node reaches that with this limit."""


class Offer(Record, frozen=True):
    """A GPU and how many slots of it are offered."""

    gpu: Gpu
    slots: int


class SlotError(ValueError):
    """Kubelet named a slot that was never offered."""


def slot_ids(offer: Offer) -> list[str]:
    """The names of all slots of one GPU."""
    return [f"{offer.gpu.uuid}{_SEPARATOR}{number}" for number in range(offer.slots)]


def gpu_of(slot: str) -> str:
    """The UUID of the GPU a slot belongs to."""
    uuid, separator, number = slot.rpartition(_SEPARATOR)
    if not separator or not uuid or not (number.isascii() and number.isdigit()):
        raise SlotError(f"{slot!r} is not a slot of this plugin")
    return uuid


def gpus_of(slots: Iterable[str], offers: Sequence[Offer]) -> list[str]:
    """The GPUs behind some slots, each once, in the order in which they are offered."""
    wanted = {gpu_of(slot) for slot in slots}
    order = [offer.gpu.uuid for offer in offers]
    unknown = sorted(wanted - set(order))
    if unknown:
        raise SlotError(f"GPU {', '.join(unknown)} is not offered on this node")
    return [uuid for uuid in order if uuid in wanted]


def offers(gpus: Sequence[Gpu], slots: int, overrides: str = "") -> tuple[Offer, ...]:
    """What is offered of each GPU; `overrides` is `UUID-or-index=slots,...`."""
    counts = {gpu.uuid: slots for gpu in gpus}
    names = {name: gpu.uuid for gpu in gpus for name in (gpu.uuid, str(gpu.index))}
    for entry in filter(None, (part.strip() for part in overrides.split(","))):
        name, _, number = entry.partition("=")
        if name not in names:
            raise SelectionError(f"this node has no GPU {name!r} for {number or '?'} slots")
        if not (number.isascii() and number.isdigit() and int(number) <= MAX_SLOTS):
            raise SelectionError(f"{entry!r}: the number of slots must be from 0 to {MAX_SLOTS}")
        counts[names[name]] = int(number)
    return tuple(Offer(gpu=gpu, slots=counts[gpu.uuid]) for gpu in gpus)


class _Candidate(Record, frozen=True):
    """A GPU while a container's slots are being chosen."""

    chosen: int
    """Slots of it that this container has already."""
    load: Fraction
    """The share of its slots that others use."""
    order: int


Rank = Callable[[_Candidate], tuple[Fraction | int, ...]]
POLICIES: Mapping[str, Rank] = {
    # Different GPUs first, the least loaded of them first.
    "spread": lambda it: (it.chosen, it.load, it.order),
    # As few GPUs as possible, the fullest first, so that whole GPUs stay free.
    "pack": lambda it: (-it.chosen, -it.load, it.order),
}


def preferred(
    rank: Rank, offered: Sequence[Offer], *, available: Iterable[str], must: Sequence[str], size: int
) -> list[str]:
    """The `size` slots a container should get: all of `must`, then the best of `available`.

    It is advice and an error would fail the pod, so slots of a GPU that is gone are skipped, not refused."""
    free: dict[str, list[str]] = {offer.gpu.uuid: [] for offer in offered}
    for slot in available:
        if slot not in must and gpu_of(slot) in free:
            free[gpu_of(slot)].append(slot)
    for slots in free.values():
        slots.sort(key=lambda slot: int(slot.rpartition(_SEPARATOR)[2]), reverse=True)
    picked = list(must[:size])
    chosen = Counter(gpu_of(slot) for slot in picked)
    load = {offer.gpu.uuid: _load(offer, len(free[offer.gpu.uuid]), chosen) for offer in offered}
    order = {offer.gpu.uuid: at for at, offer in enumerate(offered)}

    def candidate(uuid: str) -> _Candidate:
        return _Candidate(chosen=chosen[uuid], load=load[uuid], order=order[uuid])

    while len(picked) < size:
        candidates = [uuid for uuid, slots in free.items() if slots]
        if not candidates:
            break
        best = min(candidates, key=lambda uuid: rank(candidate(uuid)))
        picked.append(free[best].pop())
        chosen[best] += 1
    return picked


def _load(offer: Offer, free: int, chosen: Counter[str]) -> Fraction:
    if offer.slots == 0:
        return Fraction(1)
    return Fraction(offer.slots - free - chosen[offer.gpu.uuid], offer.slots)

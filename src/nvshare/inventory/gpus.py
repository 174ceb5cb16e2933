"""GPUs as plain values, without NVML."""

from collections.abc import Iterable, Sequence

from nvshare.inventory.pcie import Link
from nvshare.record import Record

LEAST_BARE = 4


class Gpu(Record, frozen=True):
    """One physical GPU (or MIG instance), identified by its UUID; the index is NVML's and only for people."""

    uuid: str
    total_bytes: int
    index: int
    name: str
    shares_host_memory: bool = False
    """NVML reports no memory for it: `total_bytes` is the machine's."""
    link: Link | None = None
    """To the host; None: not known, or it has none."""


class Sample(Record, frozen=True):
    """The processes on a GPU and its memory. A process whose memory NVML does not tell counts as 0 bytes."""

    processes: dict[int, int]
    used_bytes: int
    total_bytes: int
    utilization_percent: int | None = None
    """Of NVML's last sample period; None if the card does not report it, as in MIG mode."""


class Xid(Record, frozen=True):
    """An XID error reported by the driver. `uuid` is None if the driver did not say which GPU it was."""

    uuid: str | None
    code: int


class SelectionError(ValueError):
    """The settings name a GPU that is not there."""


def select(gpus: Sequence[Gpu], wanted: str) -> tuple[Gpu, ...]:
    """The GPUs named by `all` or by a comma-separated list of UUIDs, beginnings of UUIDs, and indices, each once, in
    NVML's order."""
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    if names == ["all"]:
        return tuple(gpus)
    chosen = {_find(gpus, name).uuid for name in names}
    return tuple(gpu for gpu in gpus if gpu.uuid in chosen)


def _find(gpus: Iterable[Gpu], name: str) -> Gpu:
    for gpu in gpus:
        if name in (gpu.uuid, str(gpu.index)):
            return gpu
    begun = [gpu for gpu in gpus if begins(gpu.uuid, name)]
    if len(begun) == 1:
        return begun[0]
    known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus) or "none"
    count = f"{len(begun)} GPUs that begin with" if begun else "no GPU"
    raise SelectionError(f"this node has {count} {name!r}; it has: {known}")


def begins(uuid: str, name: str) -> bool:
    """Whether a name is the beginning of a UUID; without `GPU-` it must be long enough not to be meant as an index."""
    whole, bare = uuid.lower(), uuid.lower().partition("-")[2]
    return bool(name) and (
        whole.startswith(name.lower()) or (len(name) >= LEAST_BARE and bare.startswith(name.lower()))
    )

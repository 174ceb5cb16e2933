"""What the rest of the program knows of a GPU: plain values, no NVML."""

from collections.abc import Iterable, Sequence

from nvshare.record import Record


class Gpu(Record, frozen=True):
    """One physical GPU (or MIG instance), named by its UUID; the index is NVML's and only for people to read."""

    uuid: str
    total_bytes: int
    index: int
    name: str


class Sample(Record, frozen=True):
    """What is on a GPU right now. A process whose memory NVML will not tell counts as 0 bytes."""

    processes: dict[int, int]
    used_bytes: int
    total_bytes: int


class Xid(Record, frozen=True):
    """An XID error reported by the driver. `uuid` is None when the driver did not say which GPU it was."""

    uuid: str | None
    code: int


class SelectionError(ValueError):
    """The user asked for a GPU that is not there."""


def select(gpus: Sequence[Gpu], wanted: str) -> tuple[Gpu, ...]:
    """The GPUs named by `all` or by a comma-separated list of UUIDs and indices, each once, in NVML's order."""
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    if names == ["all"]:
        return tuple(gpus)
    chosen = {_find(gpus, name).uuid for name in names}
    return tuple(gpu for gpu in gpus if gpu.uuid in chosen)


def _find(gpus: Iterable[Gpu], name: str) -> Gpu:
    for gpu in gpus:
        if name in (gpu.uuid, str(gpu.index)):
            return gpu
    known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus) or "none"
    raise SelectionError(f"there is no GPU {name!r} here; there are: {known}")

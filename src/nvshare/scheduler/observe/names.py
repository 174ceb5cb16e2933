"""What people call clients and GPUs in lines about steps. Pure.

The log names a client by its id and a GPU by its UUID: both stay the same for as long as the log is kept. Lines for
people (`events`, `story`, the live page) add the name of the program, call a GPU by its index if NVML knows it, and
write limits in GiB."""

from collections.abc import Mapping

from nvshare.admin import SHORT_UUID, client_name
from nvshare.core.gpu import Gpu
from nvshare.core.limits.groups import Group
from nvshare.core.snapshots.snapshot import GpuSnapshot
from nvshare.quantity import amount


class Ids:
    """Clients by id, GPUs by UUID."""

    def client(self, client: int) -> str:
        return client_name(client)

    def gpu(self, uuid: str) -> str:
        return uuid

    def group(self, key: str) -> str:
        """A pod, container or run."""
        return key

    def limit(self, limit: int) -> str:
        """A limit that a client is told; 0 only if it had one before."""
        return f"{limit} bytes ({amount(limit)})" if limit else "0 bytes (limit removed)"

    def change(self, old: int, new: int) -> str:
        """Of a limit."""
        return f"{old} -> {new} bytes"


class Names(Ids):
    """Clients by name and id, GPUs by index, groups by label. `programs` are the names of clients, also of some that
    have left."""

    def __init__(self, programs: Mapping[int, str], gpus: Mapping[str, Gpu], groups: Mapping[str, Group]) -> None:
        self._programs = programs
        self._gpus = gpus
        self._groups = groups

    def client(self, client: int) -> str:
        return called(client, self._programs.get(client, ""))

    def gpu(self, uuid: str) -> str:
        gpu = self._gpus.get(uuid)
        return uuid[:SHORT_UUID] if gpu is None or gpu.index is None else f"GPU {gpu.index}"

    def group(self, key: str) -> str:
        group = self._groups.get(key)
        return group.label if group is not None and group.label else key

    def limit(self, limit: int) -> str:
        return amount(limit) if limit else "none"

    def change(self, old: int, new: int) -> str:
        return f"{self.limit(old)} -> {self.limit(new)}"


def called(client: int, name: str) -> str:
    """A client by name and id."""
    return f"{name} ({client_name(client)})" if name else client_name(client)


def gpu_described(gpu: Gpu) -> str:
    """A GPU by index, model and UUID, for readers who know none of them."""
    if gpu.index is None:
        return f"GPU {gpu.uuid}"
    return f"GPU {gpu.index} ({', '.join(part for part in (gpu.name, gpu.uuid) if part)})"


def gpu_called(gpu: GpuSnapshot) -> str:
    """A GPU by index and the beginning of its UUID."""
    short = gpu.uuid[:SHORT_UUID]
    return short if gpu.index is None else f"GPU {gpu.index} ({short})"

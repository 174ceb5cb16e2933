"""A prepared claim: what the DRA driver tells the scheduler, `claims/<uid>.json` in the operator's directory. Pure.

The scheduler needs the limits, the driver all of it: kubelet may ask again for what was prepared before the driver was
restarted, and must get the same answer."""

import re

import msgspec

from nvshare.record import Record

DIRECTORY = "claims"
SUFFIX = ".json"
_UID = re.compile(r"[0-9a-zA-Z][0-9a-zA-Z-]{0,62}", re.ASCII)


class PreparedDevice(Record, frozen=True):
    """One device of a claim: a share of a GPU."""

    request: str
    pool: str
    device: str
    gpu: str
    """The UUID."""
    share_id: str | None = None
    consumed_bytes: int = 0
    """Of the device's memory, as kube-scheduler counts. The limit may be lower."""


class PreparedClaim(Record, frozen=True):
    """A claim whose devices its pods may use now."""

    uid: str
    namespace: str
    name: str
    devices: tuple[PreparedDevice, ...]
    limits: dict[str, int]
    """By UUID of the GPU: how many bytes the pods that have the claim may allocate there, together."""
    weight: int | None = None
    priority: int | None = None
    memory_mode: str | None = None
    core_limits: dict[str, int] | None = None
    """By UUID of the GPU: how many percent of its time; a GPU that is not named has no such limit."""

    @property
    def label(self) -> str:
        """As people and logs call it."""
        return f"{self.namespace}/{self.name}"


def file_name(uid: str) -> str:
    """The name of a claim's file; ValueError if the UID could name another file."""
    if _UID.fullmatch(uid) is None:
        raise ValueError(f"{uid!r} is not the UID of a claim")
    return uid + SUFFIX


def encode(claim: PreparedClaim) -> bytes:
    return msgspec.json.encode(claim)


def decode(content: bytes) -> PreparedClaim:
    """Raises msgspec.DecodeError (a ValueError)."""
    return msgspec.json.decode(content, type=PreparedClaim)

"""From a ResourceClaim of the API server to what is prepared: GPUs, limits, settings. Pure.

    limit of the claim on a GPU = sum over its devices there of min(consumed memory, memoryLimit of NvshareConfig)
    its core limit there        = sum over them of coreLimit, at most 100 %; none if one of them has none

Settings come from the DeviceClass, then from the claim, which overrides. Every error is one line that names the field,
because it becomes an Event on the pod."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeVar

import msgspec

from nvshare.claim_file import PreparedClaim, PreparedDevice
from nvshare.core.model import MAX_WEIGHT
from nvshare.core.queue.policies import MAX_PRIORITY, MIN_PRIORITY
from nvshare.dra.devices import DRIVER, MEMORY, SharedGpu
from nvshare.percentage import MAX_PERCENT, MIN_PERCENT
from nvshare.quantity import QuantityError, parse_bytes
from nvshare.record import Record

API_VERSION = f"{DRIVER}/v1alpha1"
KIND = "NvshareConfig"
_EXTENDED = "resource.kubernetes.io/extended-resource-claim"
Value = TypeVar("Value")


class ClaimError(ValueError):
    """The claim cannot be prepared; the text says why, and what to do."""


class NvshareConfig(Record, frozen=True, forbid_unknown_fields=True):
    """The opaque parameters of a claim or a DeviceClass."""

    apiVersion: str  # noqa: N815 - the API's own spelling
    kind: str
    memoryLimit: str | None = None  # noqa: N815 - the same
    weight: int | None = None
    priority: int | None = None
    memoryMode: Literal["managed", "native"] | None = None  # noqa: N815 - the same
    coreLimit: int | None = None  # noqa: N815 - the same
    """Percent of the GPU's time, for each pod that has the claim."""


class _Metadata(Record, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Result(Record, frozen=True):
    request: str
    driver: str
    pool: str
    device: str
    shareID: str | None = None  # noqa: N815 - the API's own spelling
    consumedCapacity: dict[str, str] | None = None  # noqa: N815 - the same
    adminAccess: bool | None = None  # noqa: N815 - the same


class _Opaque(Record, frozen=True):
    driver: str
    parameters: msgspec.Raw


class _Config(Record, frozen=True):
    source: str = ""
    requests: list[str] | None = None
    opaque: _Opaque | None = None


class _Devices(Record, frozen=True):
    results: list[_Result] | None = None
    config: list[_Config] | None = None


class _Allocation(Record, frozen=True):
    devices: _Devices = _Devices()


class _Consumer(Record, frozen=True):
    resource: str = ""
    name: str = ""
    uid: str = ""


class _Status(Record, frozen=True):
    allocation: _Allocation | None = None
    reservedFor: list[_Consumer] | None = None  # noqa: N815 - the API's own spelling


class ResourceClaim(Record, frozen=True):
    """A claim: the fields that are used."""

    metadata: _Metadata
    status: _Status = _Status()

    @property
    def pods(self) -> dict[str, str]:
        """The pods that use it: by UID, the name."""
        return {user.uid: user.name for user in self.status.reservedFor or [] if user.resource == "pods"}

    @property
    def is_for_slots(self) -> bool:
        """Whether kube-scheduler made it for a pod that requests nvshare.com/gpu."""
        return (self.metadata.annotations or {}).get(_EXTENDED) == "true"


_decode_claim = msgspec.json.Decoder(ResourceClaim).decode
_decode_config = msgspec.json.Decoder(NvshareConfig).decode


def read_claim(content: bytes) -> ResourceClaim:
    """The API server's answer; raises ClaimError."""
    try:
        return _decode_claim(content)
    except msgspec.DecodeError as error:
        raise ClaimError(f"the API server's answer cannot be read: {error}") from error


def prepare(claim: ResourceClaim, *, uid: str, node: str, gpus: Mapping[str, SharedGpu]) -> PreparedClaim:
    """What the node does for a claim; `gpus` by the name of the device. Raises ClaimError."""
    if claim.metadata.uid != uid:
        raise ClaimError("the claim was deleted, and another one has its name now")
    if claim.status.allocation is None:
        raise ClaimError("the claim is not allocated")
    found = claim.status.allocation.devices
    configs = _configs(found.config or [])
    limits: dict[str, int] = {}
    core_limits: dict[str, list[int | None]] = {}
    devices = []
    settings = []
    for result in found.results or []:
        if result.driver != DRIVER or result.pool != node:
            continue
        shared = gpus.get(result.device)
        if shared is None:
            raise ClaimError(f"device {result.device} is not on this node")
        config = _merged([config for requests, config in configs if _concerns(requests, result.request)])
        consumed_bytes = _consumed(result)
        limits[shared.gpu.uuid] = limits.get(shared.gpu.uuid, 0) + _limit(consumed_bytes, config)
        core_limits.setdefault(shared.gpu.uuid, []).append(config.coreLimit)
        settings.append(config)
        devices.append(_device(result, shared, consumed_bytes))
    if not devices:
        raise ClaimError(f"the claim has no device of {DRIVER} on this node")
    return PreparedClaim(
        uid=uid,
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        devices=tuple(devices),
        limits=limits,
        weight=_same("weight", [config.weight for config in settings]),
        priority=_same("priority", [config.priority for config in settings]),
        memory_mode=_same("memoryMode", [config.memoryMode for config in settings]),
        core_limits=_summed(core_limits),
    )


def is_allocated_on(claim: ResourceClaim, node: str) -> bool:
    """Whether the claim has a device of this driver on the node."""
    allocation = claim.status.allocation
    return allocation is not None and any(
        result.driver == DRIVER and result.pool == node for result in allocation.devices.results or []
    )


def check_memory_mode(
    claim: PreparedClaim, pods: Mapping[str, str], other: PreparedClaim, others: Iterable[str]
) -> None:
    """Raises ClaimError if two claims that one pod uses name different modes: a process has one. `pods` are those of
    the claim, by UID; `others` the UIDs of the other's."""
    common = [name for uid, name in pods.items() if uid in set(others)]
    if common:
        raise ClaimError(
            f"{KIND}: memoryMode {claim.memory_mode} differs from {other.memory_mode} of claim {other.label}, which pod"
            f" {common[0]} has too; all claims of a pod that set memoryMode must set the same"
        )


def _device(result: _Result, shared: SharedGpu, consumed_bytes: int) -> PreparedDevice:
    return PreparedDevice(
        request=result.request,
        pool=result.pool,
        device=result.device,
        gpu=shared.gpu.uuid,
        share_id=result.shareID,
        consumed_bytes=consumed_bytes,
    )


def _consumed(result: _Result) -> int:
    if result.adminAccess:
        raise ClaimError(f"request {result.request}: adminAccess is not supported; GPUs are always shared")
    consumed = (result.consumedCapacity or {}).get(MEMORY)
    if consumed is None:
        raise ClaimError(
            f"request {result.request} has no consumedCapacity.{MEMORY}: the cluster's feature DRAConsumableCapacity is"
            " off; it is on by default from Kubernetes 1.36"
        )
    return parse_bytes(consumed)


def _limit(consumed_bytes: int, config: NvshareConfig) -> int:
    if config.memoryLimit is None:
        return consumed_bytes
    limit = _quantity(config.memoryLimit)
    if limit > consumed_bytes:
        raise ClaimError(
            f"memoryLimit {config.memoryLimit} is more than the {consumed_bytes} bytes that the claim consumes"
        )
    return limit


def _summed(core_limits: Mapping[str, Sequence[int | None]]) -> dict[str, int] | None:
    """By GPU; None: there is none, as in a claim without the field."""
    sums = {gpu: sum(map(int, filter(None, each))) for gpu, each in core_limits.items() if all(each)}
    return {gpu: min(total, MAX_PERCENT) for gpu, total in sums.items()} or None


def _quantity(text: str) -> int:
    try:
        limit = parse_bytes(text)
    except QuantityError as error:
        raise ClaimError(f"memoryLimit {text!r} {error}") from error
    if limit == 0:
        raise ClaimError("memoryLimit must be more than 0")
    return limit


def _configs(found: Sequence[_Config]) -> list[tuple[list[str], NvshareConfig]]:
    """Ours, those of the class first, each with the requests that it is for; empty: all."""
    ours = [entry for entry in found if entry.opaque is not None and entry.opaque.driver == DRIVER]
    ours.sort(key=lambda entry: entry.source != "FromClass")
    return [(entry.requests or [], read_config(bytes(entry.opaque.parameters))) for entry in ours if entry.opaque]


def read_config(parameters: bytes) -> NvshareConfig:
    """Opaque parameters; raises ClaimError with the field's name."""
    try:
        config = _decode_config(parameters)
    except msgspec.DecodeError as error:
        raise ClaimError(f"{KIND}: {error}") from error
    if (config.apiVersion, config.kind) != (API_VERSION, KIND):
        raise ClaimError(f"the parameters are {config.kind} of {config.apiVersion}, not {KIND} of {API_VERSION}")
    if config.coreLimit is not None and not MIN_PERCENT <= config.coreLimit <= MAX_PERCENT:
        raise ClaimError(f"{KIND}: coreLimit {config.coreLimit} is not from {MIN_PERCENT} to {MAX_PERCENT} percent")
    if config.weight is not None and not 1 <= config.weight <= MAX_WEIGHT:
        raise ClaimError(f"{KIND}: weight {config.weight} is not from 1 to {MAX_WEIGHT}")
    if config.priority is not None and not MIN_PRIORITY <= config.priority <= MAX_PRIORITY:
        raise ClaimError(f"{KIND}: priority {config.priority} is not from {MIN_PRIORITY} to {MAX_PRIORITY}")
    return config


def _concerns(requests: Sequence[str], request: str) -> bool:
    """A request of alternatives is named `request/alternative` in a result; a configuration may name either."""
    return not requests or request in requests or request.partition("/")[0] in requests


def _merged(configs: Sequence[NvshareConfig]) -> NvshareConfig:
    merged = NvshareConfig(apiVersion=API_VERSION, kind=KIND)
    for config in configs:
        said = {name: value for name, value in msgspec.structs.asdict(config).items() if value is not None}
        merged = msgspec.structs.replace(merged, **said)
    return merged


def _same(name: str, values: Sequence[Value]) -> Value:
    """These settings are the container's or the group's, not a GPU's: all requests of a claim must agree."""
    if any(value != values[0] for value in values):
        raise ClaimError(f"{KIND}: {name} must be the same for all requests of a claim")
    return values[0]

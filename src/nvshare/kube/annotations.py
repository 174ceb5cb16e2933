"""The settings in a pod's annotations and specification. Pure: from the API's JSON to plain values.

Only the fields below are decoded and kept. A value that cannot be read becomes a complaint, which says what is in force
instead:

    annotation                          the value before it. Without one, as after a restart of the scheduler: none
    annotation of the memory limit      the value before it. If it is not known here, `keeps_limit` says so, and the
                                        limit that the pod's processes were told counts (core.limits.groups)
    variable in the specification       none"""

import re
from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from nvshare.core.model import MAX_WEIGHT as MAX_WEIGHT
from nvshare.core.queue.policies import MAX_PRIORITY, MIN_PRIORITY
from nvshare.percentage import parse_percent
from nvshare.quantity import parse_bytes
from nvshare.record import Record

MEMORY_LIMIT = "nvshare.com/gpu-memory-limit"
CORE_LIMIT = "nvshare.com/gpu-core-limit"
PRIORITY = "nvshare.com/gpu-priority"
WEIGHT = "nvshare.com/gpu-weight"
PAUSE = "nvshare.com/gpu-pause"
MEMORY_SHRINK = "nvshare.com/gpu-memory-shrink"
SPEC_LIMIT = "NVSHARE_GPU_MEMORY_LIMIT"
SPEC_CORE_LIMIT = "NVSHARE_GPU_CORE_LIMIT"
_MIRROR = "kubernetes.io/config.mirror"
_STATIC_UID = re.compile(r"[0-9a-f]{32}", re.ASCII)
RESOURCE = "nvshare.com/gpu"
_KEPT = "the value before it stays in force"
_TOLD = "the limit that the pod's processes have, if any, stays in force"
_IGNORED = "it is ignored"

T = TypeVar("T")


class Metadata(Record, frozen=True):
    """The fields of an object's metadata that are used."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - the API's own spelling
    annotations: dict[str, str] | None = None


class EnvVar(Record, frozen=True):
    """One variable of a container; `value` is empty if it comes from a ConfigMap or another source."""

    name: str
    value: str = ""


class Resources(Record, frozen=True):
    """What a container may have."""

    limits: dict[str, str | int | float] | None = None


class Container(Record, frozen=True):
    """One container of the specification."""

    env: list[EnvVar] | None = None
    resources: Resources | None = None


class PodClaim(Record, frozen=True):
    """A ResourceClaim of a pod. In the specification the name is empty if the claim is made from a template; then it is
    in the status."""

    resourceClaimName: str | None = None  # noqa: N815 - the API's own spelling


class PodSpec(Record, frozen=True):
    """The containers of a pod."""

    containers: list[Container] | None = None
    initContainers: list[Container] | None = None  # noqa: N815 - the API's own spelling
    resourceClaims: list[PodClaim] | None = None  # noqa: N815 - the same


class PodStatus(Record, frozen=True):
    """The claims that were made for a pod: from templates, and for its extended resources."""

    resourceClaimStatuses: list[PodClaim] | None = None  # noqa: N815 - the API's own spelling
    extendedResourceClaimStatus: PodClaim | None = None  # noqa: N815 - the same


class Pod(Record, frozen=True):
    """A pod: the fields that are used."""

    metadata: Metadata
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Complaint(Record, frozen=True):
    """A value that cannot be used, why, and what is in force instead."""

    key: str
    value: str
    reason: str
    instead: str


class PodSettings(Record, frozen=True):
    """The settings of a pod; None: not set."""

    limit: int | None = None
    spec_limit: int | None = None
    priority: int | None = None
    weight: int | None = None
    container_limits: tuple[int, ...] = ()
    """Of containers whose own limit differs from `spec_limit`."""
    keeps_limit: bool = False
    """The limit's annotation cannot be read, and `before` does not have the value before it."""
    claims: tuple[str, ...] = ()
    """Its ResourceClaims, `namespace/name`."""
    shrinks: bool | None = None
    """Whether a lowered limit moves memory in use to the host."""
    is_paused: bool | None = None
    core_limit: int | None = None
    """Percent of each GPU's time; `spec_core_limit` as the containers' environment has it."""
    spec_core_limit: int | None = None
    container_core_limits: tuple[int, ...] = ()
    """The limits of containers other than `spec_core_limit`, which is the lowest."""


def label(pod: Pod) -> str:
    """`namespace/name`, as people and logs call it."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def node_uid(pod: Pod) -> str:
    """The UID that the node, and so every cgroup path, uses for the pod. For a static pod that is a hash, and the API
    server has a mirror pod whose annotation names it. Anybody can write that annotation, so it counts only in the form
    of such a hash, which no ordinary pod's UID has: a pod cannot claim to be another pod."""
    original = (pod.metadata.annotations or {}).get(_MIRROR, "")
    return original if _STATIC_UID.fullmatch(original) else pod.metadata.uid


def has_slot(pod: Pod, resource: str = RESOURCE) -> bool:
    """Whether a container of the pod has a slot; `resource` is the name that the device plugin offers."""
    containers = [*(pod.spec.containers or []), *(pod.spec.initContainers or [])] if pod.spec else []
    limits = [container.resources.limits or {} for container in containers if container.resources]
    return any(str(limit.get(resource, 0)) != "0" for limit in limits)


def claims_of(pod: Pod) -> tuple[str, ...]:
    """The pod's ResourceClaims, of any driver, as far as they have been made."""
    named = list(pod.spec.resourceClaims or []) if pod.spec else []
    if pod.status is not None:
        named += pod.status.resourceClaimStatuses or []
        named += [pod.status.extendedResourceClaimStatus] if pod.status.extendedResourceClaimStatus else []
    names = sorted({claim.resourceClaimName for claim in named if claim.resourceClaimName})
    return tuple(f"{pod.metadata.namespace}/{name}" for name in names)


def read_settings(pod: Pod, before: PodSettings) -> tuple[PodSettings, list[Complaint]]:
    """The settings now; `before` gives the value for a key that cannot be read."""
    annotations = pod.metadata.annotations or {}
    complaints: list[Complaint] = []

    def read(key: str, parse: Callable[[str], T], last: T | None) -> T | None:
        text = annotations.get(key)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            instead = _KEPT if last is not None else _TOLD if key == MEMORY_LIMIT else _IGNORED
            complaints.append(Complaint(key=key, value=text, reason=str(error), instead=instead))
            return last

    spec_limits = _spec_values(pod, SPEC_LIMIT, parse_bytes, complaints)
    spec_limit = 0 if 0 in spec_limits else max(spec_limits, default=None)
    limit = read(MEMORY_LIMIT, parse_bytes, before.limit)
    settings = PodSettings(
        limit=limit,
        spec_limit=spec_limit,
        priority=read(PRIORITY, _whole(MIN_PRIORITY, MAX_PRIORITY), before.priority),
        weight=read(WEIGHT, _whole(1, MAX_WEIGHT), before.weight),
        container_limits=tuple(sorted(set(spec_limits) - {spec_limit})),
        keeps_limit=limit is None and MEMORY_LIMIT in annotations,
        claims=claims_of(pod),
        shrinks=read(MEMORY_SHRINK, _truth, before.shrinks),
        is_paused=read(PAUSE, _truth, before.is_paused),
        core_limit=read(CORE_LIMIT, parse_percent, before.core_limit),
    )
    core_limits = sorted(set(_spec_values(pod, SPEC_CORE_LIMIT, parse_percent, complaints)))
    if core_limits:
        others = tuple(core_limits[1:])
        settings = replace(settings, spec_core_limit=core_limits[0], container_core_limits=others)
    return settings, complaints


def _spec_values(pod: Pod, name: str, parse: Callable[[str], int], complaints: list[Complaint]) -> list[int]:
    """A variable in the environment of the pod's containers. A later entry of the same name wins, as in kubelet.

    A limit is the pod's, the variable a container's. Where containers differ, the largest memory limit counts for the
    pod, and each process is held to its own container's by the library. Of core limits the lowest counts: they are held
    for all processes of the pod together."""
    if pod.spec is None:
        return []
    values = []
    for container in [*(pod.spec.containers or []), *(pod.spec.initContainers or [])]:
        texts = [variable.value for variable in container.env or [] if variable.name == name]
        if texts and texts[-1]:
            try:
                values.append(parse(texts[-1]))
            except ValueError as error:
                complaints.append(Complaint(key=name, value=texts[-1], reason=str(error), instead=_IGNORED))
    return values


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError('is neither "true" nor "false"')
    return text == "true"


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(most)) and least <= int(text) <= most):
            raise ValueError(f"is not a whole number from {least} to {most}")
        return int(text)

    return parse

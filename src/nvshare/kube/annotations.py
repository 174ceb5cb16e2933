"""What a pod's annotations and specification say about sharing; pure, from the API's JSON to plain values.

A pod is decoded into the few fields below and nothing else of it is kept. A value that cannot be read becomes a
complaint; the caller keeps the last good value for that key, so that a slip of the pen never lifts a limit."""

import re
from collections.abc import Callable

from nvshare.kube.quantity import QuantityError, parse_bytes
from nvshare.record import Record

MEMORY_LIMIT = "nvshare.com/gpu-memory-limit"
PRIORITY = "nvshare.com/gpu-priority"
WEIGHT = "nvshare.com/gpu-weight"
SPEC_LIMIT = "NVSHARE_GPU_MEMORY_LIMIT"
_MIRROR = "kubernetes.io/config.mirror"
_STATIC_UID = re.compile(r"[0-9a-f]{32}", re.ASCII)
RESOURCE = "nvshare.com/gpu"

MOST_PRIORITY = 10
"""As the core counts it; one step is worth half a minute of waiting."""
MOST_WEIGHT = 1000


class Metadata(Record, frozen=True):
    """The part of an object's metadata that is looked at."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - the API's own spelling
    annotations: dict[str, str] | None = None


class EnvVar(Record, frozen=True):
    """One variable of a container; `value` is missing when it comes from elsewhere."""

    name: str
    value: str = ""


class Resources(Record, frozen=True):
    """What a container may have."""

    limits: dict[str, str | int | float] | None = None


class Container(Record, frozen=True):
    """One container of the specification."""

    env: list[EnvVar] | None = None
    resources: Resources | None = None


class PodSpec(Record, frozen=True):
    """The containers of a pod."""

    containers: list[Container] | None = None
    initContainers: list[Container] | None = None  # noqa: N815 - the API's own spelling


class Pod(Record, frozen=True):
    """A pod, as far as we look at it."""

    metadata: Metadata
    spec: PodSpec | None = None


class Complaint(Record, frozen=True):
    """A value that cannot be used, and why."""

    key: str
    value: str
    reason: str


class Wishes(Record, frozen=True):
    """What a pod asks for. None: it does not say."""

    limit: int | None = None
    spec_limit: int | None = None
    priority: int | None = None
    weight: int | None = None
    container_limits: tuple[int, ...] = ()
    """Of containers whose own limit differs from `spec_limit`."""


def label(pod: Pod) -> str:
    """`namespace/name`, as people and logs call it."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def node_uid(pod: Pod) -> str:
    """The UID by which the node, and so every cgroup path, knows the pod. A static pod has one of its own there, a
    hash; what the API server has is its mirror image, which names the original. Anybody may write that annotation, so
    it is believed only in the form that no ordinary pod's UID has: nobody can speak for another's pod."""
    original = (pod.metadata.annotations or {}).get(_MIRROR, "")
    return original if _STATIC_UID.fullmatch(original) else pod.metadata.uid


def has_slot(pod: Pod) -> bool:
    """Whether any container of the pod was given a shared GPU."""
    containers = [*(pod.spec.containers or []), *(pod.spec.initContainers or [])] if pod.spec else []
    limits = [container.resources.limits or {} for container in containers if container.resources]
    return any(str(limit.get(RESOURCE, 0)) != "0" for limit in limits)


def read_wishes(pod: Pod, before: Wishes) -> tuple[Wishes, list[Complaint]]:
    """What the pod asks for now; `before` answers for a key whose value cannot be read."""
    annotations = pod.metadata.annotations or {}
    complaints: list[Complaint] = []

    def read(key: str, parse: Callable[[str], int], last: int | None) -> int | None:
        text = annotations.get(key)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError as error:
            complaints.append(Complaint(key=key, value=text, reason=str(error)))
            return last

    spec_limits = _spec_limits(pod, complaints)
    spec_limit = 0 if 0 in spec_limits else max(spec_limits, default=None)
    wishes = Wishes(
        limit=read(MEMORY_LIMIT, parse_bytes, before.limit),
        spec_limit=spec_limit,
        priority=read(PRIORITY, _whole(-MOST_PRIORITY, MOST_PRIORITY), before.priority),
        weight=read(WEIGHT, _whole(1, MOST_WEIGHT), before.weight),
        container_limits=tuple(sorted(set(spec_limits) - {spec_limit})),
    )
    return wishes, complaints


def _spec_limits(pod: Pod, complaints: list[Complaint]) -> list[int]:
    """The limits in the environment of the pod's containers.

    The limit is the pod's, the variable a container's: where containers differ the largest counts for the pod, and
    each process is held to its own container's by the library. A later entry of the same name wins, as in kubelet."""
    if pod.spec is None:
        return []
    limits = []
    for container in [*(pod.spec.containers or []), *(pod.spec.initContainers or [])]:
        texts = [variable.value for variable in container.env or [] if variable.name == SPEC_LIMIT]
        if texts and texts[-1]:
            try:
                limits.append(parse_bytes(texts[-1]))
            except QuantityError as error:
                complaints.append(Complaint(key=SPEC_LIMIT, value=texts[-1], reason=str(error)))
    return limits


def _whole(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(most)) and least <= int(text) <= most):
            raise ValueError(f"is not a whole number from {least} to {most}")
        return int(text)

    return parse

"""What the API server and kubelet report."""

from msgspec import field

from nvshare.core.events.event import Event


class PodChanged(Event, frozen=True):
    """A pod as the API server has it now. None: no such annotation, no such variable in its spec.

    `container_limits` are those of single containers, by the spec, that differ from the pod's `spec_limit`.
    `claims` are the ResourceClaims that it has, by label. `shrinks`: a lowered limit moves memory (memory.live_shrink).
    `is_paused`: it gets no turns (core.orders).
    `core_limit`, `spec_core_limit`: percent of a GPU's time that it may use at most; 100 is no limit.
    `container_core_limits`: limits of single containers by the spec, other than `spec_core_limit`, which is the lowest.
    `keeps_limit`: there is an annotation, it cannot be read, and the caller does not know the value before it, which
    stays in force."""

    pod: str
    label: str
    limit: int | None = None
    spec_limit: int | None = None
    priority: int | None = None
    weight: int | None = None
    container_limits: tuple[int, ...] = ()
    keeps_limit: bool = False
    claims: tuple[str, ...] = ()
    shrinks: bool | None = None
    is_paused: bool | None = None
    core_limit: int | None = None
    spec_core_limit: int | None = None
    container_core_limits: tuple[int, ...] = ()


class PodRemoved(Event, frozen=True):
    pod: str


class PodsListed(Event, frozen=True):
    """All pods of this node are known; limits that clients claim no longer count."""


class ClaimPrepared(Event, frozen=True):
    """Pods may use a ResourceClaim on this node from now on; `limits` are bytes by GPU, for all its pods together,
    `core_limits` percent of the time by GPU, for each of its pods; a GPU that is not named has no such limit."""

    uid: str
    label: str
    limits: dict[str, int]
    priority: int | None = None
    weight: int | None = None
    core_limits: dict[str, int] = field(default_factory=dict)


class ClaimEnded(Event, frozen=True):
    """No pod uses the claim any more."""

    uid: str

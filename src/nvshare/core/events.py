"""What can happen. All that the core knows it has learned from one of these."""

from nvshare.core.model import DEFAULT_WEIGHT, Claim, HostRoom, Memory, ModeName, ProcessMemory
from nvshare.record import Record


class Event(Record, frozen=True):
    """Something that happened."""


# From clients.


class ClientRegistered(Event, frozen=True):
    """A process registered. The processes of a `group` (pod, container, one `nvshare run`) share a limit; `label` is
    the readable name of the group."""

    client: int
    group: str
    label: str
    name: str
    claims: tuple[Claim, ...]
    own_limit: int = 0
    priority: int = 0
    weight: int = DEFAULT_WEIGHT
    pid: int = 0
    uid: int | None = None
    moves_memory: bool = False
    """It does what MoveIn and MoveOut say."""
    holds_memory: bool = False
    """It does what KeepOnHost says."""


class ClientLeft(Event, frozen=True):
    """A process ended, closed its connection or was disconnected."""

    client: int
    reason: str = "closed"


class ClientSilent(Event, frozen=True):
    """A client that waits, or holds a contended lock, has not been heard for so long that it counts as hung. Only of
    clients that would have said something if they could."""

    client: int


class ClientHeard(Event, frozen=True):
    """A client said that it is there, and nothing else."""

    client: int


class LockRequested(Event, frozen=True):
    client: int
    gpu: str
    memory: Memory


class LockReleased(Event, frozen=True):
    """`again`: the client has more work and wants another lock."""

    client: int
    gpu: str
    lock: int
    again: bool


class MemoryChanged(Event, frozen=True):
    client: int
    gpu: str
    memory: Memory


class MemoryMoved(Event, frozen=True):
    """A client moved memory between the GPU and the host, as it was asked to."""

    client: int
    gpu: str
    to_host: bool
    moved: int
    took_ns: int


class WorkingSetReported(Event, frozen=True):
    """So much of its swappable memory a client has used lately; None: it does not know."""

    client: int
    gpu: str
    used: int | None


class MoverReported(Event, frozen=True):
    """Why a client does not move its memory in bulk, for people; empty: it does."""

    client: int
    gpu: str
    not_moving: str


class WorkSlowed(Event, frozen=True):
    """The work of a holder has taken `factor` times longer than usual for some seconds."""

    client: int
    gpu: str
    factor: int


class MemoryHeld(Event, frozen=True):
    """A client keeps so many bytes of its memory on the host, as it was asked to (KeepOnHost)."""

    client: int
    gpu: str
    held: int


class WorkFinished(Event, frozen=True):
    """All work that a holder submitted has finished."""

    client: int
    gpu: str


class WorkResumed(Event, frozen=True):
    client: int
    gpu: str


class BudgetAsked(Event, frozen=True):
    """A client needs `need` bytes in all; 0 only asks what the others use. `ask` is the number of the question."""

    client: int
    gpu: str
    ask: int
    need: int


class BudgetReturned(Event, frozen=True):
    """The answer to the recall with this serial: the budget that the client has now, and what it uses."""

    client: int
    gpu: str
    serial: int
    budget: int
    used: int


# From the operator.


class QuantumSet(Event, frozen=True):
    """`set-tq`: fixed quantum from now on, for one GPU or all."""

    quantum_ns: int
    gpu: str | None = None


class ModeSet(Event, frozen=True):
    mode: ModeName
    gpu: str | None = None


class SchedulingSwitched(Event, frozen=True):
    """Anti-thrash on or off."""

    on: bool


class PolicySet(Event, frozen=True):
    """The order of the queues, for those who start to wait from now on."""

    policy: str


class WeightSet(Event, frozen=True):
    """The operator's weight for a group; None removes it."""

    group: str
    weight: int | None


class PrioritySet(Event, frozen=True):
    """The operator's priority for a group; None removes it."""

    group: str
    priority: int | None


class PauseSet(Event, frozen=True):
    """From now on a group gets no turns, or nobody gets one on a GPU; or they do again. One of the two is named."""

    on: bool
    group: str | None = None
    gpu: str | None = None


class YieldAsked(Event, frozen=True):
    """A client gives its locks back, or all holders of a GPU do, if somebody waits. One of the two is named."""

    client: int | None = None
    gpu: str | None = None


class LimitSet(Event, frozen=True):
    """The operator's limit for a group on each GPU; None removes it, 0 means unlimited."""

    group: str
    limit: int | None


# From Kubernetes.


class PodChanged(Event, frozen=True):
    """A pod as the API server has it now. None: no such annotation, no such variable in its spec.

    `container_limits` are those of single containers, by the spec, that differ from the pod's `spec_limit`.
    `claims` are the ResourceClaims that it has, by label. `shrinks`: a lowered limit moves memory (core.live_shrink).
    `is_paused`: it gets no turns (core.orders).
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


class PodRemoved(Event, frozen=True):
    pod: str


class PodsListed(Event, frozen=True):
    """All pods of this node are known; limits that clients claim no longer count."""


class ClaimPrepared(Event, frozen=True):
    """Pods may use a ResourceClaim on this node from now on; `limits` are bytes by GPU, for all its pods together."""

    uid: str
    label: str
    limits: dict[str, int]
    priority: int | None = None
    weight: int | None = None


class ClaimEnded(Event, frozen=True):
    """No pod uses the claim any more."""

    uid: str


# From the machine.


class ServingBegan(Event, frozen=True):
    """Clients are served from now on. After a restart the settling time begins: a start may take longer than it."""


class GpuFound(Event, frozen=True):
    """`index` and `name` (the model) are NVML's, for people."""

    gpu: str
    size: int
    index: int | None = None
    name: str = ""


class MemoryMeasured(Event, frozen=True):
    """What NVML reports: the memory of processes that are not clients; the size of a context (None: not known);
    the processes of clients that report unswappable memory, as far as NVML knows their memory."""

    gpu: str
    foreign: int
    context_bytes: int | None = None
    processes: tuple[ProcessMemory, ...] = ()


class HostMemoryMeasured(Event, frozen=True):
    """What the host can take of clients' memory. Only of clients that have had a turn: the others have nothing on the
    GPU."""

    rooms: tuple[HostRoom, ...]


class AlarmRang(Event, frozen=True):
    """The time of `next_deadline()` has come."""

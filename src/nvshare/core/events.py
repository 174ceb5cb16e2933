"""What can happen. Everything the core learns comes in as one of these, in the past tense."""

from nvshare.core.model import Claim, Memory, Mode
from nvshare.record import Record


class Event(Record, frozen=True):
    """Something that happened."""


# From clients.


class ClientRegistered(Event, frozen=True):
    """A process joined. `group` (pod, container, one `nvshare run`) shares a limit; `label` is its readable name."""

    client: int
    group: str
    label: str
    name: str
    claims: tuple[Claim, ...]
    own_limit: int = 0
    priority: int = 0
    weight: int = 100
    pid: int = 0


class ClientLeft(Event, frozen=True):
    """A process ended, closed its connection or was cut off."""

    client: int
    reason: str = "closed"


class LockRequested(Event, frozen=True):
    client: int
    gpu: str
    memory: Memory


class LockReleased(Event, frozen=True):
    client: int
    gpu: str
    lock: int
    again: bool


class MemoryChanged(Event, frozen=True):
    client: int
    gpu: str
    memory: Memory


class WorkFinished(Event, frozen=True):
    """All that a holder submitted is done."""

    client: int
    gpu: str


class WorkResumed(Event, frozen=True):
    client: int
    gpu: str


class BudgetAsked(Event, frozen=True):
    """A client needs `need` bytes in all; 0 only asks what the others use."""

    client: int
    gpu: str
    ask: int
    need: int


class BudgetReturned(Event, frozen=True):
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
    mode: Mode
    gpu: str | None = None


class SchedulingSwitched(Event, frozen=True):
    """Anti-thrash on or off."""

    on: bool


class LimitSet(Event, frozen=True):
    """The operator's limit for a group on each GPU; None takes it back, 0 is none."""

    group: str
    limit: int | None


# From Kubernetes.


class PodChanged(Event, frozen=True):
    """A pod as the API server has it now. None: no such annotation, no such variable in its spec.

    `container_limits` are those of single containers, by the spec, that differ from the pod's `spec_limit`."""

    pod: str
    label: str
    limit: int | None = None
    spec_limit: int | None = None
    priority: int | None = None
    weight: int | None = None
    container_limits: tuple[int, ...] = ()


class PodRemoved(Event, frozen=True):
    pod: str


class PodsListed(Event, frozen=True):
    """All pods of this node are known; what clients claim of their limits no longer counts."""


# From the machine.


class GpuFound(Event, frozen=True):
    gpu: str
    size: int


class MemoryMeasured(Event, frozen=True):
    """What NVML sees: memory of processes that are not clients; what one context costs (None: not known)."""

    gpu: str
    foreign: int
    context_bytes: int | None = None


class AlarmRang(Event, frozen=True):
    """The time of `next_deadline()` has come."""

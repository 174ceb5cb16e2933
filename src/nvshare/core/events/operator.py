"""What the operator orders."""

from nvshare.core.events.event import Event
from nvshare.core.model import ModeName


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
    """The order of the queues. Waiting clients are ranked again."""

    policy: str


class WeightSet(Event, frozen=True):
    """The operator's weight for a group; None removes it."""

    group: str
    weight: int | None


class PrioritySet(Event, frozen=True):
    """The operator's priority for a group; None removes it."""

    group: str
    priority: int | None


class CoreLimitSet(Event, frozen=True):
    """The operator's core limit for a group: percent of a GPU's time, 100 is no limit; None removes it."""

    group: str
    percent: int | None


class PauseSet(Event, frozen=True):
    """`on`: a group is paused and gets no turns, or a GPU is paused and gives none. Otherwise it is resumed. Either the
    group or the GPU is named."""

    on: bool
    group: str | None = None
    gpu: str | None = None


class YieldAsked(Event, frozen=True):
    """A client, or all holders of a GPU, must release their locks if another client waits. One of the two is named."""

    client: int | None = None
    gpu: str | None = None


class LimitSet(Event, frozen=True):
    """The operator's limit for a group on each GPU; None removes it, 0 means unlimited."""

    group: str
    limit: int | None

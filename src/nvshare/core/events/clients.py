"""What clients do and report."""

from nvshare.core.events.event import Event
from nvshare.core.model import DEFAULT_WEIGHT, Claim, Memory, MemoryMode


class ClientRegistered(Event, frozen=True):
    """A process registered. The processes of a `group` (pod, container, one `nvshare run`, or one process alone)
    share a limit; `label` is the readable name of the group."""

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
    understands_expected_start: bool = False
    """It understands TellExpectedStart."""
    makes_room: bool = False
    """It does what MoveOut says also if it has no lock, and answers with RoomMade."""
    account: str = ""
    """The pod, container or user whose clients count together in the queue; without one each counts alone."""


class ClientLeft(Event, frozen=True):
    """A process ended, closed its connection or was disconnected."""

    client: int
    reason: str = "closed"


class ClientSilent(Event, frozen=True):
    """A client that waits, or holds a contended lock, has not been heard for so long that it counts as hung, or its
    process is ending. Only of clients that would have said something if they could."""

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


class RoomMade(Event, frozen=True):
    """A client without a lock moved memory to the host as it was asked to (MoveOut). Of its swappable memory at most
    `left` bytes are on the card until it gets a lock."""

    client: int
    gpu: str
    left: int


class WorkingSetReported(Event, frozen=True):
    """How much of its swappable memory a client has used recently; None: unknown."""

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
    """How many bytes of its memory a client keeps on the host, as it was asked to (KeepOnHost)."""

    client: int
    gpu: str
    held: int


class GpuTimeReported(Event, frozen=True):
    """Whether work of the client was unfinished at each of `count` looks: bit 0 of `busy` is look `first`, bit 1 the
    next one. Look k is made between k and k + 1 milliseconds of the machine's clock, by all clients at once. No looks:
    it has no work from look `first` on, until it reports again."""

    client: int
    gpu: str
    first: int
    count: int
    busy: int


class CoreLimitWanted(Event, frozen=True):
    """The client's environment wants at most so many percent of a GPU's time for its group; 0: it wants no limit."""

    client: int
    percent: int


class MemoryModeReported(Event, frozen=True):
    """What the device memory of the client is. In mode checkpoint it is on the card only while the client holds a
    lock."""

    client: int
    mode: MemoryMode


class CollectivesUsed(Event, frozen=True):
    """The client's kernels wait for those of other processes of its group."""

    client: int


class LetFinished(Event, frozen=True):
    """The answer to LetOne: what was let through has finished, or nothing was."""

    client: int
    gpu: str


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

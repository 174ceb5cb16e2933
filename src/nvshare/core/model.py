"""What the core is made of: settings, sizes, and a client's seat at one GPU."""

from typing import Literal

from nvshare.record import Record

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
GIB = 1 << 30
MIB = 1 << 20
UNLIMITED = (1 << 64) - 1
"""The budget of a client whose group has no limit."""

PAUSES_KEPT = 5
"""How many of a client's pauses are remembered."""

Mode = Literal["auto", "fixed", "adaptive"]


class QuantumRule(Record, frozen=True):
    """How long a running set keeps a GPU while somebody waits. One for the node, and overrides per GPU."""

    mode: Mode = "auto"
    fixed_ns: int = 60 * SECOND
    multiplier: int = 5
    least_ns: int = 10 * SECOND
    most_ns: int = 300 * SECOND

    def quantum(self, running_bytes: int) -> int:
        """The quantum for a running set of this size."""
        if self.mode == "fixed":
            return self.fixed_ns
        quantum_ns = (running_bytes // GIB or 1) * self.multiplier * SECOND
        if quantum_ns < self.least_ns:
            return self.least_ns
        return min(quantum_ns, self.most_ns)


class Settings(Record, frozen=True):
    """Everything about scheduling that an operator may choose."""

    quantum: QuantumRule = QuantumRule()
    policy: str = "fcfs"
    reserve_percent: int = 10
    grace_ns: int = 10 * SECOND
    settle_ns: int = 2 * SECOND
    recall_ns: int = 200 * MILLISECOND
    long_wait_ns: int = 30 * SECOND
    context_bytes: int = 400 * MIB
    most_passes: int = 3
    move_ns_per_gib: int = SECOND
    """What moving 1 GiB between host and GPU costs; weighs an idle holder's lock against a switch."""
    cheap_switch_ns: int = 50 * MILLISECOND
    """A switch that costs less is made as soon as the holder is idle."""


class Memory(Record, frozen=True):
    """A client's memory on one GPU. Contexts are counted, not measured: the GPU knows what one costs."""

    swappable: int = 0
    unswappable: int = 0
    contexts: int = 0

    @property
    def used(self) -> int:
        """What counts against a limit: all that the program allocated."""
        return self.swappable + self.unswappable


NO_MEMORY = Memory()


class Claim(Record, frozen=True):
    """What a registering client says of one GPU. `lock` is the number it holds; `unshared`: it runs without one."""

    gpu: str
    size: int
    lock: int = 0
    unshared: bool = False
    memory: Memory = NO_MEMORY
    limit: int = 0
    budget: int = UNLIMITED


class Seat:
    """One client at one GPU: at rest, waiting (`rank` is set) or running (`lock` is set). core.turns changes it."""

    __slots__ = (
        "client", "drop_deadline", "first_passed", "held_since", "held_total", "idle_since", "last_scheduled", "lock",
        "memory", "passes", "pauses", "priority", "rank", "revoked", "tag", "ticket", "told_wait", "turns",
        "waited_since", "waited_total", "weight",
    )  # fmt: skip

    def __init__(self, client: int, priority: int, weight: int) -> None:
        self.client = client
        self.priority = priority
        self.weight = weight
        self.memory = NO_MEMORY
        self.lock = 0
        self.held_since = 0
        self.drop_deadline = 0
        self.revoked = 0
        """The number of a lock that was revoked and has not been answered since."""
        self.rank: int | None = None
        self.ticket = 0
        self.waited_since = 0
        self.told_wait = False
        self.passes = 0
        self.first_passed = 0
        self.idle_since: int | None = None
        self.pauses: tuple[int, ...] = ()
        """How long the last few pauses between two stretches of work were."""
        self.tag = 0
        """GPU time used per weight; what the fair policy goes by."""
        self.turns = 0
        self.held_total = 0
        self.waited_total = 0
        self.last_scheduled: int | None = None

    @property
    def is_waiting(self) -> bool:
        return self.rank is not None

    def note_pause(self, pause_ns: int) -> None:
        """One more pause in this client's history."""
        self.pauses = (*self.pauses[1 - PAUSES_KEPT :], pause_ns)

    @property
    def usual_pause(self) -> int | None:
        """The middle one: a single break, however long, does not make a client of short pauses one of long ones."""
        return sorted(self.pauses)[(len(self.pauses) - 1) // 2] if self.pauses else None

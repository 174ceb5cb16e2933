"""Plain values that the whole core uses: units, settings, a client's memory and claims."""

from typing import Literal

from nvshare.record import Record

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
GIB = 1 << 30
MIB = 1 << 20
CONTEXT_BYTES = 400 * MIB
"""What a CUDA context takes of a GPU, until NVML has measured it."""
NEVER = 1 << 63
"""Later than any deadline."""
DEFAULT_WEIGHT = 100
MAX_WEIGHT = 1000
UNLIMITED = (1 << 64) - 1
"""The budget of a client whose group has no limit."""

ModeName = Literal["balanced", "auto", "fixed", "adaptive"]
MemoryMode = Literal["managed", "native", "checkpoint", "not suspended"]
"""What the device memory of a client is. `not suspended`: native, because mode checkpoint is not possible."""
SUSPENDS_PER_SECOND = 512 * MIB
"""Mode checkpoint: how much memory a client takes off the card in a second at the slowest."""


class QuantumRule(Record, frozen=True):
    """The mode and its parameters (core.modes): how long a running set keeps a GPU while clients wait. One for the
    node, and overrides per GPU."""

    mode: ModeName = "balanced"
    fixed_ns: int = 60 * SECOND
    multiplier: int = 5
    least_ns: int = 10 * SECOND
    most_ns: int = 300 * SECOND


class Settings(Record, frozen=True):
    """Everything about scheduling that an operator may choose."""

    quantum: QuantumRule = QuantumRule()
    policy: str = "priority"
    reserve_percent: int = 10
    card_reserve: int | None = None
    """Bytes of each GPU that no program may allocate; None: memory.memory_planner decides by the size of the GPU."""
    grace_ns: int = 10 * SECOND
    settle_ns: int = 2 * SECOND
    recall_ns: int = 200 * MILLISECOND
    long_wait_ns: int = 30 * SECOND
    context_bytes: int = CONTEXT_BYTES
    most_passes: int = 3
    move_ns_per_gib: int = SECOND
    """What moving 1 GiB between host and GPU costs; weighs an idle holder's lock against a switch."""
    cheap_switch_ns: int = 50 * MILLISECOND
    """A switch that costs less is made as soon as the holder is idle."""
    live_shrink: bool = True
    """Memory in use above a lowered limit moves to the host (memory.live_shrink)."""
    is_claim_binding: bool = True
    """No annotation and no operator raises a limit above the pod's ResourceClaim."""


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


class ProcessMemory(Record, frozen=True):
    """What NVML saw of a client's process, and the unswappable memory with contexts that the client reported then.
    `used` is at most `reported`: what exceeds it does not matter."""

    client: int
    used: int
    reported: int


class HostRoom(Record, frozen=True):
    """How much of a client's memory on one GPU the host can take, when it is evicted."""

    client: int
    gpu: str
    room: int


class Claim(Record, frozen=True):
    """What a registering client says of one GPU. `lock` is the number it holds; `unshared`: it runs without one."""

    gpu: str
    size: int
    lock: int = 0
    unshared: bool = False
    memory: Memory = NO_MEMORY
    limit: int = 0
    budget: int = UNLIMITED

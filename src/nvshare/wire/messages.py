"""The protocol between the scheduler and libnvshare, as data. `native/libnvshare/wire.h` is generated from this file.

A frame is little-endian, starts with its own length and is laid out as a C compiler would lay out the struct:

    u16 length      of the whole frame, this field included
    u8  type        the message's number
    u8  gpu         index into the list of GPUs of this client's REGISTER; 0 where no GPU is meant
    ...             the fields below, in order

Numbers 1-13 are fixed for good; 12 is reserved. A newer peer may append fields to a message: a frame longer than we
know is read as far as we know it, a shorter one is an error. Nothing is ever taken out or moved.

Numbered locks. Every lock given has a number whose high 32 bits are the daemon's epoch. DROP_LOCK and LOCK_RELEASED
name it, so a message about an earlier lock, or an earlier daemon's, can never be mistaken for one about the present.

Budgets. A limit is for a pod on one GPU; its processes share it by budgets. A process allocates freely within its
budget and asks (BUDGET_ASK) only when it needs more; the scheduler may first recall (BUDGET_RECALL) what others do
not use. Every BUDGET and BUDGET_RECALL to a client carries a serial, per GPU; BUDGET_RETURN echoes the recall's, and
counts only if no BUDGET was sent since. A BUDGET with serial 0 answers a question and changes nothing. `keep` is what
the budget should fall to: at once as far as it is unused, and with every free after that. While the scheduler is away
the budgets already given hold."""

from enum import IntEnum
from typing import Annotated, Any, ClassVar

from nvshare.quantity import MAX_BYTES as MAX_BYTES
from nvshare.record import Record

PROTOCOL_VERSION = 6
PING_SINCE = 2
"""The first version that has PING and PONG."""
MOVES_SINCE = 4
"""The first version whose clients move memory (MOVE_IN, MOVE_OUT) and report it (MOVED)."""
WORKING_SETS_SINCE = 5
"""The first version whose clients say what they use of their memory (WORKING_SET) and how it goes (SLOWED)."""
HOLDS_SINCE = 5
"""The first version whose clients keep memory on the host (KEEP_ON_HOST) and say how much (ON_HOST)."""
MOVER_SINCE = 5
"""The first version whose clients say whether they move memory (MOVER)."""
JOBS_SINCE = 5
"""The first version whose clients say that they use collectives (COLLECTIVE) and let work through (LET_ONE)."""
MEMORY_MODES_SINCE = 6
"""The first version whose clients say what their memory is (MEMORY_MODE)."""
STARTS_SINCE = 5
"""The first version whose clients understand by when they will start (EXPECTED_START)."""
GPU_TIME_SINCE = 6
"""The first version whose clients say how busy their work kept a GPU (GPU_TIME) and how much of it they want at most
(CORE_LIMIT)."""
ROOM_SINCE = 6
"""The first version whose clients move memory out without a lock too, and say what is left on the card (ROOM_MADE)."""
LOOKS_MOST = 256
"""How many looks one GPU_TIME reports at most."""
LOOK_NS = 1_000_000
"""One look for each of these stretches of the machine's monotonic clock."""
MAX_FRAME = 8192
MAX_GPUS = 64
NAME_BYTES = 48
UNLIMITED = (1 << 64) - 1
"""A budget that is no budget: the client has no limit on this GPU."""


class Width(Record, frozen=True):
    """How a field is laid out: its struct format, its C type, and the largest value a peer may send."""

    fmt: str
    c_type: str
    most: int | None = None


U8 = Annotated[int, Width("B", "uint8_t")]
U16 = Annotated[int, Width("H", "uint16_t")]
U32 = Annotated[int, Width("I", "uint32_t")]
U64 = Annotated[int, Width("Q", "uint64_t")]
I16 = Annotated[int, Width("h", "int16_t")]
Flag = Annotated[bool, Width("?", "uint8_t", 1)]
Bytes = Annotated[int, Width("Q", "uint64_t", MAX_BYTES)]
"""An amount of memory. A larger one comes from a broken or lying peer."""
BudgetBytes = Annotated[int, Width("Q", "uint64_t")]
"""An amount of memory, or UNLIMITED."""
Uuid = Annotated[bytes, Width("16s", "uint8_t[16]")]
Name = Annotated[bytes, Width(f"{NAME_BYTES}s", f"char[{NAME_BYTES}]")]
"""UTF-8, padded with zeros; what a process says of itself, so hostile input."""


class GpuKind(IntEnum):
    """What a UUID names; decides its printed prefix."""

    GPU = 0
    MIG = 1


class ClaimState(IntEnum):
    """What a client is doing on a GPU when it registers."""

    IDLE = 0
    HOLDING = 1
    UNSHARED = 2


class DropReason(IntEnum):
    """Why a lock is taken back."""

    QUANTUM = 1
    GROWTH = 2
    IDLE = 3


class MoverState(IntEnum):
    """Whether a client moves its memory in bulk, or why not."""

    MOVES = 0
    SWITCHED_OFF = 1
    NATIVE = 2
    NO_PAGING = 3
    NO_EFFECT = 4


class MemoryKind(IntEnum):
    """What the device memory of a client is."""

    MANAGED = 0
    NATIVE = 1
    CHECKPOINT = 2
    """Native, and all of it is on the host while the client has no lock: it suspends itself before it releases one."""
    NOT_SUSPENDED = 3
    """Native: it was to be suspended, but cannot be."""


class Message(Record, frozen=True):
    """A frame. Subclasses declare their number and direction; the fields follow the common head."""

    number: ClassVar[int]
    from_client: ClassVar[bool]


class GpuEntry(Record, frozen=True):
    """One visible GPU in a REGISTER. `limit` and `budget` are the last ones the client was told."""

    uuid: Uuid
    kind: U8
    state: U8
    contexts: U16
    size: Bytes
    lock: U64
    swappable: Bytes
    unswappable: Bytes
    limit: Bytes
    budget: BudgetBytes


class Register(Message, frozen=True):
    """I am here. `own_limit` is the process's environment's; `run` names one `nvshare run`, zero if none.

    `entry_count` entries of `entry_size` bytes each follow the fixed part; a newer client's may be longer than ours.
    The fixed part never grows, or an older scheduler would look for the entries in the wrong place: what a version adds
    to it comes behind the entries."""

    number = 1
    from_client = True
    gpu: U8
    version: U16
    priority: I16
    own_limit: Bytes
    run: Uuid
    name: Name
    weight: U16
    entry_count: U8
    entry_size: U8
    entries: tuple[GpuEntry, ...]


class SchedOn(Message, frozen=True):
    """Scheduling is on: ask for the lock before work. Also the answer to REGISTER."""

    number = 2
    from_client = False
    gpu: U8
    version: U16
    client: U64


class SchedOff(Message, frozen=True):
    """Scheduling is off: everyone may run. Also an answer to REGISTER."""

    number = 3
    from_client = False
    gpu: U8
    version: U16
    client: U64


class ReqLock(Message, frozen=True):
    """I have work for this GPU; this is my exact memory on it."""

    number = 4
    from_client = True
    gpu: U8
    contexts: U16
    swappable: Bytes
    unswappable: Bytes


class LockOk(Message, frozen=True):
    """You may submit. `contended`: as in CONTENDED."""

    number = 5
    from_client = False
    gpu: U8
    contended: Flag
    lock: U64


class DropLock(Message, frozen=True):
    """Stop submitting, drain, give the lock back within the grace time."""

    number = 6
    from_client = False
    gpu: U8
    reason: U8
    grace_ms: U32
    lock: U64


class LockReleased(Message, frozen=True):
    """Given back. `again`: I still have work, queue me."""

    number = 7
    from_client = True
    gpu: U8
    again: Flag
    lock: U64


class SetTq(Message, frozen=True):
    """The operator's, over the operator's socket; a client that sends it is refused."""

    number = 8
    from_client = True
    gpu: U8
    seconds: U32


class MemUpdate(Message, frozen=True):
    """My memory on this GPU has changed."""

    number = 9
    from_client = True
    gpu: U8
    contexts: U16
    swappable: Bytes
    unswappable: Bytes


class WaitForMem(Message, frozen=True):
    """You wait, at this place (1 is next). The GPU is full; or you are paused or have used your share of GPU time."""

    number = 10
    from_client = False
    gpu: U8
    place: U32


class MemAvailable(Message, frozen=True):
    """There is room again; LOCK_OK follows, for a gang once there is room at all its GPUs."""

    number = 11
    from_client = False
    gpu: U8


class UpdateLimit(Message, frozen=True):
    """Your limit on this GPU; 0 is none."""

    number = 13
    from_client = False
    gpu: U8
    limit: Bytes


class Contended(Message, frozen=True):
    """Whether holders report their pauses: somebody waits, or (adaptive, balanced) not all clients fit together."""

    number = 14
    from_client = False
    gpu: U8
    contended: Flag


class Idle(Message, frozen=True):
    """All I submitted has finished (sent while contended)."""

    number = 15
    from_client = True
    gpu: U8


class Busy(Message, frozen=True):
    """I work again (sent after IDLE)."""

    number = 16
    from_client = True
    gpu: U8


class Budget(Message, frozen=True):
    """You may have this much in all. `others`: what the group's other processes use. `ask`: the question answered.

    Serial 0: your budget and `keep` stay as they are, whatever `budget` says."""

    number = 17
    from_client = False
    gpu: U8
    serial: U32
    ask: U32
    budget: BudgetBytes
    others: Bytes


class BudgetAsk(Message, frozen=True):
    """I need this much in all; 0 only asks what the others use."""

    number = 18
    from_client = True
    gpu: U8
    ask: U32
    need: Bytes


class BudgetRecall(Message, frozen=True):
    """Give back what you do not use, down to `keep`."""

    number = 19
    from_client = False
    gpu: U8
    serial: U32
    keep: Bytes


class BudgetReturn(Message, frozen=True):
    """My budget now, and what I use of it."""

    number = 20
    from_client = True
    gpu: U8
    serial: U32
    budget: BudgetBytes
    used: Bytes


class LongWait(Message, frozen=True):
    """You wait unusually long: tell the user who holds the GPU, so that the program does not look hung.

    Place 0: your turn would evict memory of `holder` that the host cannot take. Holders 0, with another place: you
    do not wait for another client's turn. You are paused, have used your share of GPU time, or wait for other
    GPUs too."""

    number = 21
    from_client = False
    gpu: U8
    place: U32
    holders: U32
    waited_ms: U64
    held_ms: U64
    holder: Name


class Ping(Message, frozen=True):
    """Are you there? From version 2 on: sent only to a scheduler that says it speaks it."""

    number = 22
    from_client = True
    gpu: U8


class Pong(Message, frozen=True):
    """Yes: the answer to PING."""

    number = 23
    from_client = False
    gpu: U8


class Capacity(Message, frozen=True):
    """How much of the card you may use in all: its size less the reserve, less foreign memory, less what other clients
    have of unswappable memory. Each context of yours takes `context` bytes of it."""

    number = 24
    from_client = False
    gpu: U8
    room: Bytes
    context: Bytes


class MoveIn(Message, frozen=True):
    """You hold this lock, and memory of yours may be on the host: bring what you use to the GPU, at most so much."""

    number = 25
    from_client = False
    gpu: U8
    lock: U64
    most: Bytes


class MoveOut(Message, frozen=True):
    """When you have released this lock, move so much memory to the host. Sent before DROP_LOCK.

    Lock 0: you have no lock; move it now, if that is still so. In both cases ROOM_MADE answers."""

    number = 26
    from_client = False
    gpu: U8
    lock: U64
    most: Bytes


class Moved(Message, frozen=True):
    """I moved so many bytes, in so much time. From version 4 on: sent only to a scheduler that says it speaks it."""

    number = 27
    from_client = True
    gpu: U8
    to_host: Flag
    moved: Bytes
    took_ns: U64


class WorkingSet(Message, frozen=True):
    """Of my swappable memory I have used so many bytes lately. Not known: what I have allocated counts.

    From version 5 on: sent only to a scheduler that says it speaks it."""

    number = 28
    from_client = True
    gpu: U8
    is_known: Flag
    used: Bytes


class Slowed(Message, frozen=True):
    """I hold the lock, and my work has taken so many times longer than usual for some seconds.

    From version 5 on: sent only to a scheduler that says it speaks it."""

    number = 29
    from_client = True
    gpu: U8
    factor: U32


class KeepOnHost(Message, frozen=True):
    """Your group uses more than its limit: keep so many bytes of your memory on the host, and use them from there.

    0: bring all of it back. Sent only to clients of version 5 and later."""

    number = 30
    from_client = False
    gpu: U8
    keep: Bytes


class OnHost(Message, frozen=True):
    """So many bytes of my memory are kept on the host; also after registering, if there are any.

    From version 5 on: sent only to a scheduler that says it speaks it."""

    number = 31
    from_client = True
    gpu: U8
    held: Bytes


class Mover(Message, frozen=True):
    """Whether I move my memory on this GPU in bulk: a MoverState. While I have sent none, I do.

    A value that you do not know means no. From version 5 on: sent only to a scheduler that says it speaks it."""

    number = 32
    from_client = True
    gpu: U8
    state: U8


class Collective(Message, frozen=True):
    """My kernels wait for those of other processes of my group. From version 5 on: sent only to a scheduler that
    says it speaks it, after its answer to REGISTER."""

    number = 33
    from_client = True
    gpu: U8


class Drained(Message, frozen=True):
    """The answer to LET_ONE: what was let through has finished, or nobody waited."""

    number = 34
    from_client = True
    gpu: U8


class LetOne(Message, frozen=True):
    """You have no lock, but work of your group waits for yours: let one submission through, and answer with DRAINED
    when it has finished. Sent only to a client that said COLLECTIVE."""

    number = 35
    from_client = False
    gpu: U8


class ExpectedStart(Message, frozen=True):
    """You will probably have the lock within this time: for the line about a long wait. Sent before LONG_WAIT, if it
    can be said, and only to clients of version 5 and later."""

    number = 37
    from_client = False
    gpu: U8
    within_ms: U64


class GpuTime(Message, frozen=True):
    """Whether work of mine was unfinished, at each of `count` looks (0 to LOOKS_MOST) from number `first` on.

    The first look is bit 0 of `busy_0`, the next one bit 1, and so on up to bit 63 of `busy_3`. Bits beyond `count` are
    0. With a count of 0 I have no work from look `first` on, until my next report. Look k is made at one instant
    between k and k + 1 LOOK_NS of the machine's monotonic clock. All clients look at the same instants, so the
    scheduler knows who was busy at the same time. Time in which a client holds the lock and that it does not report
    counts as busy. From version 6 on: sent only to a scheduler that says it speaks it."""

    number = 38
    from_client = True
    gpu: U8
    count: U16
    first: U64
    busy_0: U64
    busy_1: U64
    busy_2: U64
    busy_3: U64


class CoreLimit(Message, frozen=True):
    """My environment wants at most this much of each GPU's time for my group, in percent (1 to 100); 0 is no limit. In
    a pod it can only lower what the scheduler knows. From version 6 on: sent only to a scheduler that says it speaks
    it, after its answer to REGISTER."""

    number = 39
    from_client = True
    gpu: U8
    percent: U8


class MemoryMode(Message, frozen=True):
    """What all my device memory is: a MemoryKind. While I have sent none, it is managed.

    A value that you do not know means native. From version 6 on: sent only to a scheduler that says it speaks it."""

    number = 40
    from_client = True
    gpu: U8
    mode: U8


class RoomMade(Message, frozen=True):
    """A move to the host has ended, and I have no lock. At most `left` bytes of my swappable memory are on the card
    until I get one. From version 6 on: sent only to a scheduler that says it speaks it."""

    number = 41
    from_client = True
    gpu: U8
    left: Bytes


MESSAGES: tuple[type[Message], ...] = (
    Register, SchedOn, SchedOff, ReqLock, LockOk, DropLock, LockReleased, SetTq, MemUpdate, WaitForMem, MemAvailable,
    UpdateLimit, Contended, Idle, Busy, Budget, BudgetAsk, BudgetRecall, BudgetReturn, LongWait, Ping,
    Pong, Capacity, MoveIn, MoveOut, Moved, WorkingSet, Slowed, KeepOnHost, OnHost, Mover,
    Collective, Drained, LetOne, ExpectedStart, GpuTime, CoreLimit, MemoryMode, RoomMade,
)  # fmt: skip

FROM_CLIENT = tuple(message for message in MESSAGES if message.from_client)
FROM_SCHEDULER = tuple(message for message in MESSAGES if not message.from_client)


def width_of(annotation: Any) -> Width | None:
    """The layout behind a field's annotation; None for REGISTER's list of entries, which has none of its own."""
    notes = getattr(annotation, "__metadata__", ())
    return next((note for note in notes if isinstance(note, Width)), None)

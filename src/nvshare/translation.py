"""Wire to core and back: messages become events, actions become frames. Pure.

This is the only file that knows both `wire` and `core`, so either can change alone. The scheduler uses it for real
connections, the scheduling simulator for simulated ones."""

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import DEFAULT_WEIGHT, MAX_WEIGHT, Claim, Memory, MemoryMode
from nvshare.printable import printable
from nvshare.record import Record
from nvshare.wire import messages as wire
from nvshare.wire.codec import WireError, packer

_PREFIX: dict[int, str] = {wire.GpuKind.GPU: "GPU-", wire.GpuKind.MIG: "MIG-"}
# The wire has three reasons, and the library only prints them. GROWTH: not all who run fit together, which also holds
# for a client that claims a lock late and has to wait, or thrashes. The others end a turn as the quantum does.
_REASONS = {
    "quantum": wire.DropReason.QUANTUM,
    "growth": wire.DropReason.GROWTH,
    "idle": wire.DropReason.IDLE,
    "claim": wire.DropReason.GROWTH,
    "silent": wire.DropReason.QUANTUM,
    "thrash": wire.DropReason.GROWTH,
    "operator": wire.DropReason.QUANTUM,
    "priority": wire.DropReason.QUANTUM,
    "share": wire.DropReason.QUANTUM,
}

_NOT_MOVING = {
    wire.MoverState.MOVES: "",
    wire.MoverState.SWITCHED_OFF: "switched off (NVSHARE_PREFETCH=0)",
    wire.MoverState.NATIVE: "native memory",
    wire.MoverState.NO_PAGING: "the GPU has no concurrent managed access",
    wire.MoverState.NO_EFFECT: "prefetches have no effect",
}

_MEMORY_MODES: dict[int, MemoryMode] = {
    wire.MemoryKind.MANAGED: "managed",
    wire.MemoryKind.NATIVE: "native",
    wire.MemoryKind.CHECKPOINT: "checkpoint",
    wire.MemoryKind.NOT_SUSPENDED: "not suspended",
}

EventOf = Callable[[int, str, Any], ev.Event]


def gpus_of(message: wire.Register) -> tuple[str, ...]:
    """The UUIDs of a REGISTER in the order of its indices."""
    gpus = tuple(_uuid(entry) for entry in message.entries)
    if len(set(gpus)) != len(gpus):
        raise WireError("Register names a GPU twice")
    return gpus


class Registrant(Record, frozen=True):
    """The process that sends a REGISTER, as the scheduler knows it from the kernel and not from the message."""

    client: int
    pid: int
    group: str
    """The clients with the same one share a limit; `label` is its readable name."""
    label: str
    command: str
    is_in_pod: bool = False
    may_raise: bool = True
    """The priority and the weight that it states itself may be above the default."""
    uid: int | None = None
    account: str = ""


def registration(registrant: Registrant, message: wire.Register) -> ev.ClientRegistered:
    """A process registers and claims this about itself. In a pod, priority and weight come from Kubernetes alone."""
    priority = message.priority if registrant.may_raise else min(0, message.priority)
    most_weight = MAX_WEIGHT if registrant.may_raise else DEFAULT_WEIGHT
    given = printable(message.name.rstrip(b"\0").decode("utf-8", "replace"))
    return ev.ClientRegistered(
        client=registrant.client,
        group=registrant.group,
        label=registrant.label,
        name=given or registrant.command,
        claims=tuple(_claim(entry) for entry in message.entries),
        own_limit=message.own_limit,
        priority=0 if registrant.is_in_pod else priority,
        weight=DEFAULT_WEIGHT if registrant.is_in_pod else min(most_weight, message.weight or DEFAULT_WEIGHT),
        pid=registrant.pid,
        uid=registrant.uid,
        account=registrant.account,
        moves_memory=message.version >= wire.MOVES_SINCE,
        holds_memory=message.version >= wire.HOLDS_SINCE,
        understands_expected_start=message.version >= wire.STARTS_SINCE,
        makes_room=message.version >= wire.ROOM_SINCE,
    )


def departure(client: int, reason: str) -> ev.ClientLeft:
    """The connection of a client has ended."""
    return ev.ClientLeft(client, reason)


def silence(client: int) -> ev.Event:
    """The client sends nothing any more, and will not use a lock."""
    return ev.ClientSilent(client)


def sign_of_life(client: int) -> ev.ClientHeard:
    """PING came from a client that the core takes for silent; from others it is no news."""
    return ev.ClientHeard(client)


EVENTS: dict[type[wire.Message], EventOf] = {
    wire.ReqLock: lambda client, gpu, m: ev.LockRequested(client, gpu, Memory(m.swappable, m.unswappable, m.contexts)),
    wire.LockReleased: lambda client, gpu, m: ev.LockReleased(client, gpu, m.lock, m.again),
    wire.MemUpdate: lambda client, gpu, m: ev.MemoryChanged(
        client, gpu, Memory(m.swappable, m.unswappable, m.contexts)
    ),
    wire.Moved: lambda client, gpu, m: ev.MemoryMoved(client, gpu, m.to_host, m.moved, m.took_ns),
    wire.RoomMade: lambda client, gpu, m: ev.RoomMade(client, gpu, m.left),
    wire.WorkingSet: lambda client, gpu, m: ev.WorkingSetReported(client, gpu, m.used if m.is_known else None),
    wire.Slowed: lambda client, gpu, m: ev.WorkSlowed(client, gpu, m.factor),
    wire.OnHost: lambda client, gpu, m: ev.MemoryHeld(client, gpu, m.held),
    wire.Mover: lambda client, gpu, m: ev.MoverReported(client, gpu, _NOT_MOVING.get(m.state, "unknown reason")),
    wire.MemoryMode: lambda client, gpu, m: ev.MemoryModeReported(client, _MEMORY_MODES.get(m.mode, "native")),
    wire.Collective: lambda client, gpu, m: ev.CollectivesUsed(client),
    wire.GpuTime: lambda client, gpu, m: _gpu_time(client, gpu, m),
    wire.CoreLimit: lambda client, gpu, m: ev.CoreLimitWanted(client, _percent(m)),
    wire.Drained: lambda client, gpu, m: ev.LetFinished(client, gpu),
    wire.Idle: lambda client, gpu, m: ev.WorkFinished(client, gpu),
    wire.Busy: lambda client, gpu, m: ev.WorkResumed(client, gpu),
    wire.BudgetAsk: lambda client, gpu, m: ev.BudgetAsked(client, gpu, m.ask, m.need),
    wire.BudgetReturn: lambda client, gpu, m: ev.BudgetReturned(client, gpu, m.serial, m.budget, m.used),
}
"""What each message of a registered client means. The rest of the table is in `registration`."""


def _gpu_time(client: int, gpu: str, message: wire.GpuTime) -> ev.GpuTimeReported:
    if message.count > wire.LOOKS_MOST:
        raise WireError(f"GpuTime reports {message.count} looks")
    busy = message.busy_3 << 192 | message.busy_2 << 128 | message.busy_1 << 64 | message.busy_0
    return ev.GpuTimeReported(client, gpu, message.first, message.count, busy & (1 << message.count) - 1)


def _percent(message: wire.CoreLimit) -> int:
    if message.percent > 100:
        raise WireError(f"CoreLimit wants {message.percent} percent")
    return message.percent


class Receiver(Protocol):
    """What a frame needs to know of the client that it goes to."""

    index_of: dict[str, int]
    """The index of each of its GPUs in its REGISTER."""
    grace_ms: int

    def name_of(self, client: int) -> str:
        """Another client, as a text for people."""


FrameOf = Callable[[Any, Receiver], bytes]

_lock_ok = packer(wire.LockOk)
_drop_lock = packer(wire.DropLock)
_wait_for_mem = packer(wire.WaitForMem)
_mem_available = packer(wire.MemAvailable)
_contended = packer(wire.Contended)
_update_limit = packer(wire.UpdateLimit)
_budget = packer(wire.Budget)
_budget_recall = packer(wire.BudgetRecall)
_expected_start = packer(wire.ExpectedStart)
_long_wait = packer(wire.LongWait)
_let_one = packer(wire.LetOne)
_move_in = packer(wire.MoveIn)
_move_out = packer(wire.MoveOut)
_keep_on_host = packer(wire.KeepOnHost)
_capacity = packer(wire.Capacity)
_sched = {True: packer(wire.SchedOn), False: packer(wire.SchedOff)}

FRAMES: dict[type[ac.Action], FrameOf] = {
    ac.GiveLock: lambda a, to: _lock_ok(to.index_of[a.gpu], a.contended, a.lock),
    ac.DropLock: lambda a, to: _drop_lock(to.index_of[a.gpu], _REASONS[a.cause], to.grace_ms, a.lock),
    ac.MoveIn: lambda a, to: _move_in(to.index_of[a.gpu], a.lock, a.most),
    ac.MoveOut: lambda a, to: _move_out(to.index_of[a.gpu], a.lock, a.most),
    ac.KeepOnHost: lambda a, to: _keep_on_host(to.index_of[a.gpu], a.keep),
    ac.LetOne: lambda a, to: _let_one(to.index_of[a.gpu]),
    ac.QueueClient: lambda a, to: _wait_for_mem(to.index_of[a.gpu], a.place),
    ac.AnnounceRoom: lambda a, to: _mem_available(to.index_of[a.gpu]),
    ac.TellContended: lambda a, to: _contended(to.index_of[a.gpu], a.contended),
    ac.UpdateLimit: lambda a, to: _update_limit(to.index_of[a.gpu], a.limit),
    ac.GiveBudget: lambda a, to: _budget(
        to.index_of[a.gpu], a.serial, a.ask, a.budget, min(a.others, wire.MAX_BYTES)  # claims may add up to more
    ),
    ac.RecallBudget: lambda a, to: _budget_recall(to.index_of[a.gpu], a.serial, a.keep),
    ac.TellCapacity: lambda a, to: _capacity(to.index_of[a.gpu], a.room, a.context_bytes),
    ac.AcceptClient: lambda a, to: _sched[a.scheduling](0, wire.PROTOCOL_VERSION, a.client),
    ac.SwitchScheduling: lambda a, to: _sched[a.on](0, wire.PROTOCOL_VERSION, a.client),
    ac.TellExpectedStart: lambda a, to: _expected_start(to.index_of[a.gpu], a.within_ns // 1_000_000),
    ac.ReportLongWait: lambda a, to: _long_wait_of(a, to),
}  # fmt: skip
"""The frame that performs an action; nothing is sent for an action that is not here; only observers see it."""


def _long_wait_of(action: ac.ReportLongWait, to: Receiver) -> bytes:
    """The frame has no field for the reason. A client that is paused or held back waits for no holder."""
    holders, held_ns, holder = action.holders, action.held_ns, _name(to.name_of(action.holder))
    if action.is_paused or action.is_held_back:
        holders, held_ns, holder = 0, 0, b""
    index, waited_ms = to.index_of[action.gpu], action.waited_ns // 1_000_000
    return _long_wait(index, action.place, holders, waited_ms, held_ns // 1_000_000, holder)


def _name(text: str) -> bytes:
    """UTF-8 cut to the field's width, never in the middle of a character."""
    return text.encode()[: wire.NAME_BYTES - 1].decode("utf-8", "ignore").encode()


def _uuid(entry: wire.GpuEntry) -> str:
    prefix = _PREFIX.get(entry.kind)
    if prefix is None:
        raise WireError(f"unknown kind of GPU: {entry.kind}")
    return f"{prefix}{UUID(bytes=entry.uuid)}"


def _claim(entry: wire.GpuEntry) -> Claim:
    return Claim(
        gpu=_uuid(entry),
        size=entry.size,
        lock=entry.lock if entry.state == wire.ClaimState.HOLDING else 0,
        unshared=entry.state == wire.ClaimState.UNSHARED,
        memory=Memory(entry.swappable, entry.unswappable, entry.contexts),
        limit=entry.limit,
        budget=entry.budget,
    )

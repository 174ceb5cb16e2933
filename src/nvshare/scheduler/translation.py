"""Bytes' meaning: the only file that knows both the wire and the core. Messages become events, actions messages."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import Claim, Memory
from nvshare.scheduler.identity import Peer, group_of, printable
from nvshare.wire import messages as wire
from nvshare.wire.codec import WireError

_PREFIX: dict[int, str] = {wire.GpuKind.GPU: "GPU-", wire.GpuKind.MIG: "MIG-"}
_REASONS = {
    "quantum": wire.DropReason.QUANTUM,
    "growth": wire.DropReason.GROWTH,
    "idle": wire.DropReason.IDLE,
}

EventOf = Callable[[int, str, Any], ev.Event]


def gpus_of(message: wire.Register) -> tuple[str, ...]:
    """The UUIDs of a REGISTER in the order of its indices."""
    gpus = tuple(_uuid(entry) for entry in message.entries)
    if len(set(gpus)) != len(gpus):
        raise WireError("Register names a GPU twice")
    return gpus


def registration(client: int, peer: Peer, message: wire.Register) -> ev.ClientRegistered:
    """Who registers, by the kernel's word, and what it claims, by its own."""
    group, label = group_of(peer, message.run)
    given = printable(message.name.rstrip(b"\0").decode("utf-8", "replace"))
    return ev.ClientRegistered(
        client=client,
        group=group,
        label=label,
        name=given or peer.command,
        claims=tuple(_claim(entry) for entry in message.entries),
        own_limit=message.own_limit,
        priority=0 if peer.pod else message.priority,
        weight=100 if peer.pod else max(1, message.weight or 100),
        pid=peer.pid,
    )


EVENTS: dict[type[wire.Message], EventOf] = {
    wire.ReqLock: lambda client, gpu, m: ev.LockRequested(client, gpu, Memory(m.swappable, m.unswappable, m.contexts)),
    wire.LockReleased: lambda client, gpu, m: ev.LockReleased(client, gpu, m.lock, m.again),
    wire.MemUpdate: lambda client, gpu, m: ev.MemoryChanged(
        client, gpu, Memory(m.swappable, m.unswappable, m.contexts)
    ),
    wire.Idle: lambda client, gpu, m: ev.WorkFinished(client, gpu),
    wire.Busy: lambda client, gpu, m: ev.WorkResumed(client, gpu),
    wire.BudgetAsk: lambda client, gpu, m: ev.BudgetAsked(client, gpu, m.ask, m.need),
    wire.BudgetReturn: lambda client, gpu, m: ev.BudgetReturned(client, gpu, m.serial, m.budget, m.used),
}
"""What each message of a registered client means. The rest of the table is in `registration`."""


def message_of(action: Any, index: int, grace_ms: int, name_of: Callable[[int], str]) -> wire.Message | None:
    """The message that performs an action; None if nothing is sent. `index`: the GPU's, in the client's REGISTER."""
    make = _MESSAGES.get(type(action))
    return make(action, index, grace_ms, name_of) if make else None


def _sched(client: int, on: bool) -> wire.Message:
    kind = wire.SchedOn if on else wire.SchedOff
    return kind(0, wire.PROTOCOL_VERSION, client)


_MESSAGES: dict[type[ac.Action], Callable[[Any, int, int, Callable[[int], str]], wire.Message]] = {
    ac.GiveLock: lambda a, gpu, grace, name: wire.LockOk(gpu, a.contended, a.lock),
    ac.DropLock: lambda a, gpu, grace, name: wire.DropLock(gpu, _REASONS[a.cause], grace, a.lock),
    ac.QueueClient: lambda a, gpu, grace, name: wire.WaitForMem(gpu, a.place),
    ac.AnnounceRoom: lambda a, gpu, grace, name: wire.MemAvailable(gpu),
    ac.TellContended: lambda a, gpu, grace, name: wire.Contended(gpu, a.contended),
    ac.UpdateLimit: lambda a, gpu, grace, name: wire.UpdateLimit(gpu, a.limit),
    ac.GiveBudget: lambda a, gpu, grace, name: wire.Budget(gpu, a.serial, a.ask, a.budget, a.others),
    ac.RecallBudget: lambda a, gpu, grace, name: wire.BudgetRecall(gpu, a.serial, a.keep),
    ac.AdmitClient: lambda a, gpu, grace, name: _sched(a.client, a.scheduling),
    ac.SwitchScheduling: lambda a, gpu, grace, name: _sched(a.client, a.on),
    ac.ReportLongWait: lambda a, gpu, grace, name: wire.LongWait(
        gpu, a.place, a.holders, a.waited_ns // 1_000_000, a.held_ns // 1_000_000, _name(name(a.holder))
    ),
}


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

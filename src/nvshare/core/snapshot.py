"""The state of a node at one moment, as plain values: what status, metrics and the live page show."""

from typing import Literal

from nvshare.core.gpu import Gpu
from nvshare.core.model import UNLIMITED, Mode, Seat
from nvshare.core.node import Client, Node
from nvshare.record import Record

SeatState = Literal["running", "dropping", "waiting", "idle"]


class SeatSnapshot(Record, frozen=True):
    """A client at one GPU. Times are durations up to the moment of the snapshot, in nanoseconds."""

    gpu: str
    state: SeatState
    is_running: bool
    since_ns: int
    place: int
    memory_allocated: int
    swappable: int
    unswappable: int
    contexts: int
    limit: int
    budget: int | None
    turns: int
    held_ns: int
    waited_ns: int
    last_scheduled_ns: int | None
    """How long ago the client last came in; None: never."""
    is_idle: bool


class ClientSnapshot(Record, frozen=True):
    id: int
    group: str
    label: str
    name: str
    pid: int
    priority: int
    weight: int
    seats: tuple[SeatSnapshot, ...]


class GpuSnapshot(Record, frozen=True):
    uuid: str
    total_memory: int
    safe_limit: int
    available_memory: int
    """What a newcomer may bring and run at once."""
    running_memory_usage: int
    unswappable_memory: int
    foreign_memory: int
    running: int
    waiting: int
    mode: Mode
    quantum_ns: int
    """Of the present running set; what it would be for an empty one if nobody runs."""
    quantum_left_ns: int | None
    is_switching: bool


class Snapshot(Record, frozen=True):
    scheduling: bool
    settling: bool
    policy: str
    gpus: tuple[GpuSnapshot, ...]
    clients: tuple[ClientSnapshot, ...]


def snapshot(node: Node, now: int) -> Snapshot:
    """Everything at once; costs a few microseconds for each client."""
    return Snapshot(
        scheduling=node.is_scheduling,
        settling=node.is_settling,
        policy=node.settings.policy,
        gpus=tuple(gpu_snapshot(gpu, now) for gpu in node.gpus.values()),
        clients=tuple(client_snapshot(node, client, now) for client in node.clients.values()),
    )


def gpu_snapshot(gpu: Gpu, now: int) -> GpuSnapshot:
    """One GPU at this moment."""
    return GpuSnapshot(
        uuid=gpu.uuid,
        total_memory=gpu.size,
        safe_limit=gpu.safe_limit,
        available_memory=max(0, gpu.safe_limit - gpu.fixed_bytes - gpu.running_bytes),
        running_memory_usage=gpu.running_bytes,
        unswappable_memory=gpu.unswappable,
        foreign_memory=gpu.foreign,
        running=len(gpu.staying) + len(gpu.dropping),
        waiting=len(gpu.queue),
        mode=gpu.rule.mode,
        quantum_ns=gpu.rule.quantum(0) if gpu.timer_ends is None else gpu.quantum_ns,
        quantum_left_ns=None if gpu.timer_ends is None else max(0, gpu.timer_ends - now),
        is_switching=gpu.is_switching,
    )


def client_snapshot(node: Node, client: Client, now: int) -> ClientSnapshot:
    """One client at this moment."""
    first = next(iter(client.seats.values()), None)
    return ClientSnapshot(
        id=client.id,
        group=client.group.key,
        label=client.group.label,
        name=client.name,
        pid=client.pid,
        priority=first.priority if first else 0,
        weight=first.weight if first else 0,
        seats=tuple(_seat(node, client, uuid, seat, now) for uuid, seat in client.seats.items()),
    )


def _seat(node: Node, client: Client, uuid: str, seat: Seat, now: int) -> SeatSnapshot:
    share = client.group.limits[uuid].shares[client.id]
    held = now - seat.held_since if seat.lock else 0
    waited = now - seat.waited_since if seat.is_waiting else 0
    return SeatSnapshot(
        gpu=uuid,
        state=_state(seat),
        is_running=bool(seat.lock),
        since_ns=held + waited,
        place=node.gpus[uuid].queue.place(seat) if seat.is_waiting else 0,
        memory_allocated=seat.memory.used,
        swappable=seat.memory.swappable,
        unswappable=seat.memory.unswappable,
        contexts=seat.memory.contexts,
        limit=share.limit_told,
        budget=None if share.budget == UNLIMITED else share.budget,
        turns=seat.turns,
        held_ns=seat.held_total + held,
        waited_ns=seat.waited_total + waited,
        last_scheduled_ns=None if seat.last_scheduled is None else now - seat.last_scheduled,
        is_idle=seat.idle_since is not None,
    )


def _state(seat: Seat) -> SeatState:
    if seat.drop_deadline:
        return "dropping"
    if seat.lock:
        return "running"
    return "waiting" if seat.is_waiting else "idle"

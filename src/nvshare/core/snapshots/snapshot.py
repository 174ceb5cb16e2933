"""The state of a node at one moment as plain values, for status, metrics and the live page."""

from collections.abc import Iterable, Mapping
from typing import Literal

from nvshare.core.client import Client
from nvshare.core.compute.compute_shares import held_back_by
from nvshare.core.compute.due_shares import due_percents
from nvshare.core.gpu import Gpu
from nvshare.core.limits.groups import Group
from nvshare.core.model import UNLIMITED, MemoryMode, ModeName
from nvshare.core.node import Node
from nvshare.core.queue.expected_start import expected_starts
from nvshare.core.snapshots.claim_snapshot import ClaimSnapshot, claims
from nvshare.core.turns.seat import Moved, Seat, State
from nvshare.record import Record

SeatState = Literal["running", "dropping", "waiting", "idle", "silent", "blocked", "paused", "unscheduled"]
"""`unscheduled`: scheduling is off, the client may work at any time, and whether it does is not known. `paused`: the
operator gives it no turn."""
SHOWN_AS: dict[State, SeatState] = {
    "rest": "idle", "waiting": "waiting", "staying": "running", "dropping": "dropping", "silent": "silent",
    "blocked": "blocked",
}  # fmt: skip


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
    """How long ago the client last got a lock; None: never."""
    is_idle: bool
    host_shortfall: int = 0
    """How much of its swappable memory the host cannot take; it counts as unswappable."""
    on_host: int = 0
    """How much of its memory it keeps on the host because its group uses more than its limit."""
    working_set: int | None = None
    """How much of its swappable memory it has used recently; None: unknown."""
    need: int = 0
    """How much of its swappable memory must be on the card while it runs."""
    moved: Moved = Moved()
    not_moving: str = ""
    """Why page faults alone move its memory; empty: it moves it in bulk, or its library is too old to say."""
    expected_start_ns: int | None = None
    """Of the first waiting clients: they will probably start within this time."""
    paused_by: Literal["annotation", "operator", "GPU"] | None = None
    """Why it gets no turns: its pod's annotation, the operator's order for its group, or the pause of the GPU."""
    core_limit_percent: int = 0
    gpu_percent: float = 0.0
    """How much of the GPU's time its group may use, 0: all; how much it had itself in the last 10 s."""
    due_percent: float | None = None
    """How much its weight makes its share now (compute.due_shares); None: weights do not count, or it has no rival."""
    held_back_by: Literal["core limit", "weight"] | None = None
    """Why it is blocked although others run: it has had enough of the GPU's time (compute.compute_shares)."""
    held_back_ns: int | None = None
    """After which time it goes on, if its core limit holds it back."""
    together: tuple[str, ...] = ()
    """The other GPUs of its gang (core.gangs): the locks on all of them are given and taken together."""
    gpu_ns: int = 0
    """For how long its work has kept the GPU busy (compute.gpu_time)."""


class ClientSnapshot(Record, frozen=True):
    id: int
    group: str
    label: str
    name: str
    pid: int
    priority: int
    weight: int
    seats: tuple[SeatSnapshot, ...]
    uid: int | None = None
    memory_mode: MemoryMode = "managed"


class GpuSnapshot(Record, frozen=True):
    uuid: str
    total_memory: int
    safe_limit: int
    available_memory: int
    """How much swappable memory a waiting client may need and run at once."""
    running_memory_usage: int
    unswappable_memory: int
    foreign_memory: int
    running: int
    waiting: int
    mode: ModeName
    quantum_ns: int
    """Of the present running set; what it would be for an empty one if no client runs."""
    quantum_left_ns: int | None
    is_switching: bool
    index: int | None = None
    """NVML's, and in `name` the model; None: NVML does not know this GPU."""
    name: str = ""
    is_paused: bool = False
    """The operator has paused the GPU: no client gets a turn here."""
    reserved_for: int | None = None
    """The waiting client that may not be passed, while a client behind it would fit."""
    move_cost_ns: int = 0
    """What the mode takes the move of 1 GiB to the GPU to cost: measured, or else as core.modes assumes it."""
    is_move_cost_measured: bool = False
    foreign_pids: tuple[int, ...] = ()
    """Processes on this GPU that are not clients, and so take no turns."""
    busy_ns: int = 0
    """For how long work of any client has kept it busy, and for how much of the last ten seconds."""
    busy_percent: float = 0.0
    utilization_percent: float | None = None
    """What NVML reports, and the part of the same seconds in which clients were busy, as means; None: not known."""
    accounted_percent: float | None = None


class Snapshot(Record, frozen=True):
    scheduling: bool
    settling: bool
    policy: str
    gpus: tuple[GpuSnapshot, ...]
    clients: tuple[ClientSnapshot, ...]
    claims: tuple[ClaimSnapshot, ...] = ()


def snapshot(node: Node, now: int) -> Snapshot:
    """Everything at once; costs a few microseconds for each client."""
    gpus = outlook(node, now)
    return Snapshot(
        scheduling=node.is_scheduling,
        settling=node.is_settling,
        policy=node.orders.policy,
        gpus=tuple(gpu_snapshot(gpu, now) for gpu in node.gpus.values()),
        clients=tuple(client_snapshot(node, client, now, gpus) for client in node.clients.values()),
        claims=claims(node),
    )


def gpu_snapshot(gpu: Gpu, now: int) -> GpuSnapshot:
    """One GPU at this moment."""
    memory, turns = gpu.memory, gpu.turns
    is_timed = turns.timer.ends is not None
    reserved_for = gpu.reserved_for(now)
    use = gpu.utilization.compared(now)
    return GpuSnapshot(
        uuid=gpu.uuid,
        total_memory=memory.size,
        safe_limit=memory.safe_limit,
        available_memory=max(0, memory.safe_limit - memory.fixed_bytes - memory.running_bytes),
        running_memory_usage=sum(seat.memory.swappable for seat in turns.running()),
        unswappable_memory=memory.unswappable,
        foreign_memory=memory.foreign,
        foreign_pids=gpu.foreign_pids,
        running=len(turns.staying) + len(turns.dropping),
        waiting=len(turns.queue),
        mode=gpu.rule.mode,
        quantum_ns=turns.timer.quantum_ns if is_timed else turns.mode.quantum_ns((), None, 0),
        quantum_left_ns=None if turns.timer.ends is None else max(0, turns.timer.ends - now),
        is_switching=turns.waits.is_switching,
        index=gpu.index,
        name=gpu.name,
        is_paused=gpu.is_paused,
        reserved_for=reserved_for.client if reserved_for is not None else None,
        move_cost_ns=turns.mode.move_cost_ns,
        is_move_cost_measured=turns.mode.is_cost_measured,
        busy_percent=turns.gpu_time.busy_percent(now),
        busy_ns=turns.gpu_time.busy_ns,
        utilization_percent=None if use is None else use.utilization,
        accounted_percent=None if use is None else use.accounted,
    )


class Outlook(Record, frozen=True):
    """What is worked out once for all clients of a GPU, by client."""

    starts: Mapping[int, int]
    """When the first waiting clients will probably start."""
    dues: Mapping[int, float]


NOTHING = Outlook({}, {})


def outlook(node: Node, now: int) -> dict[str, Outlook]:
    """By GPU."""
    return {gpu.uuid: outlook_of(node, gpu, now) for gpu in node.gpus.values()}


def outlook_of(node: Node, gpu: Gpu, now: int) -> Outlook:
    """Of one GPU."""
    return Outlook(
        {client: now + wait_ns for client, wait_ns in expected_starts(gpu.turns, gpu.memory, now).items()},
        due_percents(gpu.turns) if node.is_scheduling else {},
    )


def client_snapshot(
    node: Node, client: Client, now: int, gpus: Mapping[str, Outlook], at: Iterable[str] | None = None
) -> ClientSnapshot:
    """One client at this moment; `gpus` are the `outlook` of this or an earlier moment. `at`: only its seats there."""
    first = next(iter(client.seats.values()), None)
    return ClientSnapshot(
        id=client.id,
        group=client.group.key,
        label=client.group.label,
        name=client.name,
        pid=client.pid,
        priority=first.priority if first else 0,
        weight=first.weight if first else 0,
        seats=tuple(_seat(node, client, uuid, now, gpus.get(uuid, NOTHING)) for uuid in at or client.seats),
        uid=client.uid,
        memory_mode=client.memory_mode,
    )


def _state(node: Node, gpu: Gpu, seat: Seat) -> SeatState:
    if not node.is_scheduling:
        return "unscheduled"
    is_paused = seat.client in gpu.turns.no_turns.paused and seat.state in ("rest", "blocked")
    return "paused" if is_paused else SHOWN_AS[seat.state]


def _paused_by(gpu: Gpu, group: Group) -> Literal["annotation", "operator", "GPU"] | None:
    if group.is_paused:
        return "operator" if group.pause is None else "annotation"
    return "GPU" if gpu.is_paused else None


def gpu_percent(gpu: Gpu, seat: Seat, now: int) -> float:
    """How much of the GPU's time the client had in the last 10 s."""
    return seat.recent.percent(now, gpu.turns.gpu_time.estimate_ns(now, seat))


def _seat(node: Node, client: Client, uuid: str, now: int, known: Outlook) -> SeatSnapshot:
    seat = client.seats[uuid]
    share = client.group.limits[uuid].shares[client.id]
    gpu = node.gpus[uuid]
    place = gpu.turns.queue.place(seat) if seat.is_waiting else 0
    starts_at = known.starts.get(client.id)
    return SeatSnapshot(
        gpu=uuid,
        state=_state(node, gpu, seat),
        is_running=bool(seat.lock),
        since_ns=seat.held_ns(now) - seat.held_total + seat.waited_ns(now) - seat.waited_total,
        place=place,
        paused_by=_paused_by(gpu, client.group),
        memory_allocated=seat.reported.used,
        swappable=seat.memory.swappable,
        unswappable=seat.memory.unswappable,
        contexts=seat.memory.contexts,
        limit=share.limit_told,
        budget=None if share.budget == UNLIMITED else share.budget,
        turns=seat.turns,
        held_ns=seat.held_ns(now),
        waited_ns=seat.waited_ns(now),
        last_scheduled_ns=None if seat.last_scheduled is None else now - seat.last_scheduled,
        is_idle=seat.idle_since is not None,
        host_shortfall=seat.lacking,
        on_host=seat.held_bytes,
        working_set=seat.working_set,
        need=seat.need,
        moved=seat.moved,
        not_moving=seat.not_moving,
        expected_start_ns=None if starts_at is None or not place or seat.gang else max(0, starts_at - now),
        core_limit_percent=client.group.core_limit_on(uuid),
        gpu_percent=gpu_percent(gpu, seat, now),
        due_percent=known.dues.get(client.id),
        held_back_by=held_back_by(gpu.turns, seat),
        held_back_ns=gpu.compute_shares.held_back_ns(now, seat),
        together=() if seat.gang is None else tuple(other for other in seat.gang.seats if other != uuid),
        gpu_ns=seat.gpu_ns,
    )

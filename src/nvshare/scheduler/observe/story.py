"""Why a client runs, waits or is idle, in a sentence for each of its GPUs. Pure."""

from nvshare.admin import client_name
from nvshare.core.model import DEFAULT_WEIGHT, MILLISECOND, SECOND
from nvshare.core.queue.policies import weights_ignored
from nvshare.core.snapshots.snapshot import ClientSnapshot, GpuSnapshot, SeatSnapshot, Snapshot
from nvshare.quantity import amount
from nvshare.scheduler.observe.names import called, gpu_called

MOST_NAMED = 3
"""More clients than this are counted instead of named."""


def summary_of(node: Snapshot, client: int, name: str = "") -> str:
    """Why a client runs or waits now; `name` is used if it has left."""
    found = next((one for one in node.clients if one.id == client), None)
    if found is None:
        return f"{called(client, name)} has left."
    if not node.scheduling:
        return f"{called(client, found.name)} may run at any time: scheduling is off."
    gpus = {gpu.uuid: gpu for gpu in node.gpus}
    told = [_sentence(node, found, seat, gpus[seat.gpu]) + _kept(seat) for seat in found.seats]
    return " ".join(told + _weight(node, found))


def _weight(node: Snapshot, client: ClientSnapshot) -> list[str]:
    """Says so if it has a weight that the policy ignores."""
    ignored = weights_ignored(node.policy)
    if not client.seats or client.weight == DEFAULT_WEIGHT or not ignored:
        return []
    return [f"Its weight of {client.weight} has no effect: {ignored}."]


def _kept(seat: SeatSnapshot) -> str:
    return f" {amount(seat.on_host)} of its memory are on the host because of its limit." if seat.on_host else ""


def _sentence(node: Snapshot, client: ClientSnapshot, seat: SeatSnapshot, gpu: GpuSnapshot) -> str:
    who = called(client.id, client.name)
    where = gpu_called(gpu)
    since = f"{seat.since_ns / SECOND:.1f} s"
    match seat.state:
        case "running":
            pause = "; it has no work at present" if seat.is_idle else ""
            return f"{who} has been running on {where}{_together(node, seat)} for {since}{pause}."
        case "dropping":
            return f"{who} was told to release {where} and is finishing its work; its turn has lasted {since}."
        case "waiting":
            obstacle = _obstacle(node, client, seat, gpu)
            waits = f"{who} has been waiting for {where}{_together(node, seat)} for {since}"
            return f"{waits}, at place {seat.place}: {obstacle}.{_start(seat)}"
        case "blocked" if seat.held_back_by is not None:
            return f"{who} is held back on {where}: {_enough(client, seat)}."
        case "blocked":
            return f"{who} has been waiting for {where} for {since}: {_missing_on_host(node, seat)}."
        case "paused":
            return f"{who} gets no turn on {where}: {_pause(client, seat, gpu)}."
        case "silent":
            gets_none = f"It gets no turn on {where}; it waits again when it sends something."
            return f"{who} sends nothing: it was stopped, hangs or is ending. {gets_none}"
        case _:
            return f"{who} has no work for {where}."


def _enough(client: ClientSnapshot, seat: SeatSnapshot) -> str:
    """Why a client that has work gets no lock: it had its share of the GPU's time."""
    if seat.held_back_by == "weight":
        return f"it is ahead of its weight of {client.weight}, and others who run have work"
    goes_on = "" if seat.held_back_ns is None else f"; it goes on in {_soon(seat.held_back_ns)}"
    return f"{client.label} is over its core limit of {seat.core_limit_percent} %{goes_on}"


def _soon(time_ns: int) -> str:
    return f"{time_ns / SECOND:.1f} s" if time_ns >= SECOND else f"{max(1, time_ns // MILLISECOND)} ms"


def _pause(client: ClientSnapshot, seat: SeatSnapshot, gpu: GpuSnapshot) -> str:
    if seat.paused_by == "annotation":
        return "its pod has the annotation nvshare.com/gpu-pause"
    what = client_name(client.id)
    if seat.paused_by == "GPU":
        what = f"--gpu {gpu.uuid if gpu.index is None else gpu.index}"
    return f"the operator paused it; `nvsharectl resume {what}` ends that"


def _start(seat: SeatSnapshot) -> str:
    if seat.expected_start_ns is None:
        return ""
    return f" It will probably start within {max(1, round(seat.expected_start_ns / SECOND))} s."


def _together(node: Snapshot, seat: SeatSnapshot) -> str:
    """The other GPUs of a gang, whose locks are given and taken with this one."""
    others = [gpu_called(gpu) for gpu in node.gpus if gpu.uuid in seat.together]
    return f" together with {' and '.join(others)}" if others else ""


def _obstacle(node: Snapshot, client: ClientSnapshot, seat: SeatSnapshot, gpu: GpuSnapshot) -> str:
    if node.settling:
        return (
            "the scheduler has just started and waits for the clients of the scheduler before it to claim their locks"
        )
    at_gpu = [(one, other) for one in node.clients for other in one.seats if other.gpu == gpu.uuid]
    need, free = _need(seat), amount(gpu.available_memory)
    fits = seat.need <= gpu.available_memory
    if fits and seat.together:
        return "it would fit, and waits until the others are available too"
    if fits and gpu.reserved_for not in (None, client.id):
        first = next(one for one, _ in at_gpu if one.id == gpu.reserved_for)
        return (
            f"it would fit ({need}, {free} are free), but {called(first.id, first.name)} is ahead and may not be passed"
        )
    holders = [one for one, other in at_gpu if other.is_running]
    ahead = [one for one, other in at_gpu if 0 < other.place < seat.place]
    parts = [f"it needs {need}, and {free} are free beside {_listed(holders) or 'no client'}"]
    if ahead:
        parts.append(f"{_listed(ahead)} {'is' if len(ahead) == 1 else 'are'} ahead of it")
    if gpu.quantum_left_ns:
        parts.append(f"the present turn ends in {gpu.quantum_left_ns / SECOND:.1f} s")
    elif holders:
        parts.append("the present turn is over, and its programs are finishing their work")
    return "; ".join(parts)


def _need(seat: SeatSnapshot) -> str:
    if seat.need == seat.swappable:
        return amount(seat.need)
    return f"{amount(seat.need)} of {amount(seat.swappable)} allocated"


def _missing_on_host(node: Snapshot, seat: SeatSnapshot) -> str:
    pinned = [
        f"{amount(other.host_shortfall)} of {called(client.id, client.name)}"
        for client in node.clients
        for other in client.seats
        if other.gpu == seat.gpu and other is not seat and other.host_shortfall
    ]
    return f"the host has no room for {', '.join(pinned)}, which its turn would evict; raise their memory limit"


def _listed(clients: list[ClientSnapshot]) -> str:
    if len(clients) > MOST_NAMED:
        return f"{len(clients)} clients"
    return ", ".join(called(client.id, client.name) for client in clients)

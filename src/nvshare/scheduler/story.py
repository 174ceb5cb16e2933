"""Why a client is where it is, in a sentence for each of its GPUs. Pure."""

from nvshare.core.model import GIB, SECOND
from nvshare.core.snapshot import ClientSnapshot, GpuSnapshot, SeatSnapshot, Snapshot
from nvshare.scheduler.step import client_name


def summary_of(node: Snapshot, client: int) -> str:
    """What holds a client where it is now."""
    found = next((one for one in node.clients if one.id == client), None)
    if found is None:
        return f"Client {client_name(client)} has left."
    if not node.scheduling:
        return f"Client {client_name(client)} may run: anti-thrash scheduling is off."
    gpus = {gpu.uuid: gpu for gpu in node.gpus}
    return " ".join(_sentence(node, found, seat, gpus[seat.gpu]) for seat in found.seats)


def _sentence(node: Snapshot, client: ClientSnapshot, seat: SeatSnapshot, gpu: GpuSnapshot) -> str:
    who = f"Client {client_name(client.id)}"
    since = f"{seat.since_ns / SECOND:.1f} s"
    match seat.state:
        case "running":
            return f"{who} runs on {gpu.uuid} for {since}."
        case "dropping":
            return f"{who} was told to give {gpu.uuid} back and is finishing its work ({since} in all)."
        case "waiting":
            return f"{who} waits for {gpu.uuid} for {since}, place {seat.place}: {_obstacle(node, seat, gpu)}."
        case "idle":
            return f"{who} has no work for {gpu.uuid}."


def _obstacle(node: Snapshot, seat: SeatSnapshot, gpu: GpuSnapshot) -> str:
    if node.settling:
        return "the scheduler has just started and lets earlier clients claim their locks first"
    holders = [
        client_name(client.id)
        for client in node.clients
        for other in client.seats
        if other.gpu == gpu.uuid and other.is_running
    ]
    need, room = seat.swappable / GIB, gpu.available_memory / GIB
    left = f", their turn ends in {gpu.quantum_left_ns / SECOND:.1f} s" if gpu.quantum_left_ns else ""
    return f"it needs {need:.2f} GiB, {room:.2f} GiB are free beside {', '.join(holders) or 'nobody'}{left}"

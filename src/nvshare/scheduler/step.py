"""One step of the core, as those who watch see it: when, what happened, what was done; and the same in words."""

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND, SECOND
from nvshare.record import Record


class Step(Record, frozen=True):
    """What `core.Node.handle` was given and what it answered. `now` is monotonic, `time` seconds since 1970."""

    now: int
    time: float
    event: ev.Event
    actions: tuple[ac.Action, ...]


def client_name(client: int) -> str:
    """How a client's id is shown everywhere."""
    return f"{client:04x}"


def clients_of(step: Step) -> frozenset[int]:
    """Every client that a step is about."""
    return frozenset(
        client for part in (step.event, *step.actions) if (client := getattr(part, "client", None)) is not None
    )


def describe(step: Step) -> list[str]:
    """A step in sentences, one for each thing worth a line."""
    lines = _describe_event(step.event)
    for action in step.actions:
        lines.extend(_describe_action(action))
    return lines


def _describe_event(event: ev.Event) -> list[str]:
    match event:
        case ev.ClientRegistered(client=client):
            held = sum(1 for claim in event.claims if claim.lock)
            kept = f", holding {held} lock(s)" if held else ""
            return [f"Client registered: {client_name(client)} ({event.label}, pid {event.pid}, {event.name}){kept}"]
        case ev.ClientLeft(client=client):
            return [f"Client left: {client_name(client)} ({event.reason})"]
        case ev.QuantumSet():
            return [f"Quantum set to {event.quantum_ns / SECOND:g} s{_on(event.gpu)}"]
        case ev.ModeSet():
            return [f"Quantum mode set to {event.mode}{_on(event.gpu)}"]
        case ev.SchedulingSwitched():
            return [f"Anti-thrash scheduling switched {'on' if event.on else 'off'}"]
        case ev.GpuFound():
            return [f"GPU found: {event.gpu}, {event.size / GIB:.2f} GiB"]
        case ev.PodsListed():
            return ["Pods of this node listed"]
        case _:
            return []


def _on(gpu: str | None) -> str:
    return f" on {gpu}" if gpu else ""


def _describe_action(action: ac.Action) -> list[str]:
    match action:
        case ac.GiveLock():
            waited = f" after {_duration(action.waited_ns)}" if action.waited_ns else ""
            return [f"Lock given to client {client_name(action.client)} on {action.gpu}{waited}"]
        case ac.DropLock():
            return [f"Lock of client {client_name(action.client)} on {action.gpu} taken back ({action.cause})"]
        case ac.QueueClient():
            return [f"Client {client_name(action.client)} waits for {action.gpu}, place {action.place}"]
        case ac.EndTurn():
            held = _duration(action.held_ns)
            how = "did not give its lock back in time: revoked" if action.end == "revoked" else f"lock {action.end}"
            return [f"Client {client_name(action.client)} on {action.gpu}: {how} after {held}"]
        case ac.ReportLongWait():
            return [
                f"Client {client_name(action.client)} has waited {_duration(action.waited_ns)} for {action.gpu}, place"
                f" {action.place}, held by {client_name(action.holder)} for {_duration(action.held_ns)}"
            ]
        case ac.ReportLimit():
            # A pod that Kubernetes has not told us of is called "pod UID" already.
            kind = "pod " if action.group.startswith("pod/") and not action.label.startswith("pod ") else ""
            return [f"Memory limit changed for {kind}{action.label}: {action.old} -> {action.new} bytes"]
        case ac.UpdateLimit():
            size = f"{action.limit} bytes ({action.limit / GIB:.2f} GiB)"
            return [f"Sending UPDATE_LIMIT to client {client_name(action.client)}: {size}"]
        case ac.Refuse():
            return [f"Refused: {action.reason}"]
        case _:
            return []


def _duration(ns: int) -> str:
    return f"{ns / SECOND:.1f} s" if ns >= SECOND else f"{ns / MILLISECOND:.1f} ms"

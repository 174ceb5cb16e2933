"""One step of the core in words: the lines of the log, the page and `nvsharectl events`. Pure."""

from nvshare.admin import StepLine, client_name
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.limits.group_names import POD_PREFIX
from nvshare.core.model import MILLISECOND, SECOND
from nvshare.journal import Step
from nvshare.quantity import amount
from nvshare.scheduler.observe.names import Ids

IDS = Ids()
MOST_NAMED = 64
"""A step about n clients has up to n lines. If each named all clients, 4,096 clients would take 119 MB."""
NOT_THE_OPERATORS = "is no longer the operator's"


def clients_of(step: Step) -> frozenset[int]:
    """Every client that a step is about."""
    return frozenset(
        client for part in (step.event, *step.actions) if (client := getattr(part, "client", None)) is not None
    )


def lines_of(step: Step, names: Ids) -> list[StepLine]:
    """The lines of a step, each with the clients that the step is about."""
    texts = describe(step, names)
    clients = sorted(clients_of(step)) if texts else []
    named = tuple(map(client_name, clients[:MOST_NAMED]))
    return [StepLine(step.time, text, named, len(clients) - len(named)) for text in texts]


def describe(step: Step, names: Ids = IDS) -> list[str]:
    """A step in sentences, one for each thing worth a line."""
    lines = _describe_event(step.event, names)
    if isinstance(step.event, ev.PodChanged) and any(isinstance(action, ac.NoteOrder) for action in step.actions):
        lines.append(_describe_annotations(step.event))
    given = {(action.client, action.gpu) for action in step.actions if isinstance(action, ac.GiveLock)}
    for action in step.actions:
        if not (isinstance(action, ac.AnnounceRoom) and (action.client, action.gpu) in given):
            lines.extend(_describe_action(action, names))
    return lines


MEMORY_MODES = {
    "managed": "has managed memory",
    "native": "has native memory, which cannot be evicted",
    "checkpoint": "has native memory and suspends itself between its turns",
    "not suspended": "cannot be suspended: its memory stays native and cannot be evicted",
}


def _describe_event(event: ev.Event, names: Ids) -> list[str]:
    match event:
        case ev.ClientRegistered(client=client):
            held = sum(1 for claim in event.claims if claim.lock)
            kept = f", holding {held} lock(s)" if held else ""
            return [f"Client registered: {IDS.client(client)} ({event.label}, pid {event.pid}, {event.name}){kept}"]
        case ev.ClientLeft(client=client):
            return [f"Client left: {names.client(client)} ({event.reason})"]
        case ev.GpuFound():
            return [f"GPU found: {event.gpu}, {amount(event.size)}"]
        case ev.PodsListed():
            return ["Pods of this node listed"]
        case _:
            return _describe_report(event, names)


def _describe_report(event: ev.Event, names: Ids) -> list[str]:
    """What a client says of itself."""
    match event:
        case ev.MemoryMoved(client=client):
            way = f"from {names.gpu(event.gpu)} to the host" if event.to_host else f"to {names.gpu(event.gpu)}"
            return [f"Client {names.client(client)} moved {amount(event.moved)} {way} in {_duration(event.took_ns)}"]
        case ev.MoverReported(client=client):
            how = f"moves no memory in bulk: {event.not_moving}" if event.not_moving else "moves memory in bulk"
            return [f"Client {names.client(client)} {how}{_on(event.gpu, names)}"]
        case ev.WorkSlowed(client=client):
            return [
                f"Client {names.client(client)} works {event.factor} times slower than usual{_on(event.gpu, names)}"
            ]
        case ev.MemoryHeld(client=client):
            kept = f"{amount(event.held)} of its memory on the host because of its limit"
            return [f"Client {names.client(client)} on {names.gpu(event.gpu)}: {kept}"]
        case ev.MemoryModeReported(client=client):
            return [f"Client {names.client(client)} {MEMORY_MODES[event.mode]}"]
        case ev.CollectivesUsed(client=client):
            return [f"Client {names.client(client)} uses collectives: its locks and its group's are given together"]
        case _:
            return _describe_order(event, names)


def _describe_order(event: ev.Event, names: Ids) -> list[str]:
    match event:
        case ev.QuantumSet():
            return [f"Quantum set to {event.quantum_ns / SECOND:g} s{_on(event.gpu, names)}"]
        case ev.ModeSet():
            return [f"Quantum mode set to {event.mode}{_on(event.gpu, names)}"]
        case ev.SchedulingSwitched():
            return [f"Scheduling switched {'on' if event.on else 'off'}"]
        case ev.PolicySet():
            return [f"Policy set to {event.policy}"]
        case ev.WeightSet():
            return [_ordered("Weight", names.group(event.group), event.weight)]
        case ev.PrioritySet():
            return [_ordered("Priority", names.group(event.group), event.priority)]
        case ev.CoreLimitSet():
            percent = "" if event.percent is None else f"set to {event.percent} % of each GPU"
            return [f"Core limit of {names.group(event.group)} {percent or NOT_THE_OPERATORS}"]
        case ev.PauseSet():
            whose = f"on {names.gpu(event.gpu)}" if event.gpu else f"of {names.group(event.group or '')}"
            what = f"{'All' if event.gpu else 'The'} turns {whose}"
            return [f"{what} were {'paused' if event.on else 'resumed'} by the operator"]
        case _:
            return []


def _describe_annotations(pod: ev.PodChanged) -> str:
    said = {"priority": pod.priority, "weight": pod.weight, "core limit": pod.core_limit, "pause": pod.is_paused}
    named = [f"{what} {str(value).lower()}" for what, value in said.items() if value is not None]
    return f"Annotations of pod {pod.label}: {', '.join(named) or 'no priority, weight, core limit or pause'}"


def _ordered(what: str, group: str, value: int | None) -> str:
    return f"{what} of {group} " + (NOT_THE_OPERATORS if value is None else f"set to {value}")


def _on(gpu: str | None, names: Ids) -> str:
    return f" on {names.gpu(gpu)}" if gpu else ""


def _describe_action(action: ac.Action, names: Ids) -> list[str]:
    match action:
        case ac.GiveLock():
            waited = f" after {_duration(action.waited_ns)}" if action.waited_ns else ""
            return [f"Lock given to client {names.client(action.client)} on {names.gpu(action.gpu)}{waited}"]
        case ac.DropLock():
            return [
                f"Lock of client {names.client(action.client)} on {names.gpu(action.gpu)} taken back ({action.cause})"
            ]
        case ac.EndTurn():
            held = _duration(action.held_ns)
            how = "did not give its lock back in time: revoked" if action.end == "revoked" else f"lock {action.end}"
            return [f"Client {names.client(action.client)} on {names.gpu(action.gpu)}: {how} after {held}"]
        case ac.KeepOnHost():
            kept = f"{amount(action.keep)} of its memory on the host"
            return [f"Client {names.client(action.client)} on {names.gpu(action.gpu)} is told to keep {kept}"]
        case ac.ReportLimit():
            return [f"Memory limit changed for {_labelled(action)}: {names.change(action.old, action.new)}"]
        case ac.UpdateLimit():
            return [f"Sending UPDATE_LIMIT to client {names.client(action.client)}: {names.limit(action.limit)}"]
        case ac.Refuse():
            return [f"Refused: {action.reason}"]
        case ac.ReportForgotten():
            return [_describe_forgotten(action)]
        case _:
            return _describe_wait(action, names)


def _labelled(action: ac.ReportLimit | ac.ReportForgotten) -> str:
    # The label of a pod that is not known from Kubernetes is "pod UID" already.
    kind = "pod " if action.group.startswith(POD_PREFIX) and not action.label.startswith("pod ") else ""
    return kind + action.label


def _describe_forgotten(action: ac.ReportForgotten) -> str:
    order = action.order
    limit = None if action.limit is None else amount(action.limit) if action.limit else "none"
    percent = None if order.core_limit is None else f"{order.core_limit} %"
    said = {"memory limit": limit, "weight": order.weight, "priority": order.priority, "core limit": percent}
    named = [f"{what} {value}" for what, value in said.items() if value is not None]
    what = ", ".join([*named, "pause"] if order.is_paused else named)
    why = "too many groups without a client" if action.is_expected else "none of its clients is left"
    return f"The operator's orders for {_labelled(action)} are forgotten ({why}): {what}"


def _describe_wait(action: ac.Action, names: Ids) -> list[str]:
    match action:
        case ac.QueueClient():
            return [f"Client {names.client(action.client)} waits for {names.gpu(action.gpu)}, place {action.place}"]
        case ac.AnnounceRoom():
            return [
                f"There is room for client {names.client(action.client)} on {names.gpu(action.gpu)}: its lock follows"
            ]
        case ac.ReportBlocked():
            waits = f"Client {names.client(action.client)} waits for {names.gpu(action.gpu)}"
            missing = f"{amount(action.protected)} of client {names.client(action.holder)}"
            return [f"{waits} until the host has room for {missing}"]
        case ac.ReportLongWait(place=0):
            waited = f"has waited {_duration(action.waited_ns)} for {names.gpu(action.gpu)}"
            return [f"Client {names.client(action.client)} {waited}: no host memory for {names.client(action.holder)}"]
        case ac.ReportLongWait(is_paused=True) | ac.ReportLongWait(is_held_back=True):
            waited = f"has waited {_duration(action.waited_ns)} for {names.gpu(action.gpu)}"
            why = "it is paused" if action.is_paused else "it has used its share of GPU time"
            return [f"Client {names.client(action.client)} {waited}: {why}"]
        case ac.ReportLongWait():
            waited = f"has waited {_duration(action.waited_ns)} for {names.gpu(action.gpu)}, place {action.place}"
            held = f"held by {names.client(action.holder)} for {_duration(action.held_ns)}"
            return [f"Client {names.client(action.client)} {waited}, {held}"]
        case _:
            return []


def _duration(ns: int) -> str:
    return f"{ns / SECOND:.1f} s" if ns >= SECOND else f"{ns / MILLISECOND:.1f} ms"

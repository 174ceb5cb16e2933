"""What an order has changed, in a line for the operator who gave it; or that it was so already. Pure."""

from collections import Counter

from nvshare.core import events as ev
from nvshare.core.actions import DropLock, KeepOnHost, NoteOrder
from nvshare.core.limits.core_sources import core_limit_named
from nvshare.core.limits.group_order import NO_ORDER
from nvshare.core.limits.groups import Group
from nvshare.core.model import SECOND
from nvshare.core.node import Node
from nvshare.core.queue.policies import weights_ignored
from nvshare.core.snapshots.snapshot import client_snapshot
from nvshare.journal import Step
from nvshare.quantity import amount
from nvshare.scheduler.observe.names import Ids
from nvshare.scheduler.observe.step_text import describe

ALREADY = ", as it was already"


def in_force(node: Node, event: ev.Event) -> object:
    """What an order sets, as it is now: an order that does not change it changes nothing."""
    match event:
        case ev.QuantumSet() | ev.ModeSet():
            rules = {uuid: gpu.rule for uuid, gpu in node.gpus.items()}
            return (node.orders.rule, rules) if event.gpu is None else rules.get(event.gpu)
        case ev.SchedulingSwitched():
            return node.is_scheduling
        case ev.PolicySet():
            return node.orders.policy
        case ev.PauseSet(group=None):
            return [uuid for uuid, gpu in node.gpus.items() if gpu.is_paused]
        case ev.LimitSet() | ev.CoreLimitSet() | ev.WeightSet() | ev.PrioritySet() | ev.PauseSet(group=str()):
            group = node.groups.get(event.group or "")
            return (None, NO_ORDER) if group is None else (group.operator, group.order)
        case _:
            return object()  # It sets nothing that stays.


def effect_of(node: Node, step: Step, names: Ids, *, is_new: bool = True) -> str:
    """The line, made after the step. `is_new`: the order has changed what is in force."""
    already = "" if is_new else ALREADY
    match event := step.event:
        case ev.QuantumSet():
            return f"Quantum {event.quantum_ns / SECOND:g} s, mode fixed, {_on(event.gpu, names)}{already}."
        case ev.ModeSet():
            return f"Mode {event.mode}, {_on(event.gpu, names)}{already}."
        case ev.SchedulingSwitched(on=True):
            return f"Scheduling is on{already}: {_clients(node)} take turns where they do not fit together."
        case ev.SchedulingSwitched():
            return f"Scheduling is off{already}: {_clients(node)} may run at the same time."
        case ev.LimitSet():
            moved = sum(action.keep for action in step.actions if isinstance(action, KeepOnHost))
            return _limit(node, event, names, moved, already)
        case ev.CoreLimitSet():
            return _core_limit(node, event, step, names, already)
        case _:
            return _effect_on_turns(node, step, names, is_new)


def _effect_on_turns(node: Node, step: Step, names: Ids, is_new: bool) -> str:
    match event := step.event:
        case ev.YieldAsked():
            told = [names.client(action.client) for action in step.actions if isinstance(action, DropLock)]
            return (
                f"{', '.join(told)} must give the lock back." if told else "No program waits for a lock that is held."
            )
        case ev.PauseSet(on=True) | ev.WeightSet() | ev.PrioritySet() | ev.PolicySet():
            concerned = _concerned(step) if is_new or not isinstance(event, ev.PolicySet) else ""
            return f"{_told(step, names, is_new)}{concerned}{_ignored(node, event)}."
        case ev.PauseSet():
            return f"{_told(step, names, is_new)}{_still_paused(node, event, names)}."
        case _:
            return ""


def _told(step: Step, names: Ids, is_new: bool) -> str:
    """The order as `events` tells it, or that it was so already."""
    if is_new:
        return describe(step, names)[0]
    match event := step.event:
        case ev.PolicySet():
            return f"Policy was {event.policy} already"
        case ev.WeightSet():
            return _was("Weight", names.group(event.group), event.weight)
        case ev.PrioritySet():
            return _was("Priority", names.group(event.group), event.priority)
        case ev.PauseSet():
            whose = f"on {names.gpu(event.gpu)}" if event.gpu else f"of {names.group(event.group or '')}"
            return f"The turns {whose} were {'paused already' if event.on else 'not paused by the operator'}"
        case _:
            return ""


def _was(what: str, group: str, value: int | None) -> str:
    return f"{what} of {group} was not the operator's" if value is None else f"{what} of {group} was {value} already"


def _concerned(step: Step) -> str:
    if isinstance(step.event, ev.PolicySet):
        return ", also for programs that wait now"
    count = sum(isinstance(action, NoteOrder) for action in step.actions)
    return f"; {count} process{'' if count == 1 else 'es'} now"


def _ignored(node: Node, event: ev.Event) -> str:
    """Says so if the policy in force ignores this order."""
    policy = node.orders.policy
    if isinstance(event, ev.WeightSet) and event.weight is not None and (ignored := weights_ignored(policy)):
        return f"; {ignored}"
    if isinstance(event, ev.PrioritySet) and event.priority is not None and policy == "fcfs":
        return "; policy fcfs ignores priorities"
    return ""


def _still_paused(node: Node, event: ev.PauseSet, names: Ids) -> str:
    """What was resumed may be paused in the other way too."""
    group = node.groups.get(event.group or "")
    if event.gpu is None and group is not None:
        gpus = [names.gpu(uuid) for uuid in group.limits if node.gpus[uuid].is_paused]
        return f"; {', '.join(gpus)} is still paused" if gpus else ""
    return ""


def _on(gpu: str | None, names: Ids) -> str:
    return "on all GPUs" if gpu is None else f"on {names.gpu(gpu)}"


def _clients(node: Node) -> str:
    return f"{len(node.clients)} client{'' if len(node.clients) == 1 else 's'}"


def _limit(node: Node, event: ev.LimitSet, names: Ids, moved: int, already: str) -> str:
    group = node.groups.get(event.group)
    removed = "the operator had set no limit" if already else "the operator's limit is removed"
    if group is None:  # no client has it any more
        return f"{names.group(event.group)}: {removed}."
    if event.limit is None:
        source, limit = group.named or ("", 0)
        now = f"the limit of the {source}, {amount(limit)}, applies" if limit else "no limit applies"
        return f"{group.label}: {removed}; {now}."
    if not event.limit:
        return f"{group.label}: no limit{already}."
    lower = _claims(group, event.limit, names)
    use = _use(node, group, names, moved)
    return f"{group.label}: limit {amount(event.limit)} on each GPU{already}{lower}; {use}."


def _core_limit(node: Node, event: ev.CoreLimitSet, step: Step, names: Ids, already: str) -> str:
    group = node.groups.get(event.group)
    source, percent = (core_limit_named(group) if group is not None else None) or (None, 0)
    now = f"the core limit of the {source}, {percent} %, applies" if source else "no core limit applies"
    if event.percent is None or group is None:
        removed = "the operator had set no core limit" if already else "the operator's core limit is removed"
        return f"{names.group(event.group)}: {removed}; {now}{_concerned(step)}."
    lower = "" if source == "operator" else f", but {now}, which is lower"
    had = _time(node, group, step, names)
    return f"{group.label}: core limit {event.percent} % of each GPU{already}{lower}; {had}."


def _time(node: Node, group: Group, step: Step, names: Ids) -> str:
    """What its processes have had of each GPU's time lately."""
    had: Counter[str] = Counter()
    for client in node.clients.values():
        if client.group is group:
            had.update(
                {seat.gpu: round(seat.gpu_percent) for seat in client_snapshot(node, client, step.now, {}).seats}
            )
    if not had:
        return "it has no process now"
    return "it had " + ", ".join(f"{percent} % of {names.gpu(gpu)}" for gpu, percent in had.items()) + " lately"


def _claims(group: Group, limit: int, names: Ids) -> str:
    """Where the pod's claims allow less."""
    lower = group.claims.lower_than(limit)
    told = ", ".join(f"{amount(claimed)} on {names.gpu(gpu)}" for gpu, claimed in lower.items())
    return f", but {told}, because its ResourceClaims allow no more there" if told else ""


def _use(node: Node, group: Group, names: Ids, moved: int) -> str:
    used: Counter[str] = Counter()
    for client in node.clients.values():
        if client.group is group:
            used.update({gpu: seat.reported.used for gpu, seat in client.seats.items()})
    if not used:
        return "it has no process now"
    told = ", ".join(f"{amount(count)} on {names.gpu(gpu)}" for gpu, count in used.items())
    if all(count <= group.limit_on(gpu) for gpu, count in used.items()):
        return f"it uses {told}"
    now = f"{amount(moved)} of it moves to the host and is used from there" if moved else "what it has allocated stays"
    return f"it uses {told}, which is more: {now}, and new allocations are refused until it uses less than the limit"

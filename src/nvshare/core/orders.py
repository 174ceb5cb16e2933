"""The operator's orders about turns: quantum, mode and policy; weight, priority, core limit and pause of a group; pause
of a GPU; and that holders release their locks now.

Weight, priority, core limit and pause of a group are stored in the group (core.limits.groups), so they also apply to
its later processes. A pod's annotations are orders too, and have precedence over the operator's. compute.no_turns
stores which clients of a GPU are paused; queue.blocking takes them out of the queue, with their rank, and holders among
them drop their locks.

A rank is an arrival time, shifted by a bounded amount (queue.policies). A new priority or policy also changes the ranks
of waiting clients, to the value that they would have if the order had been in force when they arrived. So the bound on
waiting holds, with the longest horizon of the policies that were in force."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from nvshare.core import events as ev
from nvshare.core.actions import Action, NoteOrder, Refuse
from nvshare.core.client import Client
from nvshare.core.gangs.gangs import Gangs
from nvshare.core.gpu import Gpu
from nvshare.core.limits.group_names import POD_PREFIX
from nvshare.core.limits.groups import Group
from nvshare.core.limits.memory_limits import MemoryLimits, apply_priorities
from nvshare.core.model import QuantumRule, Settings
from nvshare.core.queue.policies import POLICIES
from nvshare.core.turns.seat import Seat

MOST_OWED = 64
"""The number of GPUs unknown to NVML for which the debts of groups without clients are remembered."""


class Orders:
    """Notes the operator's orders. `gpus` and `clients` are the node's; `touch` makes the present step decide on a
    GPU."""

    def __init__(
        self,
        settings: Settings,
        gpus: Mapping[str, Gpu],
        clients: Mapping[int, Client],
        limits: MemoryLimits,
        gangs: Gangs,
        touch: Callable[[Gpu], None],
    ) -> None:
        self.rule: QuantumRule = settings.quantum
        self.policy = settings.policy
        self._gpus, self._clients, self._limits, self._gangs, self._touch = gpus, clients, limits, gangs, touch
        self.notes: dict[type[ev.Event], Callable[[int, Any, list[Action]], None]] = {
            ev.QuantumSet: lambda now, event, out: self._set_rule(event, out, mode="fixed", fixed_ns=event.quantum_ns),
            ev.ModeSet: lambda now, event, out: self._set_rule(event, out, mode=event.mode),
            ev.PolicySet: self._note_policy,
            ev.WeightSet: lambda now, event, out: self._set_order(event, out, weight=event.weight),
            ev.PrioritySet: lambda now, event, out: self._set_order(event, out, priority=event.priority),
            ev.CoreLimitSet: self._note_core_limit,
            ev.CoreLimitWanted: self._note_core_limit_wanted,
            ev.PauseSet: self._note_pause,
            ev.YieldAsked: self._note_yield,
            ev.PodChanged: self._note_pod,
            ev.ClaimPrepared: self._note_claim,
        }

    def concern(self, now: int, gpu: Gpu) -> bool:
        """There are orders for this GPU alone, or groups without clients have debts at it. It is checked again when the
        debts are repaid. The bound is for programs that name GPUs that do not exist."""
        if gpu.is_paused or gpu.rule != self.rule:
            return True
        repaid_at = gpu.compute_shares.repaid_at(now)
        if repaid_at <= now or len(self._gpus) > MOST_OWED:
            return False
        gpu.look_again_at(repaid_at)
        return True

    def found(self, gpu: Gpu) -> None:
        """A GPU is new."""
        gpu.turns.rule_changed(self.rule)
        self._set_policy(gpu)

    def registered(self, now: int, client: Client) -> None:
        """A client is new: it is paused if its group or its GPU is, and has its group's core limit."""
        if client.group.is_paused or any(self._gpus[uuid].is_paused for uuid in client.seats):
            self._pause(now, client)
        self._apply_core_limit(now, client.group)

    def left(self, now: int, client: Client) -> None:
        """Others of its group may have a higher limit from now on."""
        if not client.core_limit:
            return
        client.want_core_limit(0)
        limits = client.group.limits.items()
        remaining = [uuid for uuid, shared in limits if len(shared.shares) > (client.id in shared.shares)]
        self._apply_core_limit(now, client.group, remaining)

    # Of all clients.

    def _set_rule(self, event: ev.QuantumSet | ev.ModeSet, out: list[Action], **changes: Any) -> None:
        if event.gpu is not None and event.gpu not in self._gpus:
            out.append(Refuse(f"no such GPU: {event.gpu}"))
            return
        if event.gpu is None:
            self.rule = replace(self.rule, **changes)
        for gpu in [self._gpus[event.gpu]] if event.gpu is not None else self._gpus.values():
            gpu.turns.rule_changed(replace(gpu.rule, **changes))
            self._touch(gpu)

    def _note_policy(self, now: int, event: ev.PolicySet, out: list[Action]) -> None:
        if event.policy not in POLICIES:
            out.append(Refuse(f"no such policy: {event.policy}; there are {', '.join(POLICIES)}"))
        elif event.policy != self.policy:
            self.policy = event.policy
            self._rerank(lambda: self._set_policy(*self._gpus.values()))
            for gpu in self._gpus.values():  # Weights may count from now on where no client waits.
                self._touch(gpu)

    def _set_policy(self, *gpus: Gpu) -> None:
        for gpu in gpus:
            gpu.turns.ranking.set(self.policy, gpu.turns.seats.values())
            gpu.compute_shares.policy_changed()

    def _rerank(self, change: Callable[[], None]) -> None:
        """Waiting clients get the ranks that they would have if the change had been made before they arrived. New
        weights count from now on in the mean of all tags (compute.fair_shares)."""
        before = [
            (gpu, seat, gpu.turns.ranking.shift_ns(seat))
            for gpu in self._gpus.values()
            for seat in (*gpu.turns.queue, *(seat for seat in gpu.turns.seats.values() if seat.rank is None))
        ]
        change()
        for gpu, seat, shift_ns in before:
            self._move(gpu, seat, gpu.turns.ranking.shift_ns(seat) - shift_ns)
            gpu.turns.ranking.fair_shares.reweigh(seat)
        self._gangs.reranked()

    def _move(self, gpu: Gpu, seat: Seat, by_ns: int) -> None:
        if by_ns and seat.rank is not None:
            gpu.turns.queue.move(seat, seat.rank + by_ns)
            self._touch(gpu)
        elif seat.lock and seat.won_rank is not None:
            seat.won_rank += by_ns
            if seat.outranked_rank is not None:
                seat.outranked_rank += by_ns
        elif seat.kept_rank is not None:
            seat.kept_rank += by_ns

    # Of one group.

    def _set_order(
        self, event: ev.WeightSet | ev.PrioritySet | ev.CoreLimitSet, out: list[Action], **changes: int | None
    ) -> None:
        group = self._limits.groups.find(event.group, event.group)
        for field in changes:
            if getattr(group, field) is not None:
                out.append(_annotated(group, field))
                return
        self._limits.groups.order(group, replace(group.order, **changes), out)
        members = self._members(event.group)
        self._rerank(lambda: apply_priorities(members))
        for uuid in dict.fromkeys(uuid for client in members for uuid in client.seats):
            self._touch(self._gpus[uuid])
        out.extend(NoteOrder(client.id) for client in members)

    def _note_core_limit(self, now: int, event: ev.CoreLimitSet, out: list[Action]) -> None:
        self._set_order(event, out, core_limit=event.percent)
        if (group := self._limits.groups.by_key.get(event.group)) is not None:  # It may be forgotten without an order.
            self._apply_core_limit(now, group)

    def _note_core_limit_wanted(self, now: int, event: ev.CoreLimitWanted, out: list[Action]) -> None:
        """A process may only lower the limit of its pod; a run's, until the operator says one."""
        client = self._clients[event.client]
        client.want_core_limit(event.percent)
        self._apply_core_limit(now, client.group)

    def _note_claim(self, now: int, event: ev.ClaimPrepared, out: list[Action]) -> None:
        self._limits.claim_prepared(event, out)
        for group in self._limits.groups.by_key.values():
            if event.label in group.claims.names:
                self._apply_core_limit(now, group)

    def _apply_core_limit(self, now: int, group: Group, gpus: Iterable[str] | None = None) -> None:
        """The limit of the group may have changed, on each GPU at which it has clients."""
        for uuid in group.limits if gpus is None else gpus:
            self._gpus[uuid].compute_shares.set_limit(now, group, group.core_limit_on(uuid))
            self._touch(self._gpus[uuid])

    def _note_pod(self, now: int, event: ev.PodChanged, out: list[Action]) -> None:
        """Also applies the memory limit. Priorities in it change the ranks of waiting clients."""
        group = self._limits.groups.find(POD_PREFIX + event.pod, event.label)
        said, was_paused = _said(group), group.is_paused
        self._rerank(lambda: self._limits.pod_changed(event, out))
        members = self._members(group.key)
        if group.is_paused != was_paused:
            for client in members:
                self._pause(now, client)
        self._apply_core_limit(now, group)
        if said != _said(group):
            out.extend(NoteOrder(client.id) for client in members)

    # Clients that get no turns.

    def _note_pause(self, now: int, event: ev.PauseSet, out: list[Action]) -> None:
        if event.group is not None:
            group = self._limits.groups.find(event.group, event.group)
            if group.pause is not None:
                out.append(_annotated(group, "pause"))
                return
            self._limits.groups.order(group, replace(group.order, is_paused=event.on), out)
            concerned = self._members(event.group)
        else:
            gpu = self._gpus.get(event.gpu or "")
            if gpu is None:
                out.append(Refuse(f"no such GPU: {event.gpu}"))
                return
            gpu.is_paused = event.on
            concerned = [client for client in self._clients.values() if gpu.uuid in client.seats]
        for client in concerned:
            self._pause(now, client)
            out.append(NoteOrder(client.id))

    def _pause(self, now: int, client: Client) -> None:
        """Pause a client at the GPUs at which it is to be paused, and at no others."""
        for uuid, seat in client.seats.items():
            gpu = self._gpus[uuid]
            if client.group.is_paused or gpu.is_paused:
                self._gangs.unlink(now, uuid, seat)
                gpu.turns.no_turns.pause(client.id)
            else:
                gpu.turns.no_turns.resume(client.id)
            self._touch(gpu)

    def _note_yield(self, now: int, event: ev.YieldAsked, out: list[Action]) -> None:
        """Holders for whose GPU a client waits drop their locks."""
        if event.client is not None:
            client = self._clients.get(event.client)
            seats = [(self._gpus[uuid], seat) for uuid, seat in client.seats.items()] if client is not None else []
        else:
            at = self._gpus.get(event.gpu or "")
            seats = [(at, seat) for seat in at.turns.staying.values()] if at is not None else []
        for gpu, seat in seats:
            if seat.state == "staying" and gpu.turns.queue.order:
                gpu.turns.preempt(now, seat, "operator", out)
                self._touch(gpu)

    def _members(self, group: str) -> list[Client]:
        return [client for client in self._clients.values() if client.group.key == group]


def _said(group: Group) -> tuple[int | None, ...]:
    """What the pod's annotations say about turns."""
    return group.priority, group.weight, group.pause, group.core_limit


def _annotated(group: Group, what: str) -> Refuse:
    what = what.replace("_", "-")
    return Refuse(f"{group.label} has an annotation nvshare.com/gpu-{what}, which counts; change that")

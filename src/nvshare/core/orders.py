"""The operator's orders about turns: quantum, mode and policy; weight, priority and pause of a group; pause of a GPU;
and that holders give their locks back now.

Weight, priority and pause of a group are kept in the group (core.limits.groups), so they hold for its processes to
come. An annotation counts more than the operator. Which clients of a GPU are paused is kept in core.turns;
core.host_memory takes them out of the queue, with their rank, and holders among them drop their locks.

A new priority moves a client that waits by as much as it would have moved its arrival. A new policy is for those who
start to wait from then on: every rank is an arrival time that is moved by a bounded amount (core.policies)."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from nvshare.core import events as ev
from nvshare.core.actions import Action, NoteOrder, Refuse
from nvshare.core.client import Client
from nvshare.core.gangs import Gangs
from nvshare.core.gpu import Gpu
from nvshare.core.limits.memory_limits import MemoryLimits, apply_rank
from nvshare.core.model import QuantumRule, Settings
from nvshare.core.policies import POLICIES
from nvshare.core.seat import Seat


class Orders:
    """Notes the operator's orders. `gpus` and `clients` are the node's."""

    def __init__(
        self,
        settings: Settings,
        gpus: Mapping[str, Gpu],
        clients: Mapping[int, Client],
        limits: MemoryLimits,
        gangs: Gangs,
    ) -> None:
        self.rule: QuantumRule = settings.quantum
        self.policy = settings.policy
        self._gpus, self._clients, self._limits, self._gangs = gpus, clients, limits, gangs
        self.notes: dict[type[ev.Event], Callable[[int, Any, list[Action]], None]] = {
            ev.QuantumSet: lambda now, event, out: self._set_rule(event, out, mode="fixed", fixed_ns=event.quantum_ns),
            ev.ModeSet: lambda now, event, out: self._set_rule(event, out, mode=event.mode),
            ev.PolicySet: self._note_policy,
            ev.WeightSet: lambda now, event, out: self._set_order(event, out, weight=event.weight),
            ev.PrioritySet: lambda now, event, out: self._set_order(event, out, priority=event.priority),
            ev.PauseSet: self._note_pause,
            ev.YieldAsked: self._note_yield,
        }

    def concern(self, gpu: Gpu) -> bool:
        """There are orders for this GPU alone."""
        return gpu.is_paused or gpu.rule != self.rule

    def found(self, gpu: Gpu) -> None:
        """A GPU is new."""
        gpu.turns.rule_changed(self.rule)
        gpu.turns.ranking.set(self.policy)

    def registered(self, now: int, client: Client) -> None:
        """A client is new: it is paused if its group or its GPU is."""
        if client.group.order.is_paused or any(self._gpus[uuid].is_paused for uuid in client.seats):
            self._pause(now, client)

    # Of all clients.

    def _set_rule(self, event: ev.QuantumSet | ev.ModeSet, out: list[Action], **changes: Any) -> None:
        if event.gpu is not None and event.gpu not in self._gpus:
            out.append(Refuse(f"no such GPU: {event.gpu}"))
            return
        if event.gpu is None:
            self.rule = replace(self.rule, **changes)
        for gpu in [self._gpus[event.gpu]] if event.gpu is not None else self._gpus.values():
            gpu.turns.rule_changed(replace(gpu.rule, **changes))
            self._gangs.touch(gpu)

    def _note_policy(self, now: int, event: ev.PolicySet, out: list[Action]) -> None:
        if event.policy not in POLICIES:
            out.append(Refuse(f"no such policy: {event.policy}; there are {', '.join(POLICIES)}"))
            return
        self.policy = event.policy
        for gpu in self._gpus.values():
            gpu.turns.ranking.set(event.policy)

    # Of one group.

    def _set_order(self, event: ev.WeightSet | ev.PrioritySet, out: list[Action], **changes: int | None) -> None:
        group = self._limits.groups.find(event.group, event.group)
        for field in changes:
            if getattr(group, field) is not None:
                out.append(
                    Refuse(f"{group.label} has an annotation nvshare.com/gpu-{field}, which counts; change that")
                )
                return
        self._limits.groups.order(group, replace(group.order, **changes), out)
        for client in self._members(event.group):
            before = {uuid: self._handicap(seat) for uuid, seat in client.seats.items()}
            apply_rank(client)
            for uuid, seat in client.seats.items():
                self._move(self._gpus[uuid], seat, self._handicap(seat) - before[uuid])
            out.append(NoteOrder(client.id))

    def _handicap(self, seat: Seat) -> int:
        """By how much the policy moves the arrival of a client."""
        return POLICIES[self.policy].rank(0, seat)

    def _move(self, gpu: Gpu, seat: Seat, by_ns: int) -> None:
        if seat.rank is not None:
            gpu.turns.queue.move(seat, seat.rank + by_ns)
            self._gangs.touch(gpu)
        elif seat.kept_rank is not None:
            seat.kept_rank += by_ns

    # Who gets no turns.

    def _note_pause(self, now: int, event: ev.PauseSet, out: list[Action]) -> None:
        if event.group is not None:
            group = self._limits.groups.find(event.group, event.group)
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
            if client.group.order.is_paused or gpu.is_paused:
                self._gangs.unlink(now, uuid, seat)
                gpu.turns.paused.add(client.id)
            else:
                gpu.turns.paused.discard(client.id)
            self._gangs.touch(gpu)

    def _note_yield(self, now: int, event: ev.YieldAsked, out: list[Action]) -> None:
        """Holders for whose GPU somebody waits drop their locks."""
        for gpu in self._gpus.values():
            for seat in list(gpu.turns.staying.values()) if gpu.turns.queue.order else ():
                if event.gpu == gpu.uuid or event.client == seat.client:
                    gpu.turns.preempt(now, seat, "operator", out)
                    self._gangs.touch(gpu)

    def _members(self, group: str) -> list[Client]:
        return [client for client in self._clients.values() if client.group.key == group]

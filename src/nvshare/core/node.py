"""The scheduling machine of one node: one door, and time comes through it.

    actions = node.handle(now, event)

`handle` always does the same three things: **note** the event (record facts, tolerate ordinary races), **settle** what
follows from the state, **check** what must hold. `next_deadline()` says when to call again with AlarmRang if nothing
happens before. Nothing in here knows a clock, a socket or a log; what the caller must know travels in the actions."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from nvshare.core import events as ev
from nvshare.core.actions import Action, AdmitClient, Refuse, SwitchScheduling
from nvshare.core.gpu import Gpu
from nvshare.core.groups import Group, Groups
from nvshare.core.limits import Share, SharedLimit
from nvshare.core.model import UNLIMITED, Claim, QuantumRule, Seat, Settings
from nvshare.core.policies import USUAL_WEIGHT
from nvshare.core.turns import Numbers


class Client:
    """A registered process."""

    __slots__ = ("group", "id", "name", "own_limit", "pid", "priority", "seats", "weight")

    def __init__(self, event: ev.ClientRegistered, group: Group) -> None:
        self.id = event.client
        self.group = group
        self.name = event.name
        self.pid = event.pid
        self.own_limit = event.own_limit
        self.priority = event.priority
        self.weight = event.weight
        self.seats: dict[str, Seat] = {}


class Node:
    """All GPUs, clients and limits of one machine.

    `epoch` distinguishes this daemon's lock numbers from its predecessors'. `settles_at`: until then claims of clients
    that outlived an earlier daemon come in and nobody is moved; None if there was none. `expects_pods`: limits of pods
    come from Kubernetes, and until its list is there those that clients claim to have been told are kept."""

    def __init__(
        self,
        settings: Settings,
        *,
        epoch: int,
        settles_at: int | None = None,
        expects_pods: bool = False,
        is_paranoid: bool = False,
    ) -> None:
        self.settings = settings
        self.rule: QuantumRule = settings.quantum
        self.gpus: dict[str, Gpu] = {}
        self.clients: dict[int, Client] = {}
        self.is_scheduling = True
        self._settles_at = settles_at
        self._groups = Groups(expects_pods=expects_pods)
        self._is_paranoid = is_paranoid
        self._numbers = Numbers(epoch)
        self._now = 0
        self._touched_gpus: dict[str, Gpu] = {}
        self._touched_limits: dict[int, SharedLimit] = {}
        self._asking: dict[int, SharedLimit] = {}
        self._notes: dict[type[ev.Event], Callable[[int, Any, list[Action]], None]] = {
            ev.ClientRegistered: self._note_registered,
            ev.ClientLeft: self._note_left,
            ev.LockRequested: self._note_requested,
            ev.LockReleased: self._note_released,
            ev.MemoryChanged: self._note_memory,
            ev.WorkFinished: self._note_finished,
            ev.WorkResumed: self._note_resumed,
            ev.BudgetAsked: self._note_asked,
            ev.BudgetReturned: self._note_returned,
            ev.QuantumSet: self._note_quantum,
            ev.ModeSet: self._note_mode,
            ev.SchedulingSwitched: self._note_switched,
            ev.LimitSet: self._note_limit,
            ev.PodChanged: self._note_pod,
            ev.PodRemoved: self._note_pod_removed,
            ev.PodsListed: self._note_pods_listed,
            ev.GpuFound: self._note_gpu,
            ev.MemoryMeasured: self._note_measured,
            ev.AlarmRang: self._note_alarm,
        }

    def handle(self, now: int, event: ev.Event) -> list[Action]:
        """What to do about an event. A clock that went back counts as one that stood still."""
        if now < self._now:
            now = self._now
        self._now = now
        out: list[Action] = []
        if self._settles_at is not None and now >= self._settles_at:
            self._end_settling()
        self._notes[type(event)](now, event, out)
        self._settle(now, out)
        return out

    def next_deadline(self) -> int | None:
        """When something will follow from the passing of time alone; None: never."""
        deadline = self._settles_at
        for gpu in self.gpus.values():
            if gpu.deadline is not None and (deadline is None or gpu.deadline < deadline):
                deadline = gpu.deadline
        for shared in self._asking.values():
            if shared.deadline is not None and (deadline is None or shared.deadline < deadline):
                deadline = shared.deadline
        return deadline

    @property
    def groups(self) -> dict[str, Group]:
        """Who shares a limit, by key."""
        return self._groups.by_key

    @property
    def is_settling(self) -> bool:
        """True while claims after a restart come in."""
        return self._settles_at is not None

    # Settle and check.

    def _settle(self, now: int, out: list[Action]) -> None:
        frozen = self._settles_at is not None
        for gpu in self._touched_gpus.values():
            gpu.settle(now, out, frozen=frozen or not self.is_scheduling)
            assert frozen or gpu.is_within_limit(), f"{gpu.uuid} holds more than the safe limit"
            if self._is_paranoid:
                gpu.check()
            if not gpu.seats and not gpu.is_known and gpu.rule == self.rule:
                del self.gpus[gpu.uuid]
        for key, shared in self._touched_limits.items():
            shared.settle(now, out, frozen=frozen)
            if shared.asks:
                self._asking[key] = shared
            else:
                self._asking.pop(key, None)
            if self._is_paranoid:
                shared.check()
        self._touched_gpus.clear()
        self._touched_limits.clear()

    def _end_settling(self) -> None:
        self._settles_at = None
        for gpu in self.gpus.values():
            gpu.note_settled()
            self._touch(gpu)
        for group in list(self.groups.values()):
            self._touch_limits(group)
            self._groups.forget_if_unused(group)

    def _touch(self, gpu: Gpu) -> None:
        self._touched_gpus[gpu.uuid] = gpu

    def _touch_limit(self, shared: SharedLimit) -> None:
        self._touched_limits[id(shared)] = shared

    def _touch_limits(self, group: Group) -> None:
        for shared in group.apply():
            self._touch_limit(shared)

    def _gpu(self, uuid: str) -> Gpu:
        gpu = self.gpus.get(uuid)
        if gpu is None:
            gpu = self.gpus[uuid] = Gpu(uuid, self.settings, self._numbers)
            gpu.rule = self.rule
        return gpu

    def _at(self, client: int, uuid: str) -> tuple[Gpu, Seat]:
        """A client's seat, to be changed: the GPU is settled at the end of the step."""
        gpu = self.gpus[uuid]
        self._touched_gpus[uuid] = gpu
        return gpu, self.clients[client].seats[uuid]

    # Clients come and go.

    def _note_registered(self, now: int, event: ev.ClientRegistered, out: list[Action]) -> None:
        assert event.client not in self.clients, "a client registers once"
        group = self._groups.note_registered(event)
        client = self.clients[event.client] = Client(event, group)
        for claim in event.claims:
            self._note_claim(now, client, claim, out)
        self._note_pod_of(client)
        self._touch_limits(group)
        # A client that has its answer has its terms: limits go out before it, locks after.
        limits: list[Action] = []
        for shared in group.limits.values():
            shared.settle(now, limits, frozen=self.is_settling)
        out[:0] = [*limits, AdmitClient(client.id, self.is_scheduling)]

    def _note_claim(self, now: int, client: Client, claim: Claim, out: list[Action]) -> None:
        assert claim.gpu not in client.seats, "a client names a GPU once"
        gpu = self._gpu(claim.gpu)
        gpu.note_size(claim.size, measured=False)
        seat = client.seats[claim.gpu] = Seat(client.id, client.priority, client.weight)
        gpu.note_joined(seat, claim.memory)
        self._touch(gpu)
        group = client.group
        shared = group.limits.setdefault(claim.gpu, SharedLimit(claim.gpu, self.settings.recall_ns))
        cap = group.cap(client.own_limit)
        # Who was told that it has no limit keeps to none, whatever became of its budget.
        budget = claim.budget if claim.limit else UNLIMITED
        shared.join(Share(client.id, budget=budget, used=claim.memory.used, limit_told=claim.limit, cap=cap))
        if self.is_scheduling and (claim.lock or claim.unshared):
            gpu.note_claim(now, seat, claim.lock, out)

    def _note_left(self, now: int, event: ev.ClientLeft, out: list[Action]) -> None:
        client = self.clients.pop(event.client)
        for uuid, seat in client.seats.items():
            gpu = self.gpus[uuid]
            gpu.note_left(now, seat, out)
            self._touch(gpu)
            shared = client.group.limits[uuid]
            shared.leave(client.id)
            self._touch_limit(shared)
            if not shared.shares:
                del client.group.limits[uuid]
        self._groups.forget_if_unused(client.group)

    # Turns.

    def _note_requested(self, now: int, event: ev.LockRequested, out: list[Action]) -> None:
        gpu, seat = self._at(event.client, event.gpu)
        self._note_used(event.client, gpu, seat, event)
        if self.is_scheduling:
            gpu.note_request(now, seat)

    def _note_released(self, now: int, event: ev.LockReleased, out: list[Action]) -> None:
        gpu, seat = self._at(event.client, event.gpu)
        gpu.note_release(now, seat, event.lock, event.again, out)

    def _note_finished(self, now: int, event: ev.WorkFinished, out: list[Action]) -> None:
        gpu, seat = self._at(event.client, event.gpu)
        gpu.note_idle(now, seat)

    def _note_resumed(self, now: int, event: ev.WorkResumed, out: list[Action]) -> None:
        gpu, seat = self._at(event.client, event.gpu)
        gpu.note_busy(now, seat)

    def _note_memory(self, now: int, event: ev.MemoryChanged, out: list[Action]) -> None:
        gpu, seat = self._at(event.client, event.gpu)
        self._note_used(event.client, gpu, seat, event)

    def _note_used(self, client: int, gpu: Gpu, seat: Seat, event: ev.LockRequested | ev.MemoryChanged) -> None:
        if seat.memory != event.memory:
            gpu.note_memory(seat, event.memory)
        shared = self.clients[client].group.limits[gpu.uuid]
        if shared.note_used(client, event.memory.used):
            self._touch_limit(shared)

    # Limits.

    def _note_asked(self, now: int, event: ev.BudgetAsked, out: list[Action]) -> None:
        shared = self.clients[event.client].group.limits[event.gpu]
        shared.note_ask(now, event.client, event.ask, event.need)
        self._touch_limit(shared)

    def _note_returned(self, now: int, event: ev.BudgetReturned, out: list[Action]) -> None:
        shared = self.clients[event.client].group.limits[event.gpu]
        shared.note_return(event.client, event.serial, event.budget, event.used)
        self._touch_limit(shared)

    def _note_limit(self, now: int, event: ev.LimitSet, out: list[Action]) -> None:
        group = self._groups.note_limit(event, out)
        self._note_word_on(group)
        if not self.is_settling:
            self._groups.forget_if_unused(group)

    def _note_pod(self, now: int, event: ev.PodChanged, out: list[Action]) -> None:
        self._note_word_on(self._groups.note_pod(event, out))

    def _note_word_on(self, group: Group) -> None:
        for client in self.clients.values():
            if client.group is group:
                self._note_pod_of(client)
        self._touch_limits(group)

    def _note_pod_of(self, client: Client) -> None:
        """A pod's own annotations decide its clients' place in the queue, and which limit is the process's own."""
        group = client.group
        if not group.is_listed:
            return
        for uuid, seat in client.seats.items():
            seat.priority = group.priority or 0
            seat.weight = group.weight or USUAL_WEIGHT
            group.limits[uuid].shares[client.id].cap = group.cap(client.own_limit)

    def _note_pod_removed(self, now: int, event: ev.PodRemoved, out: list[Action]) -> None:
        self._groups.note_pod_removed(event.pod)

    def _note_pods_listed(self, now: int, event: ev.PodsListed, out: list[Action]) -> None:
        for group in self._groups.note_pods_listed(out):
            self._touch_limits(group)

    # The operator.

    def _note_quantum(self, now: int, event: ev.QuantumSet, out: list[Action]) -> None:
        self._set_rule(event.gpu, out, mode="fixed", fixed_ns=event.quantum_ns)

    def _note_mode(self, now: int, event: ev.ModeSet, out: list[Action]) -> None:
        self._set_rule(event.gpu, out, mode=event.mode)

    def _set_rule(self, uuid: str | None, out: list[Action], **changes: Any) -> None:
        if uuid is not None and uuid not in self.gpus:
            out.append(Refuse(f"no such GPU: {uuid}"))
            return
        if uuid is None:
            self.rule = replace(self.rule, **changes)
        for gpu in [self.gpus[uuid]] if uuid is not None else self.gpus.values():
            gpu.note_rule(replace(gpu.rule, **changes))
            self._touch(gpu)

    def _note_switched(self, now: int, event: ev.SchedulingSwitched, out: list[Action]) -> None:
        if event.on == self.is_scheduling:
            return
        self.is_scheduling = event.on
        for gpu in self.gpus.values():
            gpu.note_off(now, out)
            self._touch(gpu)
        out.extend(SwitchScheduling(client, event.on) for client in self.clients)

    # The machine.

    def _note_gpu(self, now: int, event: ev.GpuFound, out: list[Action]) -> None:
        gpu = self._gpu(event.gpu)
        gpu.note_size(event.size, measured=True)
        self._touch(gpu)

    def _note_measured(self, now: int, event: ev.MemoryMeasured, out: list[Action]) -> None:
        gpu = self._gpu(event.gpu)
        gpu.note_measured(event.foreign, event.context_bytes)
        self._touch(gpu)

    def _note_alarm(self, now: int, event: ev.AlarmRang, out: list[Action]) -> None:
        for gpu in self.gpus.values():
            if gpu.deadline is not None and gpu.deadline <= now:
                self._touch(gpu)
        for shared in self._asking.values():
            self._touch_limit(shared)

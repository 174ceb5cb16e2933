"""The state machine of one node. Only `handle` changes it, and time is an argument:

    actions = node.handle(now, event)

`handle` always does the same: it **records** the event (facts only; ordinary races are accepted), **decides** what
follows from the state, and in tests (`is_paranoid`) **checks** the invariants. `next_deadline()` says when to call it
with AlarmRang if nothing happens before. The core has no clock, socket or log; the actions contain all that a caller
needs. Facts go to a Gpu (core.gpu: which clients run), to MemoryLimits (core.limits: how much they may allocate), or to
both. A seat of a Gpu knows its group; MemoryLimits knows no Gpu."""

from collections.abc import Callable
from typing import Any

from nvshare.core import events as ev
from nvshare.core.actions import AcceptClient, Action, SwitchScheduling
from nvshare.core.client import Client
from nvshare.core.gpu import REPORTS, Gpu
from nvshare.core.gpu_decisions import GpuDecisions
from nvshare.core.limits.group_names import POD_PREFIX
from nvshare.core.limits.groups import Group
from nvshare.core.limits.memory_limits import MemoryLimits
from nvshare.core.memory.live_shrink import LiveShrink
from nvshare.core.model import NEVER, Claim, Settings
from nvshare.core.orders import Orders
from nvshare.core.turns.lock_numbers import lock_numbers
from nvshare.core.turns.seat import Seat


class Node:
    """All GPUs, clients and limits of one machine.

    `epoch` distinguishes this daemon's lock numbers from its predecessors'. `settles_at`: until then clients of an
    earlier daemon claim what they hold, and no lock is granted or dropped; None if there was none. `expects_pods`:
    limits of pods come from Kubernetes; until it has listed them, the limits that clients were told before are kept.
    `is_paranoid`: each step checks in full what must hold; for tests."""

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
        self.gpus: dict[str, Gpu] = {}
        self.clients: dict[int, Client] = {}
        self.is_scheduling = True
        self._settles_at = settles_at
        self._limits = MemoryLimits(self.clients, settings, expects_pods=expects_pods, is_paranoid=is_paranoid)
        self._limits.groups.is_settling = settles_at is not None
        self.prepared_claims = self._limits.groups.prepared
        self._numbers = lock_numbers(epoch)
        self._now = 0
        self.unheard: set[int] = set()
        """Clients with a silent seat: the next event of such a client is handled by `_hear` too."""
        self._decisions = GpuDecisions(self.gpus, self.clients, is_paranoid=is_paranoid)
        self.gangs, self._touch = self._decisions.gangs, self._decisions.touch
        self._live_shrink = LiveShrink(self._limits, self.clients, self.gpus, self._touch)
        self.orders = Orders(settings, self.gpus, self.clients, self._limits, self.gangs, self._touch)
        self._registering: Client | None = None
        """The client that registered in this step and has not been answered."""
        to_change = self._seat_to_change
        self._notes: dict[type[ev.Event], Callable[[int, Any, list[Action]], None]] = {
            ev.ClientRegistered: self._note_registered,
            ev.ClientLeft: self._note_left,
            ev.ClientSilent: self._note_silent,
            ev.ClientHeard: lambda now, event, out: None,
            ev.LockRequested: self._note_requested,
            ev.LockReleased: self._note_released,
            ev.MemoryChanged: lambda now, event, out: self._note_used(*to_change(event.client, event.gpu), event, out),
            **dict.fromkeys(REPORTS, lambda now, event, out: to_change(event.client, event.gpu)[0].note(now, event)),
            ev.MoverReported: self._note_mover,
            ev.GpuTimeAsked: lambda now, event, out: self._decisions.divide_gpu_time(now),
            ev.GpuTimeReported: lambda now, event, out: self.gpus[event.gpu].note_gpu_time(now, event),
            ev.MemoryHeld: lambda now, event, out: self._live_shrink.note_held(event),
            ev.MemoryModeReported: lambda now, event, out: self._decisions.note_memory_mode(event.client, event.mode),
            ev.CollectivesUsed: lambda now, event, out: self._decisions.note_collectives(event.client),
            ev.LetFinished: lambda now, event, out: self.gangs.let_finished(now, *to_change(event.client, event.gpu)),
            ev.WorkFinished: self._note_finished,
            ev.WorkResumed: lambda now, event, out: to_change(event.client, event.gpu)[0].work_resumed(now, event),
            ev.BudgetAsked: self._note_asked,
            ev.BudgetReturned: lambda now, event, out: self._limits.budget_returned(now, event),
            ev.SchedulingSwitched: self._note_switched,
            ev.LimitSet: lambda now, event, out: self._limits.limit_set(event, out),
            ev.PodRemoved: lambda now, event, out: self._limits.groups.removed(POD_PREFIX + event.pod, out),
            ev.ProcessEnded: lambda now, event, out: self._limits.groups.removed(event.group, out),
            ev.PodsListed: lambda now, event, out: self._limits.pods_listed(out),
            ev.ClaimEnded: lambda now, event, out: self._limits.groups.claim_ended(event.uid),
            ev.GpuFound: lambda now, event, out: self._touched(event.gpu).found(event),
            ev.MemoryMeasured: lambda now, event, out: self._touched(event.gpu).set_measured(event),
            ev.UtilizationMeasured: lambda now, it, out: self.gpus[it.gpu].utilization.measured(now, it.percent),
            ev.HostMemoryMeasured: self._note_host_measured,
            ev.ServingBegan: self._note_serving,
            ev.AlarmRang: self._note_alarm,
            **self.orders.notes,
        }

    def handle(self, now: int, event: ev.Event) -> list[Action]:
        """What to do about an event. If `now` is earlier than in the last call, the time of that call counts."""
        now = self._now = max(self._now, now)
        out: list[Action] = []
        if self._settles_at is not None and now >= self._settles_at:
            self._end_settling(out)
        self._notes[type(event)](now, event, out)
        if self.unheard:
            self._hear(now, event)
        if self._registering is not None:
            self._answer_registration(now, self._registering, out)
        is_settling = self._settles_at is not None
        limits = self._limits
        if limits.touched or limits.over:
            self._live_shrink.decide(out, is_settling=is_settling)
        for gpu in self._decisions.decide(now, out, is_settling=is_settling):  # without clients
            if not gpu.memory.is_known and not self.orders.concern(now, gpu):
                self.gpus.pop(gpu.uuid, None)
        if limits.touched:
            limits.decide(now, out, is_settling=is_settling)
        return out

    def next_deadline(self) -> int | None:
        """When something will follow from the passing of time alone; None: never."""
        if self._live_shrink.has_more:
            return self._now
        deadline = self.gangs.deadline if self._settles_at is None else min(self.gangs.deadline, self._settles_at)
        for gpu in self.gpus.values():
            if gpu.deadline < deadline:
                deadline = gpu.deadline
        alarm = self._limits.alarms.next
        if alarm is not None and alarm < deadline:
            return alarm
        return deadline if deadline != NEVER else None

    @property
    def groups(self) -> dict[str, Group]:
        """The groups that share a limit, by key."""
        return self._limits.groups.by_key

    @property
    def is_settling(self) -> bool:
        """True in the first seconds after a restart, while earlier clients may still claim their locks."""
        return self._settles_at is not None

    # Decide and check.

    def _answer_registration(self, now: int, client: Client, out: list[Action]) -> None:
        """A client that is accepted knows its limits and capacity: they are sent before the answer, locks after it."""
        limits: list[Action] = []
        for uuid, seat in client.seats.items():
            self.gpus[uuid].notices.tell_capacity(seat, limits)
        self._limits.decide_on_group(now, client.group, limits, is_settling=self.is_settling)
        out[:0] = [*limits, AcceptClient(client.id, self.is_scheduling)]
        self._registering = None

    def _end_settling(self, out: list[Action]) -> None:
        self._settles_at = None
        for gpu in self.gpus.values():
            gpu.turns.settling_ended()
            self._touch(gpu)
        self._limits.settling_ended(out)

    def _gpu(self, uuid: str) -> Gpu:
        gpu = self.gpus.get(uuid)
        if gpu is None:
            gpu = self.gpus[uuid] = Gpu(uuid, self.settings, self._numbers, self.unheard)
            self.orders.found(gpu)
        return gpu

    def _seat_to_change(self, client: int, uuid: str) -> tuple[Gpu, Seat]:
        """A client's seat, to be changed: the step ends with a decision on the GPU."""
        gpu = self._decisions.touched[uuid] = self.gpus[uuid]
        return gpu, self.clients[client].seats[uuid]

    # Clients come and go.

    def _note_registered(self, now: int, event: ev.ClientRegistered, out: list[Action]) -> None:
        assert event.client not in self.clients, "a client registers once"
        group = self._limits.groups.registered(event, is_settling=self.is_settling)
        client = self.clients[event.client] = Client(event, group)
        for claim in event.claims:
            self._note_joined(event, client, claim)
        self._limits.registered(client)
        for claim in event.claims if self.is_scheduling else ():
            if claim.lock or claim.unshared:  # With the weight and the priority of its group.
                turns = self.gpus[claim.gpu].turns
                turns.claimed(now, client.seats[claim.gpu], claim.lock, out, is_settling=self.is_settling)
        self.orders.registered(now, client)
        self._registering = client

    def _note_joined(self, event: ev.ClientRegistered, client: Client, claim: Claim) -> None:
        assert claim.gpu not in client.seats, "a client names a GPU once"
        gpu = self._gpu(claim.gpu)
        gpu.joined(client.id, claim.size)
        seat = client.seats[claim.gpu] = client.new_seat(event)
        gpu.turns.joined(seat, claim.memory)
        self._touch(gpu)
        self._limits.joined(client, claim)
        self._live_shrink.note_memory(client.group.limits[claim.gpu], seat)

    def _note_left(self, now: int, event: ev.ClientLeft, out: list[Action]) -> None:
        client = self.clients.pop(event.client)
        self.unheard.discard(event.client)
        for uuid, seat in client.seats.items():
            self._touch(gpu := self.gpus[uuid])
            self.gangs.unlink(now, uuid, seat)
            gpu.turns.left(now, seat, out)
            gpu.left(now, seat)
            self._live_shrink.note_left(client.group.limits[uuid], seat)
        self.gangs.collectives.left(client)
        self.orders.left(now, client)
        self._limits.left(client, out)

    def _note_mover(self, now: int, event: ev.MoverReported, out: list[Action]) -> None:
        self._seat_to_change(event.client, event.gpu)[0].note_mover(event)
        self._live_shrink.note_mover(event)

    # Turns.

    def _note_silent(self, now: int, event: ev.ClientSilent, out: list[Action]) -> None:
        for uuid, seat in self.clients[event.client].seats.items():
            self._seat_to_change(event.client, uuid)[0].turns.fell_silent(now, seat, out)

    def _hear(self, now: int, event: ev.Event) -> None:
        """Whatever a client says, its process runs: it is no longer silent, on any GPU."""
        client = getattr(event, "client", None)
        if client not in self.unheard or type(event) is ev.ClientSilent:
            return
        self.unheard.discard(client)
        for uuid, seat in self.clients[client].seats.items():
            if seat.state == "silent":
                self._seat_to_change(client, uuid)[0].turns.heard(now, seat)

    def _note_requested(self, now: int, event: ev.LockRequested, out: list[Action]) -> None:
        gpu, seat = self._seat_to_change(event.client, event.gpu)
        self._note_used(gpu, seat, event, out)
        if self.is_scheduling:
            gpu.turns.requested(now, seat)
            client = self.clients[event.client]
            if client.may_be_in_gang:
                self._decisions.note_request(client)

    def _note_released(self, now: int, event: ev.LockReleased, out: list[Action]) -> None:
        client = self.clients[event.client]
        gpu = self._decisions.touched[event.gpu] = self.gpus[event.gpu]  # As _seat_to_change, without a call.
        gpu.turns.released(now, client.seats[event.gpu], event.lock, event.again, out)
        if client.may_be_in_gang:
            self._decisions.note_request(client)

    def _note_finished(self, now: int, event: ev.WorkFinished, out: list[Action]) -> None:
        gpu, seat = self._seat_to_change(event.client, event.gpu)
        gpu.turns.work_finished(now, seat)
        self.gangs.member_paused(seat)

    def _note_used(self, gpu: Gpu, seat: Seat, event: ev.LockRequested | ev.MemoryChanged, out: list[Action]) -> None:
        if seat.reported != event.memory:
            if seat.reported.contexts and not event.memory.contexts:
                self.gangs.unlink(self._now, event.gpu, seat)
            gpu.turns.reports.reported(seat, event.memory)
            gpu.notices.tell_capacity(seat, out)
            self._live_shrink.note_memory(self.clients[event.client].group.limits[event.gpu], seat)
        self._limits.used(self._now, self.clients[event.client], event.gpu, event.memory.used)

    # Limits.

    def _note_asked(self, now: int, event: ev.BudgetAsked, out: list[Action]) -> None:
        self.gpus[event.gpu].notices.tell_capacity(self.clients[event.client].seats[event.gpu], out)
        self._limits.budget_asked(now, event)

    # The operator; most orders are noted by core.orders.

    def _note_switched(self, now: int, event: ev.SchedulingSwitched, out: list[Action]) -> None:
        if event.on == self.is_scheduling:
            return
        self.is_scheduling = event.on
        self.gangs.dissolve(now)
        for gpu in self.gpus.values():
            gpu.turns.scheduling_switched(now, out)
            self._touch(gpu)
        out.extend(SwitchScheduling(client, event.on) for client in self.clients)

    # The machine.

    def _note_serving(self, now: int, event: ev.ServingBegan, out: list[Action]) -> None:
        if self._settles_at is not None:
            self._settles_at = now + self.settings.settle_ns

    def _touched(self, uuid: str) -> Gpu:
        self._touch(gpu := self._gpu(uuid))
        return gpu

    def _note_host_measured(self, now: int, event: ev.HostMemoryMeasured, out: list[Action]) -> None:
        for host in (host for host in event.rooms if host.client in self.clients):
            gpu, seat = self._seat_to_change(host.client, host.gpu)
            gpu.host_measured(seat, host.room)

    def _note_alarm(self, now: int, event: ev.AlarmRang, out: list[Action]) -> None:
        self._decisions.touch_due(now)
        self._limits.alarm_rang(now)

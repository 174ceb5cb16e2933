"""A simulated program: runs its job through a gate (schedsim.gates)."""

from collections import deque
from typing import Literal, Protocol

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.limits.group_names import RUN_PREFIX
from nvshare.core.model import SECOND, UNLIMITED, HostRoom
from nvshare.schedsim.card import Card
from nvshare.schedsim.gate import Simulation
from nvshare.schedsim.gates import GATES, GateName
from nvshare.schedsim.jobs import Job

Doing = Literal["starting", "computing", "loading", "waiting", "thinking"]
End = Literal["finished", "refused", "killed"]
"""It did all its work; its allocation was refused (CUDA's out of memory); more of its memory was on the host than its
owner may have there."""


class ObservedSimulation(Simulation, Protocol):
    """What a program needs of the simulation that it is part of."""

    may_oversubscribe: bool
    """Programs may allocate more than a card has for them."""
    is_host_counted: bool
    """The scheduler measures what the host can take of programs' memory."""

    def note_doing(self, key: int, doing: Doing | None) -> None:
        """What a program does from now on; None: it has ended."""


class Program:
    """One process. Its key is its client id, `places` are its cards by UUID: the names that the scheduler knows."""

    def __init__(
        self, key: int, job: Job, places: dict[str, Card], gate: GateName, machine: ObservedSimulation
    ) -> None:
        self.key = key
        self.job = job
        self.name, self.group = job.name, f"{RUN_PREFIX}{key}"
        self.gpus, self.cards = list(places), list(places.values())
        self.memory = job.memory
        self.working_set = job.working_set
        self.card_sizes = [card.model.size for card in self.cards]
        self.may_oversubscribe = machine.may_oversubscribe
        self.priority, self.weight = job.priority, job.weight
        self.end: End | None = None
        self.blocked: ac.ReportBlocked | None = None
        """The last time that it waited because the host could not take memory of another one."""
        self.longest_wait = 0
        self.turns = 0
        self.most_held = 0
        """The most that it kept on the host because of a limit, on one card."""
        self.responses: list[int] = []
        """If the job is interactive, how long each GPU phase took, from when there was work until it was done."""
        self.pause_s = 0.0
        """The length of the present pause, or else the last one."""
        self.stands_at: int | None = None
        self.gate = GATES[gate](self, machine)
        self._machine = machine
        self._limits = deque(limit for _, limit in job.limits)
        self._phases: deque[tuple[float, float]] = deque(job.phases)
        self._work: list[float | None] = [None] * len(places)
        """What is left of the present GPU phase at each card; None: nothing."""
        self._computes = [False] * len(places)
        self._waits_since: int | None = None
        self._wanted_at = 0
        self._loads: list[tuple[int, float] | None] = [None] * len(places)
        """When the memory that is brought back in bulk began to come, and how much of it was on the card then."""

    def has_work(self, gpu: int) -> bool:
        return self._computes[gpu] or self.stands_at == gpu

    # What the program does.

    def start(self) -> None:
        self.gate.start()
        self._machine.note_doing(self.key, "starting")
        for after_s, _ in self.job.limits:
            self._later(after_s, "change_limit")
        # A nanosecond later at the earliest: its registration is answered before it allocates.
        self._later(max(self.job.startup_s, 1 / SECOND), "allocate")

    def allocate(self) -> None:
        if self.gate.allocate():
            self.compute()
        else:
            self.leave("refused")

    def change_limit(self) -> None:
        """An operator sets the limit of its group."""
        self._machine.post(ev.LimitSet(self.group, self._limits.popleft() or None))

    def compute(self) -> None:
        """The next GPU phase begins."""
        self._work, self._wanted_at = [self._phases[0][0]] * len(self.cards), self._machine.now
        self._submit()
        for gpu in range(len(self.cards)):
            if self.has_work(gpu):
                self.gate.want(gpu)

    def finish(self, card: Card) -> None:
        """All work of a GPU phase is done at one of its cards."""
        gpu = self.cards.index(card)
        card.pause(self._machine.now, self.key)
        self._work[gpu], self._computes[gpu] = None, False
        self.gate.used()
        if any(work is not None for work in self._work):
            self.gate.rest(gpu)
            self._note_doing()
            return
        if self.job.is_interactive:
            self.responses.append(self._machine.now - self._wanted_at)
        self.pause_s = self._phases.popleft()[1]
        self.gate.rest(gpu)
        self._machine.note_doing(self.key, "thinking")
        self._later(self.pause_s, "think_no_more")

    def think_no_more(self) -> None:
        if self._phases:
            self.compute()
            return
        self.leave("finished")

    def leave(self, end: End) -> None:
        self.end = end
        self._machine.note_doing(self.key, None)
        self._machine.post(ev.ClientLeft(self.key))

    def hear(self, action: ac.Action) -> None:
        if isinstance(action, ac.GiveLock):
            self.turns += 1
            self._measure_host(action.gpu)
        elif isinstance(action, ac.ReportBlocked):
            self.blocked = action
        self.gate.hear(action)

    def _measure_host(self, gpu: str) -> None:
        """It has memory on the card from its first turn on; the scheduler then looks what the host can take of it."""
        room = self.job.host_memory
        if room is not None and self._machine.is_host_counted:
            room = UNLIMITED if room >= self.memory else room
            self._machine.post(ev.HostMemoryMeasured((HostRoom(self.key, gpu, room),)))

    def look_at_loads(self) -> None:
        """Whether all its memory is on a card whose memory was not."""
        for gpu, load in enumerate(self._loads):
            if load is not None and not self.cards[gpu].is_loading(self.key):
                self._loads[gpu] = None
                began, resident = load
                moved = self.cards[gpu].tenants[self.key].wanted - resident
                self.gate.loaded(gpu, round(moved), self._machine.now - began)
        if not self._is_loading:
            self.gate.used()
            self._machine.note_doing(self.key, "computing")

    def push_out(self, gpu: int, size: int) -> int | None:
        """Memory begins to move to the host; when that will have taken place."""
        return self.cards[gpu].push_out(self._machine.now, self.key, size)

    def pushed_out(self, gpu: int) -> tuple[int, int]:
        """How much has moved to the host, and how long that took."""
        moved = self.cards[gpu].pushed_out(self._machine.now, self.key)
        return round(moved), self.cards[gpu].push_ns(moved)

    def left_on_card(self, gpu: int) -> int:
        """What is on the card of its memory; of what it never used there is nothing."""
        return round(self.cards[gpu].tenants[self.key].resident)

    def hold_ns(self, gpu: int, size: int) -> int:
        """How long it takes until so much is kept on the host; what may come back does so when it is needed."""
        tenant = self.cards[gpu].tenants[self.key]
        return self.cards[gpu].push_ns(max(0.0, tenant.resident - tenant.size + self._held_of_used(size)))

    def hold(self, gpu: int, size: int) -> None:
        """So much is kept on the host: first what it has and does not use."""
        self.most_held = max(self.most_held, size)
        self.cards[gpu].hold(self._machine.now, self.key, self._held_of_used(size))
        if any(self._computes):
            self._note_doing()

    def _held_of_used(self, size: int) -> int:
        return max(0, size - (self.memory - self.job.used))

    # What its gate does.

    def gate_opened(self, gpu: int) -> None:
        self._submit()

    def gate_closed(self, gpu: int) -> None:
        if self._computes[gpu]:
            self._work[gpu] = self.cards[gpu].pause(self._machine.now, self.key)
            self._computes[gpu], self._loads[gpu] = False, None
        self._submit()

    # Small steps.

    def _submit(self) -> None:
        """The thread submits what is left, card by card, up to the first closed gate."""
        self.stands_at = None
        for gpu, work in enumerate(self._work):
            if work is None or self._computes[gpu]:
                continue
            if not self.gate.is_open(gpu):
                self.stands_at = gpu
                break
            self._begin(gpu, work)
        self._note_wait()
        if any(work is not None for work in self._work):
            self._note_doing()

    def _begin(self, gpu: int, work: float) -> None:
        card = self.cards[gpu]
        tenant = card.tenants[self.key]
        if card.model.link is not None and tenant.is_loading and tenant.touched == tenant.size:
            self._loads[gpu] = (self._machine.now, tenant.resident)
        card.begin(self._machine.now, self.key, work)
        self._computes[gpu] = True

    def _note_wait(self) -> None:
        if self.stands_at is not None:
            self._waits_since = self._machine.now if self._waits_since is None else self._waits_since
        elif self._waits_since is not None:
            self.longest_wait = max(self.longest_wait, self._machine.now - self._waits_since)
            self._waits_since = None

    def _note_doing(self) -> None:
        computes: Doing = "loading" if self._is_loading else "computing"
        self._machine.note_doing(self.key, computes if any(self._computes) else "waiting")

    @property
    def _is_loading(self) -> bool:
        cards = zip(self.cards, self._computes, strict=True)
        return any(computes and card.is_loading(self.key) for card, computes in cards)

    def _later(self, seconds: float, method: str) -> None:
        self._machine.call_at(self._machine.now + round(seconds * SECOND), (self.key, method))

"""A simulated program: runs its job through a gate (schedsim.gates)."""

from collections import deque
from typing import Literal, Protocol

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import SECOND
from nvshare.schedsim.card import Card
from nvshare.schedsim.gates import GATES, GateName, Simulation
from nvshare.schedsim.jobs import Job

Doing = Literal["starting", "computing", "loading", "waiting", "thinking"]


class ObservedSimulation(Simulation, Protocol):
    """What a program needs of the simulation that it is part of."""

    def note_doing(self, key: int, doing: Doing | None) -> None:
        """What a program does from now on; None: it has ended."""


class Program:
    """One process. Its key is its client id, `places` are its cards by UUID: the names that the scheduler knows."""

    def __init__(
        self, key: int, job: Job, places: dict[str, Card], gate: GateName, machine: ObservedSimulation
    ) -> None:
        self.key = key
        self.job = job
        self.name = job.name
        self.gpus, self.cards = list(places), list(places.values())
        self.memory = job.memory
        self.working_set = job.working_set
        self.card_sizes = [card.model.size for card in self.cards]
        self.priority, self.weight = job.priority, job.weight
        self.is_finished = False
        self.longest_wait = 0
        self.turns = 0
        self.responses: list[int] = []
        """If the job is interactive, how long each GPU phase took, from when there was work until it was done."""
        self.pause_s = 0.0
        """The length of the present pause, or else the last one."""
        self.stands_at: int | None = None
        self.gate = GATES[gate](self, machine)
        self._machine = machine
        self._phases: deque[tuple[float, float]] = deque(job.phases)
        self._work: list[float | None] = [None] * len(places)
        """What is left of the present GPU phase at each card; None: nothing."""
        self._computes = [False] * len(places)
        self._waits_since = self._wanted_at = 0
        self._loads: list[tuple[int, float] | None] = [None] * len(places)
        """When the memory that is brought back in bulk began to come, and how much of it was on the card then."""

    def has_work(self, gpu: int) -> bool:
        return self._computes[gpu] or self.stands_at == gpu

    # What the program does.

    def start(self) -> None:
        self.gate.start()
        self._machine.note_doing(self.key, "starting")
        self._later(self.job.startup_s, "compute")

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
        self.is_finished = True
        self._machine.note_doing(self.key, None)
        self._machine.post(ev.ClientLeft(self.key))

    def hear(self, action: ac.Action) -> None:
        self.turns += isinstance(action, ac.GiveLock)
        self.gate.hear(action)

    def look_at_loads(self) -> None:
        """Whether all its memory is on a card whose memory was not."""
        for gpu, load in enumerate(self._loads):
            if load is not None and not self.cards[gpu].is_loading(self.key):
                self._loads[gpu] = None
                began, resident = load
                self.gate.loaded(gpu, round(self.job.used - resident), self._machine.now - began)
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
            self._waits_since = self._waits_since or self._machine.now
        elif self._waits_since:
            self.longest_wait = max(self.longest_wait, self._machine.now - self._waits_since)
            self._waits_since = 0

    def _note_doing(self) -> None:
        computes: Doing = "loading" if self._is_loading else "computing"
        self._machine.note_doing(self.key, computes if any(self._computes) else "waiting")

    @property
    def _is_loading(self) -> bool:
        cards = zip(self.cards, self._computes, strict=True)
        return any(computes and card.is_loading(self.key) for card, computes in cards)

    def _later(self, seconds: float, method: str) -> None:
        self._machine.call_at(self._machine.now + round(seconds * SECOND), (self.key, method))

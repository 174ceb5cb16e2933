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
    """One process. Its key is its client id."""

    def __init__(self, key: int, job: Job, card: Card, gpu: str, gate: GateName, machine: ObservedSimulation) -> None:
        self.key = key
        self.job = job
        self.name = job.name
        self.gpu = gpu
        """The card's name to the scheduler: its UUID."""
        self.memory = job.memory
        self.card_size = card.model.size
        self.priority, self.weight = job.priority, job.weight
        self.moves_in_bulk = card.model.link is not None
        self.is_finished = False
        self.longest_wait = 0
        self.turns = 0
        self.responses: list[int] = []
        """If the job is interactive, how long each GPU phase took, from when there was work until it was done."""
        self.pause_s = 0.0
        """The length of the present pause, or else the last one."""
        self.gate = GATES[gate](self, machine)
        self._card = card
        self._machine = machine
        self._phases: deque[tuple[float, float]] = deque(job.phases)
        self._work: float | None = None
        """What is left of the present GPU phase; None between two."""
        self._waits_since = self._wanted_at = 0
        self._loads: tuple[int, float] | None = None
        """When the memory that is brought back began to come, and how much of it was on the card then."""

    @property
    def has_work(self) -> bool:
        return self._work is not None

    # What the program does.

    def start(self) -> None:
        self.gate.start()
        self._machine.note_doing(self.key, "starting")
        self._later(self.job.startup_s, "compute")

    def compute(self) -> None:
        """The next GPU phase begins."""
        self._work, self._wanted_at = self._phases[0][0], self._machine.now
        self.gate.want()
        if self.gate.is_open:
            self._begin()
        else:
            self._note_waiting()

    def finish_phase(self) -> None:
        """All work of a GPU phase is done."""
        self._card.pause(self._machine.now, self.key)
        self._work = None
        if self.job.is_interactive:
            self.responses.append(self._machine.now - self._wanted_at)
        self.pause_s = self._phases.popleft()[1]
        self.gate.rest()
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

    def loaded(self) -> None:
        """All its memory is on the card."""
        if self._loads is not None:
            began, resident = self._loads
            self._loads = None
            self.gate.loaded(round(self.memory - resident), self._machine.now - began)

    # What its gate does.

    def gate_opened(self) -> None:
        if self._work is not None:
            self._begin()

    def gate_closed(self) -> None:
        if self._work is not None:
            self._work = self._card.pause(self._machine.now, self.key)
            self._loads = None
            self._note_waiting()

    # Small steps.

    def _begin(self) -> None:
        assert self._work is not None
        if self._waits_since:
            self.longest_wait = max(self.longest_wait, self._machine.now - self._waits_since)
            self._waits_since = 0
        tenant = self._card.tenants[self.key]
        if tenant.is_loading and tenant.touched == tenant.size:
            self._loads = (self._machine.now, tenant.resident)
        self._card.begin(self._machine.now, self.key, self._work)
        self._machine.note_doing(self.key, "loading" if self._card.is_loading(self.key) else "computing")

    def _note_waiting(self) -> None:
        self._waits_since = self._waits_since or self._machine.now
        self._machine.note_doing(self.key, "waiting")

    def _later(self, seconds: float, method: str) -> None:
        self._machine.call_at(self._machine.now + round(seconds * SECOND), (self.key, method))

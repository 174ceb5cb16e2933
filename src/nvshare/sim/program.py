"""A simulated program: runs its job through libnvshare's gate, as docs/protocol.md describes it.

Three gates are known. `nvshare`: ours. `classic`: the one of the thesis, where the lock is exclusive (so the client
claims the whole card), nobody says IDLE, and a holder looks every five seconds whether it has worked since the last
look and gives the lock back if not. `none`: no gate at all."""

from collections import deque
from typing import Literal, Protocol

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import MILLISECOND, SECOND, Memory
from nvshare.sim.card import Card
from nvshare.sim.jobs import Job

Gate = Literal["nvshare", "classic", "none"]
Doing = Literal["starting", "computing", "loading", "waiting", "thinking"]

DRAIN_NS = 5 * MILLISECOND
"""From DROP_LOCK until the last kernels have finished."""
CLASSIC_LOOK_NS = 5 * SECOND


class Surroundings(Protocol):
    """What a program needs of the machine it runs on."""

    now: int

    def post(self, event: ev.Event) -> None:
        """Tell the scheduler something, after all that was said before."""

    def call_at(self, when: int, call: tuple[int, str]) -> None:
        """Call a method of the program with this key later."""

    def note_doing(self, key: int, doing: Doing | None) -> None:
        """What a program does from now on; None: it has ended."""


class Program:
    """One process. Its key is its client id."""

    def __init__(self, key: int, job: Job, card: Card, gate: Gate, machine: Surroundings) -> None:
        self.key = key
        self.job = job
        self.gate = gate
        self.lock = 0
        self.is_finished = False
        self.longest_wait = 0
        self.turns = 0
        self._card = card
        self._machine = machine
        self._phases: deque[tuple[float, float]] = deque(job.phases)
        self._work: float | None = None
        """What is left of the present GPU phase; None between two."""
        self._draining = 0
        self._is_waiting = False
        self._waits_since = 0
        self._is_contended = False
        self._is_idle = False
        self._worked = False
        self._looks_at = 0

    @property
    def memory(self) -> Memory:
        if self.gate == "classic":
            return Memory(swappable=self._card.model.size)
        return Memory(swappable=self.job.memory, contexts=1)

    # What it does of its own accord.

    def start(self) -> None:
        self._machine.note_doing(self.key, "starting")
        self._later(self.job.startup_s, "compute")

    def compute(self) -> None:
        """The next GPU phase begins."""
        self._work = self._phases[0][0]
        if self.gate == "none":
            self._begin()
        elif self.lock:
            if self._is_idle:
                self._is_idle = False
                self._machine.post(ev.WorkResumed(self.key, self.job.gpu))
            self._begin()
        else:
            self._note_waiting()
            if not self._draining and not self._is_waiting:
                self._is_waiting = True
                self._machine.post(ev.LockRequested(self.key, self.job.gpu, self.memory))

    def finish_phase(self) -> None:
        """All work of a GPU phase is done."""
        self._card.pause(self._machine.now, self.key)
        self._work = None
        self._say_idle()
        self._machine.note_doing(self.key, "thinking")
        self._later(self._phases.popleft()[1], "think_no_more")

    def think_no_more(self) -> None:
        if self._phases:
            self.compute()
            return
        self.is_finished = True
        self._machine.note_doing(self.key, None)
        self._machine.post(ev.ClientLeft(self.key))

    def release(self) -> None:
        """The last kernels before a drop have finished."""
        if not self._draining or self.is_finished:
            return
        again = self._work is not None
        self._machine.post(ev.LockReleased(self.key, self.job.gpu, self._draining, again))
        self._draining, self._is_waiting = 0, again

    def look(self) -> None:
        """The classic gate's look at whether there was work since the last one."""
        if self._machine.now != self._looks_at or not self.lock or self.is_finished:
            return
        if self._worked or self._work is not None:
            self._worked = self._work is not None
            self._look_later()
        else:
            self._draining, self.lock = self.lock, 0
            self.release()

    # What it hears.

    def hear(self, action: ac.Action) -> None:
        match action:
            case ac.GiveLock():
                self._hear_given(action)
            case ac.DropLock() if action.lock == self.lock:
                self.lock, self._draining, self._is_idle = 0, self.lock, False
                if self._work is not None:
                    self._work = self._card.pause(self._machine.now, self.key)
                    self._note_waiting()
                self._machine.call_at(self._machine.now + DRAIN_NS, (self.key, "release"))
            case ac.TellContended():
                self._is_contended, self._is_idle = action.contended, False
                self._say_idle()
            case _:
                pass

    def _hear_given(self, action: ac.GiveLock) -> None:
        self.lock, self._is_waiting, self._is_idle = action.lock, False, False
        self._draining, self._is_contended = 0, action.contended
        self.turns += 1
        if self._work is not None:
            self._begin()
        else:
            self._say_idle()
        if self.gate == "classic":
            self._worked = True
            self._look_later()

    # Small steps.

    def _begin(self) -> None:
        assert self._work is not None
        if self._waits_since:
            self.longest_wait = max(self.longest_wait, self._machine.now - self._waits_since)
            self._waits_since = 0
        self._card.begin(self._machine.now, self.key, self._work)
        self._worked = True
        self._machine.note_doing(self.key, "loading" if self._card.is_loading(self.key) else "computing")

    def _note_waiting(self) -> None:
        self._waits_since = self._waits_since or self._machine.now
        self._machine.note_doing(self.key, "waiting")

    def _say_idle(self) -> None:
        if self.gate == "nvshare" and self.lock and self._is_contended and self._work is None and not self._is_idle:
            self._is_idle = True
            self._machine.post(ev.WorkFinished(self.key, self.job.gpu))

    def _look_later(self) -> None:
        self._looks_at = self._machine.now + CLASSIC_LOOK_NS
        self._machine.call_at(self._looks_at, (self.key, "look"))

    def _later(self, seconds: float, method: str) -> None:
        self._machine.call_at(self._machine.now + round(seconds * SECOND), (self.key, method))

"""A client process: threads that want the GPU and memory, the helper thread behind them, and a connection or none."""

from typing import Protocol

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import MILLISECOND, SECOND, Claim
from nvshare.sim.worlds.gate import State
from nvshare.sim.worlds.place import Place

JOIN_NS = SECOND
ORPHAN_WAIT_NS = 5 * SECOND
REPORT_NS = 10 * MILLISECOND


class Connection:
    """One connection's life. Messages on a closed one are lost."""

    __slots__ = ("client", "epoch", "heard_at", "is_open", "is_registered", "said_at")

    def __init__(self, client: int, epoch: int) -> None:
        self.client = client
        self.epoch = epoch
        self.is_open = True
        self.is_registered = False
        self.said_at = 0
        self.heard_at = 0


class Outside(Protocol):
    """What a process needs of its world."""

    now: int
    card: int

    def say(self, process: "Process", event: ev.Event) -> None:
        """Send something to the scheduler."""

    def later(self, delay_ns: int, process: "Process", method: str, gpu: str) -> None:
        """Call a method of a process that is still alive, and not stopped, later."""

    def drain_time(self, process: "Process") -> int:
        """How long the kernels under way still take."""


class Process:
    """Everything between one program's threads and the scheduler. Only `hear` and methods called by the world act."""

    def __init__(self, pid: int, group: str, own_limit: int, gpus: list[str], world: Outside) -> None:
        self.pid = pid
        self.group = group
        self.own_limit = own_limit
        self.places = {gpu: Place(own_limit) for gpu in gpus}
        self.connection: Connection | None = None
        self.is_stopped = False
        self.asks = 0
        self._lost_at = -ORPHAN_WAIT_NS
        self._world = world

    # The connection.

    @property
    def is_registered(self) -> bool:
        return self.connection is not None and self.connection.is_registered

    def registration(self) -> ev.ClientRegistered:
        assert self.connection is not None
        claims = []
        for gpu, place in self.places.items():
            state = place.turn.claim()
            place.told = place.memory
            claims.append(
                Claim(
                    gpu,
                    self._world.card,
                    lock=place.turn.lock if state is State.HOLDING else 0,
                    unshared=state is State.UNSHARED,
                    memory=place.memory,
                    limit=place.account.limit,
                    budget=place.account.budget,
                )
            )
        return ev.ClientRegistered(
            self.connection.client, self.group, self.group, f"p{self.pid}", tuple(claims), own_limit=self.own_limit
        )

    def lose(self) -> None:
        """The connection is gone."""
        self.connection = None
        self._lost_at = self._world.now
        for gpu, place in self.places.items():
            place.turn.lost()
            place.is_idle_told = False
            place.needs = 0
            self._world.later(ORPHAN_WAIT_NS, self, "lose_patience", gpu)

    def run_alone(self, gpu: str) -> None:
        """The scheduler has not answered in time."""
        place = self.places[gpu]
        if not self.is_registered and place.turn.state is State.JOINING:
            place.turn.expired()
            self._go_on(gpu)

    def lose_patience(self, gpu: str) -> None:
        place = self.places[gpu]
        if not self.is_registered and place.has_work and self._world.now - self._lost_at >= ORPHAN_WAIT_NS:
            place.turn.expired()
            self._go_on(gpu)

    # What its threads do.

    def work(self, gpu: str) -> None:
        place = self.places[gpu]
        place.has_work = True
        self._enter(gpu)
        if place.turn.is_open:
            place.worked += 1
            if place.is_idle_told:
                place.is_idle_told = False
                self._say(ev.WorkResumed(self._id, gpu))
        elif place.turn.want():
            self._request(gpu, place)

    def rest(self, gpu: str) -> None:
        """All work is done, unless it could not begin."""
        place = self.places[gpu]
        if place.turn.is_open:
            place.has_work = False
            self.look_idle(gpu)

    def look_idle(self, gpu: str) -> None:
        place = self.places[gpu]
        turn = place.turn
        if turn.state is State.HOLDING and turn.contended and not place.has_work and not place.is_idle_told:
            place.is_idle_told = True
            self._say(ev.WorkFinished(self._id, gpu))

    def end_contexts(self, gpu: str) -> None:
        """The program is through with this GPU, for now; a thread at the gate stays there."""
        place = self.places[gpu]
        place.contexts = 0
        place.has_work = place.has_waiters
        self.free(gpu, 1)
        self.look_at_contexts(gpu)

    def look_at_contexts(self, gpu: str) -> None:
        """As turns.c does: who has no context gives its lock back, unless there is nobody to give it to."""
        place = self.places[gpu]
        if place.had_contexts and not place.contexts and not place.has_waiters:
            if not self.is_registered:
                return
            if place.turn.give_back():
                self._drain(gpu)
        place.had_contexts = place.contexts > 0

    def allocate(self, gpu: str, size: int) -> None:
        place = self.places[gpu]
        if place.needs:
            return
        self._enter(gpu)
        if place.account.reserve(size) is None and self.is_registered:
            place.needs = size
            self.asks += 1
            self._say(ev.BudgetAsked(self._id, gpu, self.asks, place.account.used + size))
        self._report_later(gpu)

    def free(self, gpu: str, share: int) -> None:
        """Free one part in `share` of what is allocated."""
        account = self.places[gpu].account
        account.free(account.used // share)
        self._report_later(gpu)

    def report(self, gpu: str) -> None:
        place = self.places[gpu]
        place.is_reporting = False
        if place.told != place.memory and self.is_registered:
            place.told = place.memory
            self._say(ev.MemoryChanged(self._id, gpu, place.memory))

    def release(self, gpu: str) -> None:
        """The last kernels before a drop have finished."""
        place = self.places[gpu]
        lock = place.turn.drained(place.has_work)
        if lock is not None:
            self._say(ev.LockReleased(self._id, gpu, lock, place.has_work))

    # What it hears.

    def hear(self, action: ac.Action) -> None:
        self._act_on(action)
        for gpu in self.places:
            self.look_at_contexts(gpu)

    def _act_on(self, action: ac.Action) -> None:
        match action:
            case ac.AdmitClient():
                assert self.connection is not None
                self.connection.is_registered = True
                self._switch(action.scheduling, first=True)
            case ac.SwitchScheduling():
                self._switch(action.on, first=False)
            case ac.GiveLock():
                self._hear_given(action)
            case ac.DropLock():
                if self.places[action.gpu].turn.drop(action.lock):
                    self._drain(action.gpu)
            case ac.TellContended():
                place = self.places[action.gpu]
                place.turn.contended, place.is_idle_told = action.contended, False
                self.look_idle(action.gpu)
            case ac.UpdateLimit():
                self.places[action.gpu].account.limit = action.limit
            case ac.GiveBudget():
                self._hear_budget(action)
            case ac.RecallBudget():
                account = self.places[action.gpu].account
                account.recall(action.keep)
                self._say(ev.BudgetReturned(self._id, action.gpu, action.serial, account.budget, account.used))
            case _:
                pass

    def _hear_given(self, action: ac.GiveLock) -> None:
        place = self.places[action.gpu]
        was_open = place.turn.is_open
        place.turn.given(action.lock, action.contended)
        place.is_idle_told = False
        if not was_open:
            self._go_on(action.gpu)
        self.look_idle(action.gpu)

    def _hear_budget(self, action: ac.GiveBudget) -> None:
        place = self.places[action.gpu]
        if action.serial:
            place.account.grant(action.budget)
        if action.ask and action.ask == self.asks and place.needs:
            size, place.needs = place.needs, 0
            place.account.reserve(size)
            self._report_later(action.gpu)

    def _switch(self, is_on: bool, *, first: bool) -> None:
        for gpu, place in self.places.items():
            was_open = place.turn.is_open
            if is_on:
                place.turn.scheduling_on(first)
            else:
                place.turn.scheduling_off()
            place.is_idle_told = False
            if place.turn.is_open and not was_open:
                self._go_on(gpu)
            elif place.has_work and place.turn.want():
                self._request(gpu, place)
            self._report_later(gpu)

    # Small steps.

    @property
    def _id(self) -> int:
        assert self.connection is not None, f"p{self.pid} speaks to nobody"
        return self.connection.client

    def _request(self, gpu: str, place: Place) -> None:
        place.told = place.memory
        self._say(ev.LockRequested(self._id, gpu, place.memory))

    def _enter(self, gpu: str) -> None:
        """Nothing is done on a GPU without a context."""
        if not self.places[gpu].contexts:
            self.places[gpu].contexts = 1
            self._report_later(gpu)
        self.look_at_contexts(gpu)

    def _drain(self, gpu: str) -> None:
        self.places[gpu].is_idle_told = False
        self._world.later(self._world.drain_time(self), self, "release", gpu)

    def _go_on(self, gpu: str) -> None:
        """The gate has opened."""
        if self.places[gpu].has_work:
            self.places[gpu].worked += 1
            self._enter(gpu)

    def _report_later(self, gpu: str) -> None:
        place = self.places[gpu]
        if not place.is_reporting:
            place.is_reporting = True
            self._world.later(REPORT_NS, self, "report", gpu)

    def _say(self, event: ev.Event) -> None:
        self._world.say(self, event)

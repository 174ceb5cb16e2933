"""A client process in a world: threads that want the GPU and memory, libnvshare's client machine, a connection or none.

The machine is the one that ships (nvshare.client_machine). What is played here is what lies around it: threads, kernels
that take their time to drain, and the wires."""

from typing import Protocol
from uuid import UUID

from nvshare.client_machine.library import Account, Config, Verdict
from nvshare.client_machine.machine import ClientMachine
from nvshare.schedsim.scheduler_end import SchedulerEnd

LINK_BYTES_PER_NS = 12
"""How fast memory moves in bulk."""


class Connection:
    """One connection's life. Messages on a closed one are lost."""

    def __init__(self, epoch: int, scheduler: SchedulerEnd) -> None:
        self.client = scheduler.who.client
        self.epoch = epoch
        self.scheduler = scheduler
        self.is_open = True
        self.said_at = 0
        self.heard_at = 0


class Place:
    """What a process's threads do at one GPU."""

    __slots__ = ("account", "drains", "gpu", "has_work", "index", "is_open", "needs", "waits_since", "worked")

    def __init__(self, gpu: str, index: int, account: Account) -> None:
        self.gpu = gpu
        self.index = index
        self.account = account
        self.is_open = False
        """The gate."""
        self.has_work = False
        """A thread computes or stands at the gate."""
        self.waits_since: int | None = None
        """When a thread came to the closed gate."""
        self.worked = 0
        """Stretches of work that could begin."""
        self.needs = 0
        """What a thread waits to allocate; 0: none does."""
        self.drains = 0
        """Drains begun or given up; says whether one that ends is still wanted."""


class Outside(Protocol):
    """What a process needs of its world."""

    now: int
    card: int

    def say(self, process: "Process", frames: bytes) -> None:
        """Send something to the scheduler."""

    def connect(self, process: "Process") -> None:
        """Try to reach the scheduler."""

    def drain_later(self, process: "Process", place: Place) -> None:
        """Call `drained` when the kernels under way have finished."""

    def wake_at(self, process: "Process", deadline: int | None) -> None:
        """Call `wake` at that time."""


class Process:
    """Everything between one program's threads and the scheduler."""

    def __init__(self, pid: int, group: str, own_limit: int, gpus: list[str], world: Outside) -> None:
        self.pid = pid
        self.group = group
        self.connection: Connection | None = None
        self.is_stopped = False
        self.went_on_at = 0
        """When it last could do anything again."""
        self.asks = 0
        self._world = world
        cards = [(UUID(gpu.removeprefix("GPU-")).bytes, world.card) for gpu in gpus]
        self.machine = ClientMachine(world.now, cards, self, Config(own_limit=own_limit, name=f"p{pid}".encode()))
        self.places = {gpu: Place(gpu, i, self.machine.accounts[i]) for i, gpu in enumerate(gpus)}
        self._by_index = list(self.places.values())

    def wake(self) -> None:
        """One step of the helper thread: something may have changed, or time has passed."""
        self.machine.tick(self._world.now)
        self._world.wake_at(self, self.machine.next_deadline())

    def hear(self, frame: bytes) -> None:
        self.machine.receive(self._world.now, frame)
        self.wake()

    def lose(self) -> None:
        """The connection is gone."""
        self.connection = None
        self.machine.lost(self._world.now)
        self.wake()

    # What its threads do.

    def work(self, gpu: str) -> None:
        place = self.places[gpu]
        self._enter(place)
        if place.is_open:
            place.worked += 1
            self.machine.busy(place.index)
        self._set_work(place, True)
        self.wake()

    def rest(self, gpu: str) -> None:
        """All work is done, unless it could not begin."""
        place = self.places[gpu]
        if place.is_open:
            self.stop_working(gpu)

    def stop_working(self, gpu: str) -> None:
        place = self.places[gpu]
        self._set_work(place, False)
        self._look_idle(place)
        self.wake()

    def end_contexts(self, gpu: str) -> None:
        """The program is through with this GPU, for now; a thread at the gate stays there."""
        place = self.places[gpu]
        self.machine.free(place.index, place.account.used)
        self.machine.set_contexts(place.index, 0)
        self._set_work(place, place.has_work and not place.is_open)
        self.wake()

    def allocate(self, gpu: str, size: int) -> None:
        place = self.places[gpu]
        if place.needs:
            return
        self._enter(place)
        if self.machine.reserve(place.index, size) is Verdict.ASK and self.machine.is_registered:
            place.needs = size
            self.asks += 1
            self.machine.ask(place.index, self.asks, place.account.used + size)
        self.wake()

    def free(self, gpu: str, share: int) -> None:
        """Free one part in `share` of what is allocated."""
        place = self.places[gpu]
        self.machine.free(place.index, place.account.used // share)
        self.wake()

    def use(self, gpu: str, used: int | None) -> None:
        """So much of what is allocated counts as used from now on; None: it is not known."""
        self.machine.working_set(self.places[gpu].index, used)

    def slow_down(self, gpu: str) -> None:
        self.machine.slowed(self._world.now, self.places[gpu].index, 1000)

    def drained(self, place: Place, number: int) -> None:
        """The last kernels before a drop have finished."""
        if number == place.drains:
            self.machine.drained(self._world.now, place.index, again=place.has_work)
            self.wake()

    def _enter(self, place: Place) -> None:
        """Nothing is done on a GPU without a context."""
        if not self.machine.seen[place.index].contexts:
            self.machine.set_contexts(place.index, 1)

    def _set_work(self, place: Place, has_work: bool) -> None:
        place.has_work = has_work
        is_waiting = has_work and not place.is_open
        self.machine.seen[place.index].waiters = is_waiting
        if not is_waiting:
            place.waits_since = None
        elif place.waits_since is None:
            place.waits_since = self._world.now

    def _look_idle(self, place: Place) -> None:
        if not place.has_work and self.machine.watches(place.index):
            self.machine.idle(place.index)

    # What the machine says (client_machine.machine.Surroundings).

    def send(self, frames: bytes) -> None:
        assert self.connection is not None, f"p{self.pid} speaks to nobody"
        self._world.say(self, frames)

    def connect(self) -> None:
        self._world.connect(self)

    def disconnect(self) -> None:
        raise AssertionError(f"p{self.pid} hung up although its connection was good, and lost its place")

    def gate_moved(self, gpu: int, is_open: bool) -> None:
        place = self._by_index[gpu]
        was_open, place.is_open = place.is_open, is_open
        if place.has_work and is_open and not was_open:
            place.worked += 1
            self._enter(place)
        self._set_work(place, place.has_work)
        self._look_idle(place)

    def start_drain(self, gpu: int) -> None:
        place = self._by_index[gpu]
        place.drains += 1
        self._world.drain_later(self, place)

    def stop_drain(self, gpu: int) -> None:
        self._by_index[gpu].drains += 1

    def move_memory(self, gpu: int, to_host: bool, size: int) -> None:
        self.machine.moved(gpu, to_host=to_host, moved=size, took_ns=size // LINK_BYTES_PER_NS)

    def hold_memory(self, gpu: int, size: int) -> None:
        self.machine.held(gpu, size)

    def watch_changed(self, gpu: int) -> None:
        self._look_idle(self._by_index[gpu])

    def answer(self, ask: int, granted: int) -> None:
        for place in self._by_index:
            if place.needs and ask == self.asks:
                size, place.needs = place.needs, 0
                self.machine.reserve(place.index, size)

    def refuse_questions(self) -> None:
        for place in self._by_index:
            place.needs = 0

    def say(self, notices: int) -> None:
        """Lines for the user: nobody reads them here."""

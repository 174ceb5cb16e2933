"""A client process in a world: threads that want the GPU and memory, libnvshare's client machine, a connection or none.

The machine is the one that ships (nvshare.client_machine). What is played here is what lies around it: threads, kernels
that take their time to drain, and the wires."""

from collections.abc import Callable
from typing import Protocol
from uuid import UUID

from nvshare.client_machine.library import AskFate, Config, Verdict
from nvshare.client_machine.machine import ClientMachine
from nvshare.schedsim.worlds.connection import Connection
from nvshare.schedsim.worlds.gpu_use import GpuUse
from nvshare.schedsim.worlds.looker import Lookers
from nvshare.schedsim.worlds.mover import Mover
from nvshare.schedsim.worlds.timeline import Alarm, Timeline
from nvshare.wire.messages import MoverState


class Outside(Protocol):
    """What a process needs of its world."""

    timeline: Timeline
    card: int

    def say(self, process: "Process", frames: bytes) -> None:
        """Send something to the scheduler."""

    def connect(self, process: "Process") -> None:
        """Try to reach the scheduler."""

    def drain_later(self, process: "Process", use: GpuUse) -> None:
        """Call `drained` when the kernels under way have finished."""

    def let_later(self, process: "Process", use: GpuUse) -> None:
        """Call `let_through` when one submission has passed the closed gate and finished."""


class Process:
    """Everything between one program's threads and the scheduler."""

    def __init__(
        self, pid: int, group: str, config: Config | int, gpus: list[str], world: Outside, *, counts_time: bool = False
    ) -> None:
        """`config` may be its own limit alone. `counts_time`: it reports its GPU time."""
        self.pid = pid
        self.group = group
        self.connection: Connection | None = None
        self.is_alive = True
        self.is_stopped = False
        self.went_on_at = 0
        """When it last could do anything again."""
        self.asks = 0
        self._is_joined = False
        """It is known whether there is a scheduler."""
        self._world = world
        self._timeline = world.timeline
        self._held: list[Callable[[], None]] = []
        self._alarm = Alarm(world.timeline, self.wake, self.do)
        cards = [(UUID(gpu.removeprefix("GPU-")).bytes, world.card) for gpu in gpus]
        config = Config(own_limit=config) if isinstance(config, int) else config
        config.name = f"p{pid}".encode()
        self.machine = ClientMachine(world.timeline.now, cards, self, config)
        self.uses = {gpu: self._use_of(gpu, i) for i, gpu in enumerate(gpus)}
        self._by_index = list(self.uses.values())
        self.lookers = Lookers(world.timeline, self.machine, self._by_index if counts_time else (), self.do)

    def _use_of(self, gpu: str, index: int) -> GpuUse:
        account = self.machine.accounts[index]

        def report(to_host: bool, moved: int, took_ns: int) -> None:
            self.uses[gpu].told_moved[to_host] += moved if self.machine.is_registered else 0
            left = max(0, account.used - moved)
            self.machine.move_ended(index, to_host=to_host, moved=moved, took_ns=took_ns, left=left)

        return GpuUse(gpu, index, account, Mover(self._timeline, self.do, lambda: account.used, report))

    def wake(self) -> None:
        """One step of the helper thread: something may have changed, or time has passed."""
        self.machine.tick(self._timeline.now)
        for use in self._by_index:
            self.machine.mover(use.index, MoverState.NO_EFFECT if use.mover.is_off else MoverState.MOVES)
        self._look_at_needs()
        self._alarm.set(self.machine.next_deadline(), lambda deadline: max(0, deadline - self._timeline.now))

    def hear(self, frame: bytes) -> None:
        self.machine.receive(self._timeline.now, frame)
        self.wake()

    def lose(self) -> None:
        """The connection is gone."""
        self.connection = None
        for use in self._by_index:
            use.told_moved = [0, 0]
        self.machine.lost(self._timeline.now)
        self.wake()

    # What is done to it.

    def do(self, what: Callable[[], None]) -> None:
        """What happens to a stopped process happens when it goes on."""
        if not self.is_alive:
            return
        if self.is_stopped:
            self._held.append(what)
        else:
            self.lookers.before()
            what()
            self.lookers.after()

    def stop(self) -> None:
        """SIGSTOP."""
        self.is_stopped = True

    def go_on(self) -> None:
        """SIGCONT."""
        self.is_stopped = False
        self.went_on_at = self._timeline.now
        self.lookers.late()
        held, self._held = self._held, []
        for what in (*held, lambda: None):  # It looks again at its work, also if nothing else has happened.
            self.do(what)

    def die(self) -> None:
        self.is_alive = False
        self._held.clear()

    # What its threads do.

    def work(self, gpu: str) -> None:
        use = self.uses[gpu]
        self._enter(use)
        if use.is_open:
            use.worked += 1
            self.machine.busy(use.index)
        self._set_work(use, True)
        self.wake()

    def rest(self, gpu: str) -> None:
        """All work is done, unless it could not begin."""
        use = self.uses[gpu]
        if use.is_open:
            self.stop_working(gpu)

    def stop_working(self, gpu: str) -> None:
        use = self.uses[gpu]
        self._set_work(use, False)
        self._look_idle(use)
        self.wake()

    def end_contexts(self, gpu: str) -> None:
        """The program is through with this GPU, for now; a thread at the gate stays there."""
        use = self.uses[gpu]
        self.machine.free(use.index, use.account.used)
        self.machine.set_contexts(use.index, 0)
        self._set_work(use, use.has_work and not use.is_open)
        self.wake()

    def allocate(self, gpu: str, size: int) -> None:
        use = self.uses[gpu]
        if use.needs:
            return
        use.needs = size
        self._look_at_needs()
        self.wake()

    def free(self, gpu: str, share: int) -> None:
        """Free one part in `share` of what is allocated."""
        use = self.uses[gpu]
        self.machine.free(use.index, use.account.used // share)
        self.wake()

    def use(self, gpu: str, used: int | None) -> None:
        """So much of what is allocated counts as used from now on; None: it is not known."""
        self.machine.working_set(self.uses[gpu].index, used)

    def stop_moving_or_try_again(self, gpu: str) -> None:
        """It has noticed that prefetches have no effect, or it is time to look again."""
        self.uses[gpu].mover.is_off = not self.uses[gpu].mover.is_off
        self.wake()

    def slow_down(self, gpu: str) -> None:
        self.machine.slowed(self._timeline.now, self.uses[gpu].index, 1000)

    def drained(self, use: GpuUse, number: int) -> None:
        """The last kernels before a drop have finished."""
        if number == use.drains:
            use.drained_at = self._timeline.now
            self.machine.drained(self._timeline.now, use.index, again=use.has_work)
            self.wake()

    def _reserve(self, use: GpuUse) -> None:
        """The thread goes on, unless the scheduler has to be asked; a second no is final."""
        self._enter(use)
        if self.machine.reserve(use.index, use.needs) is not Verdict.ASK or use.ask:
            use.needs = use.ask = 0

    def _look_at_needs(self) -> None:
        """Of threads that allocate; they wait until it is known whether there is a scheduler."""
        for use in self._by_index if self._is_joined else ():
            if use.needs and not use.ask:
                self._reserve(use)
            fate = self.machine.ask_fate
            if use.needs and not use.ask and fate is AskFate.SENT:
                use.ask = self.asks = self.asks + 1
                self.machine.ask(self._timeline.now, use.index, use.ask, use.account.used + use.needs)
            elif use.needs and fate is AskFate.REFUSED:
                use.needs = use.ask = 0

    def _enter(self, use: GpuUse) -> None:
        """Nothing is done on a GPU without a context."""
        if not self.machine.seen[use.index].contexts:
            self.machine.set_contexts(use.index, 1)

    def _set_work(self, use: GpuUse, has_work: bool) -> None:
        use.has_work = has_work
        is_waiting = has_work and not use.is_open
        self.machine.seen[use.index].waiters = is_waiting
        if not is_waiting:
            use.waits_since = None
        elif use.waits_since is None:
            use.waits_since = self._timeline.now

    def _look_idle(self, use: GpuUse) -> None:
        if not use.has_work and self.machine.watches(use.index):
            self.machine.idle(use.index)

    # What the machine says (client_machine.effects.Effects).

    def send(self, frames: bytes) -> None:
        assert self.connection is not None, f"p{self.pid} speaks to nobody"
        self.lookers.sent(frames)
        self._world.say(self, frames)

    def connect(self) -> None:
        self._world.connect(self)

    def disconnect(self) -> None:
        raise AssertionError(f"p{self.pid} hung up although its connection was good, and lost its place")

    def gate_moved(self, gpu: int, is_open: bool) -> None:
        use = self._by_index[gpu]
        was_open, use.is_open = use.is_open, is_open
        use.mover.stop()
        if use.has_work and is_open and not was_open:
            use.worked += 1
            self._enter(use)
        self._set_work(use, use.has_work)
        self._look_idle(use)

    def start_drain(self, gpu: int) -> None:
        use = self._by_index[gpu]
        use.drains += 1
        self._world.drain_later(self, use)

    def stop_drain(self, gpu: int) -> None:
        use = self._by_index[gpu]
        use.drains += 1
        self.let_through(use, use.lets)

    def let_one(self, gpu: int) -> None:
        use = self._by_index[gpu]
        use.begin_letting()
        if self.machine.must_let(gpu):
            self._world.let_later(self, use)
        else:
            self.let_through(use, use.lets)

    def let_through(self, use: GpuUse, number: int) -> None:
        """The submission that was let through has finished, or is not wanted any more."""
        if use.ends_letting(number):
            self.machine.let_done(use.index)

    def move_memory(self, gpu: int, to_host: bool, size: int) -> None:
        self._by_index[gpu].mover.start(size, to_host=to_host)

    def hold_memory(self, gpu: int, size: int) -> None:
        self.machine.held(gpu, size)

    def watch_changed(self, gpu: int) -> None:
        self._look_idle(self._by_index[gpu])

    def answer(self, ask: int, granted: int) -> None:
        for use in self._by_index:
            if use.needs and ask == use.ask:
                self._reserve(use)

    def questions_lost(self) -> None:
        for use in self._by_index:
            use.ask = 0

    def joined(self) -> None:
        self._is_joined = True

    def say(self, notices: int) -> None:
        """Lines for the user: nobody reads them here."""

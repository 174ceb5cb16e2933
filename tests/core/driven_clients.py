"""Clients that drive the core. Each is libnvshare's client machine, the code that ships.

What is played here lies around the machine: threads that want a GPU, kernels that take their time to drain, and the
wires. What a client says waits in `said`, what it is told in `told`, each in order, until the world delivers it."""

from collections import deque
from collections.abc import Callable
from uuid import UUID

from nvshare.client_machine.library import Absence, Config
from nvshare.client_machine.machine import ClientMachine
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import Memory
from nvshare.schedsim.scheduler_end import PONG, SchedulerEnd
from nvshare.translation import Registrant
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode


class GpuUse:
    """What a client's threads do at one GPU."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.has_work = False
        self.is_open = False
        """The gate."""
        self.is_draining = False
        self.old_locks: list[int] = []


class DrivenClient:
    """A client of the scheduler. First `set_memory`; it then joins with `join`, `join_holding` or `join_unshared`."""

    def __init__(
        self, client: int, gpus: list[str], card: int, clock: Callable[[], int], config: Config, group: str = ""
    ) -> None:
        self.id = client
        self.uses = {gpu: GpuUse(index) for index, gpu in enumerate(gpus)}
        self.told: deque[ac.Action] = deque()
        self.said: deque[ev.Event] = deque()
        self.is_stopped = False
        """A stopped process (SIGSTOP): hears nothing and says nothing."""
        self._clock = clock
        self._by_index = list(self.uses.values())
        self._scheduler = SchedulerEnd(Registrant(client, 0, group or f"run/{client}", "", ""), gpus, grace_ms=0)
        self._is_there = False
        """The scheduler that is tested. Before it there was none, or another one."""
        self._found = True
        cards = [(UUID(gpu.removeprefix("GPU-")).bytes, card) for gpu in gpus]
        self._machine = ClientMachine(clock(), cards, self, config)

    # How it comes.

    def join(self) -> None:
        self._is_there = True
        self.wake()

    def join_holding(self, locks: list[int]) -> None:
        """It has these locks from an earlier scheduler, one for each GPU."""
        self._want_all()
        self._machine.receive(self._clock(), encode(wire.SchedOn(0, wire.PROTOCOL_VERSION, self.id)))
        for use, lock in zip(self._by_index, locks, strict=True):
            self._machine.receive(self._clock(), encode(wire.LockOk(use.index, False, lock)))
        self._machine.lost(self._clock())
        self._join_later()

    def join_unshared(self) -> None:
        """It has run without a scheduler."""
        self._found = False
        self._want_all()
        self._found = True
        self._join_later()

    def _want_all(self) -> None:
        for gpu in self.uses:
            self.want(gpu)

    def _join_later(self) -> None:
        """Its next attempt to connect is made now."""
        self._is_there = True
        deadline = self._machine.next_deadline()
        assert deadline is not None
        self._machine.tick(max(deadline, self._clock()))
        assert self.said, "it has registered"

    # What the program does.

    def want(self, gpu: str) -> None:
        use = self.uses[gpu]
        use.has_work = True
        if not self._machine.seen[use.index].contexts:
            self._machine.set_contexts(use.index, 1)
        if use.is_open:
            self._machine.busy(use.index)
        self._set_waiters(use)
        self.wake()

    def resize(self, gpu: str, memory: Memory) -> None:
        self.set_memory(gpu, memory)
        self.wake()

    def set_memory(self, gpu: str, memory: Memory) -> None:
        index = self.uses[gpu].index
        account = self._machine.accounts[index]
        account.free(account.unswappable, swappable=False)
        account.free(account.used)
        account.add(memory.swappable)
        account.add(memory.unswappable, swappable=False)
        self._machine.set_contexts(index, memory.contexts)

    def report_working_set(self, gpu: str, used: int | None) -> None:
        self._machine.working_set(self.uses[gpu].index, used)

    def slow_down(self, gpu: str, factor: int) -> None:
        self._machine.slowed(self._clock(), self.uses[gpu].index, factor)

    def finish_work(self, gpu: str) -> None:
        """All that was submitted is done."""
        use = self.uses[gpu]
        use.has_work = False
        self._set_waiters(use)
        self._look_idle(use)
        self.wake()

    def drain(self, gpu: str) -> None:
        """The last work before a drop has finished."""
        use = self.uses[gpu]
        if use.is_draining:
            use.is_draining = False
            self._machine.drained(self._clock(), use.index, again=use.has_work)
            self.wake()

    def give_up(self, gpu: str) -> None:
        """Its last context is gone; a thread at the gate stays there."""
        use = self.uses[gpu]
        use.has_work = use.has_work and not use.is_open
        self._machine.set_contexts(use.index, 0)
        self.wake()

    def use_collectives(self) -> None:
        self._machine.use_collectives()

    def wake(self) -> None:
        """One step of the helper thread: something may have changed, or time has passed."""
        self._machine.tick(self._clock())

    def hear(self) -> None:
        """Take in the next message."""
        frame = self._scheduler.frame_of(self.told.popleft())
        if frame is not None:
            self._machine.receive(self._clock(), frame)
            self.wake()

    def _set_waiters(self, use: GpuUse) -> None:
        self._machine.seen[use.index].waiters = use.has_work and not use.is_open

    def _look_idle(self, use: GpuUse) -> None:
        if not use.has_work and self._machine.watches(use.index):
            self._machine.idle(use.index)

    # What the machine says (client_machine.effects.Effects).

    def send(self, frames: bytes) -> None:
        for message in self._scheduler.feed(frames):
            if isinstance(message, wire.LockReleased):
                self._by_index[message.gpu].old_locks.append(message.lock)
            event = self._scheduler.event_of(message)
            if event is None:
                self._machine.receive(self._clock(), PONG)
            elif self._is_there:
                self.said.append(event)

    def connect(self) -> None:
        if self._found:
            self._machine.connected()
        else:
            self._machine.not_connected(self._clock(), Absence.ABSENT)

    def disconnect(self) -> None:
        raise AssertionError("the scheduler broke the protocol")

    def gate_moved(self, gpu: int, is_open: bool) -> None:
        use = self._by_index[gpu]
        use.is_open = is_open
        self._set_waiters(use)
        self._look_idle(use)

    def move_memory(self, gpu: int, to_host: bool, size: int) -> None:
        goes = size * (self.id % 3 > 0)  # The memory of some clients does not go.
        left = max(0, self._machine.accounts[gpu].used - goes)
        self._machine.move_ended(gpu, to_host=to_host, moved=size, took_ns=size // 12, left=left)

    def hold_memory(self, gpu: int, size: int) -> None:
        self._machine.held(gpu, size)

    def start_drain(self, gpu: int) -> None:
        self._by_index[gpu].is_draining = True

    def stop_drain(self, gpu: int) -> None:
        self._by_index[gpu].is_draining = False

    def watch_changed(self, gpu: int) -> None:
        self._look_idle(self._by_index[gpu])

    def let_one(self, gpu: int) -> None:
        self._machine.let_done(gpu)

    def answer(self, ask: int, granted: int) -> None: ...
    def joined(self) -> None: ...
    def questions_lost(self) -> None: ...
    def say(self, notices: int) -> None: ...

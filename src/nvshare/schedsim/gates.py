"""What stands between a simulated program and its card.

nvshare   libnvshare's client machine, the code that ships
classic   the gate of the thesis. Its lock is exclusive, so the client claims the whole card; nobody says IDLE; a holder
          looks every five seconds whether it has worked since the last look, and gives the lock back if not
none      no gate at all
"""

from typing import Literal
from uuid import UUID

from nvshare.client_machine.library import Config, Verdict
from nvshare.client_machine.machine import ClientMachine
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import MILLISECOND, SECOND, Memory
from nvshare.schedsim.gate import Gate, Gated, Simulation
from nvshare.schedsim.scheduler_end import PONG, SchedulerEnd
from nvshare.translation import Registrant

GateName = Literal["nvshare", "classic", "none"]

DRAIN_NS = 5 * MILLISECOND
"""From DROP_LOCK until the last kernels have finished."""
CLASSIC_LOOK_NS = 5 * SECOND


class ClassicGate(Gate):
    """As the original nvshare has it, for one GPU."""

    def __init__(self, program: Gated, machine: Simulation) -> None:
        super().__init__(program, machine)
        (self._gpu,) = program.gpus
        self._is_open = False
        self._lock = self._draining = 0
        self._is_waiting = self._has_worked = False
        self._looks_at = 0

    @property
    def _memory(self) -> Memory:
        return Memory(swappable=self._program.card_sizes[0])

    def start(self) -> None:
        self._register(self._memory)

    def is_open(self, gpu: int) -> bool:
        return self._is_open

    def want(self, gpu: int) -> None:
        self._has_worked = True
        if not self._is_open and not self._draining and not self._is_waiting:
            self._is_waiting = True
            self._machine.post(ev.LockRequested(self._program.key, self._gpu, self._memory))

    def hear(self, action: ac.Action) -> None:
        if isinstance(action, ac.GiveLock):
            self._is_open, self._lock, self._draining, self._is_waiting = True, action.lock, 0, False
            self._program.gate_opened(0)
            self._has_worked = True
            self._look_later()
        elif isinstance(action, ac.DropLock) and action.lock == self._lock:
            self._close()
            self._machine.call_at(self._machine.now + DRAIN_NS, (self._program.key, "drained"))

    def drained(self) -> None:
        """The last kernels before a drop have finished."""
        if self._draining:
            again = self._program.has_work(0)
            self._machine.post(ev.LockReleased(self._program.key, self._gpu, self._draining, again))
            self._draining, self._is_waiting = 0, again

    def look(self) -> None:
        """Whether there was work since the last look."""
        if self._machine.now != self._looks_at or not self._is_open:
            return
        if self._has_worked or self._program.has_work(0):
            self._has_worked = self._program.has_work(0)
            self._look_later()
        else:
            self._close()
            self.drained()

    def _close(self) -> None:
        self._is_open, self._lock, self._draining = False, 0, self._lock
        self._program.gate_closed(0)

    def _look_later(self) -> None:
        self._looks_at = self._machine.now + CLASSIC_LOOK_NS
        self._machine.call_at(self._looks_at, (self._program.key, "look"))


class NvshareGate(Gate):
    """libnvshare's client machine, on a wire that loses nothing and takes no time."""

    def __init__(self, program: Gated, machine: Simulation) -> None:
        super().__init__(program, machine)
        who = Registrant(program.key, 0, program.group, program.name, program.name)
        self._scheduler = SchedulerEnd(who, program.gpus, grace_ms=0)
        self._open = [False] * len(program.gpus)
        self._drains_until: dict[int, int] = {}
        """When the drain ends that is under way at a GPU."""
        self._wakes_at: int | None = None
        self._pushes_until: dict[int, int] = {}
        """When the move to the host ends that is under way at a GPU."""
        self._holds: dict[int, tuple[int, int]] = {}
        """The same for what is to be kept there because of a limit, and how much that is."""

    def start(self) -> None:
        program = self._program
        uuids = [UUID(gpu.removeprefix("GPU-")).bytes for gpu in program.gpus]
        cards = list(zip(uuids, program.card_sizes, strict=True))
        config = Config(priority=program.priority, weight=program.weight)
        self._client = ClientMachine(self._machine.now, cards, self, config, oversubscribe=program.may_oversubscribe)
        for gpu in range(len(cards)):
            self._client.set_contexts(gpu, 1)
        if program.may_oversubscribe:  # whatever the card has for it: known before the scheduler says so
            self._reserve()
        self.wake()

    def allocate(self) -> bool:
        """What the card has for it was told when it registered."""
        return self._program.may_oversubscribe or self._reserve()

    def _reserve(self) -> bool:
        gpus = range(len(self._program.gpus))
        return all(self._client.reserve(gpu, self._program.memory) is Verdict.CHARGED for gpu in gpus)

    def is_open(self, gpu: int) -> bool:
        return self._open[gpu]

    def want(self, gpu: int) -> None:
        self._note_waiters()
        if self._open[gpu]:
            self._client.busy(gpu)
        else:
            self.wake()

    def rest(self, gpu: int) -> None:
        self._note_waiters()
        if self._client.watches(gpu):
            self._client.idle(gpu)

    def _note_waiters(self) -> None:
        for gpu in range(len(self._open)):
            self._client.seen[gpu].waiters = gpu == self._program.stands_at

    def hear(self, action: ac.Action) -> None:
        frame = self._scheduler.frame_of(action)
        if frame is not None:
            self._client.receive(self._machine.now, frame)
            self.wake()

    def used(self) -> None:
        if self._program.working_set is not None:
            for gpu in range(len(self._program.gpus)):
                self._client.working_set(gpu, self._program.working_set)

    def loaded(self, gpu: int, moved: int, took_ns: int) -> None:
        self._client.move_ended(gpu, to_host=False, moved=moved, took_ns=took_ns)

    def drained(self) -> None:
        """The last kernels have finished, at each GPU whose drain ends by now."""
        for gpu in sorted(gpu for gpu, until in self._drains_until.items() if until <= self._machine.now):
            del self._drains_until[gpu]
            self._client.drained(self._machine.now, gpu, again=self._program.stands_at == gpu)
        self.wake()

    def wake(self) -> None:
        """One step of the helper thread."""
        self._client.tick(self._machine.now)
        deadline = self._client.next_deadline()
        if deadline is not None and deadline != self._wakes_at:
            self._machine.call_at(deadline, (self._program.key, "wake"))
        self._wakes_at = deadline

    # What the machine says (client_machine.effects.Effects).

    def connect(self) -> None:
        self._client.connected()

    def send(self, frames: bytes) -> None:
        for message in self._scheduler.feed(frames):
            event = self._scheduler.event_of(message)
            if event is None:
                self._client.receive(self._machine.now, PONG)
            else:
                self._machine.post(event)

    def gate_moved(self, gpu: int, is_open: bool) -> None:
        was_open, self._open[gpu] = self._open[gpu], is_open
        if is_open and not was_open:
            self._program.gate_opened(gpu)
        elif not is_open:
            self._program.gate_closed(gpu)
        self._note_waiters()
        self.watch_changed(gpu)

    def start_drain(self, gpu: int) -> None:
        self._drains_until[gpu] = self._machine.now + DRAIN_NS
        self._machine.call_at(self._drains_until[gpu], (self._program.key, "drained"))

    def move_memory(self, gpu: int, to_host: bool, size: int) -> None:
        """The model of the card moves memory in when work begins; `loaded` says how long that took."""
        if to_host:
            until = self._program.push_out(gpu, size)
            self._pushes_until[gpu] = self._machine.now if until is None else until
            self._machine.call_at(self._pushes_until[gpu], (self._program.key, "report_pushes"))

    def report_pushes(self) -> None:
        """Moves to the host have ended."""
        for gpu in [gpu for gpu, until in self._pushes_until.items() if until <= self._machine.now]:
            del self._pushes_until[gpu]
            moved, took_ns = self._program.pushed_out(gpu)
            left = self._program.left_on_card(gpu)
            self._client.move_ended(gpu, to_host=True, moved=moved, took_ns=took_ns, left=left)

    def hold_memory(self, gpu: int, size: int) -> None:
        """What moves to the host does so at the speed of the link."""
        until = self._machine.now + self._program.hold_ns(gpu, size)
        self._holds[gpu] = until, size
        self._machine.call_at(until, (self._program.key, "report_holds"))

    def report_holds(self) -> None:
        """As much is kept on the host as was asked for last."""
        for gpu, (until, size) in list(self._holds.items()):
            if until <= self._machine.now:
                del self._holds[gpu]
                self._program.hold(gpu, size)
                self._client.held(gpu, size)

    def watch_changed(self, gpu: int) -> None:
        if not self._program.has_work(gpu):
            self.rest(gpu)

    def disconnect(self) -> None:
        raise AssertionError("the scheduler broke the protocol")

    def stop_drain(self, gpu: int) -> None:
        self._drains_until.pop(gpu, None)

    def let_one(self, gpu: int) -> None:
        """What is simulated waits for no other process."""
        self._client.let_done(gpu)

    def answer(self, ask: int, granted: int) -> None: ...
    def joined(self) -> None: ...
    def questions_lost(self) -> None: ...
    def say(self, notices: int) -> None: ...


GATES: dict[GateName, type[Gate]] = {"nvshare": NvshareGate, "classic": ClassicGate, "none": Gate}

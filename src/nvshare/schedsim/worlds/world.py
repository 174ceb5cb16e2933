"""One world: a scheduler that may die, processes that may stop, die or lose their connections, and time.

Everything random comes from one generator seeded with the world's number, and everything that happens comes out of one
heap, ordered by time and then by when it was put there. So a seed gives the same steps on every machine, and the digest
over them proves it."""

import heapq
import zlib
from collections import deque
from collections.abc import Callable
from random import Random
from uuid import UUID

import msgspec

from nvshare.client_machine.library import Absence
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND, SECOND, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.schedsim.scheduler_end import PONG, Message, SchedulerEnd
from nvshare.schedsim.worlds import laws
from nvshare.schedsim.worlds.process import Connection, GpuUse, Process
from nvshare.translation import Registrant

GPUS = tuple(f"GPU-{UUID(int=number)}" for number in (1, 2))
CARD = 16 * GIB
MAX_PROCESSES = 9
MAX_QUANTUM_NS = 60 * SECOND
MICROSECOND = 1000
LONG_QUANTUM_NS = 1200 * SECOND
SLOW = 100
"""How much slower everything is in a slow world: hours pass, and waits last longer than an hour."""
MAX_RINGS = 20
"""Alarms at one moment: one may make the next due, but not for ever."""

SURELY_HUNG_NS = 35 * SECOND
"""A waiting client takes a scheduler that says nothing for hung after 25 s; messages under way take up to 3 s."""
SURELY_AWAY_NS = 6 * SECOND
"""Nobody waits longer than 5 s for a scheduler that is not there."""

_ENCODER = msgspec.msgpack.Encoder()


def _named(record: ev.Event | ac.Action) -> tuple[str, ev.Event | ac.Action]:
    return type(record).__name__, record


class World:
    """`run` plays it. What fails, and when, is chosen by schedsim.worlds.faults."""

    card = CARD
    is_paranoid = True
    """The core checks all that must hold after each step, which takes time in proportion to its clients."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Random(f"world {seed}")  # noqa: S311 - chance that can be repeated is what is wanted
        self.now = SECOND
        self.steps = 0
        self.digest = 0
        self.node: Node | None = None
        self.processes: dict[int, Process] = {}
        self.journal: deque[tuple[int, ev.Event, tuple[ac.Action, ...]]] = deque(maxlen=40)
        self.is_calm = False
        """Nothing fails any more."""
        self.clock_error = 0
        """By how much the scheduler's clock is behind."""
        self.pace = SLOW if self.chance.random() < 0.2 else 1
        self.settings = Settings(
            quantum=self._quantum_rule(),
            policy=self.chance.choice(["fcfs", "fcfs", "fair", "priority"]),
        )
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._epoch = 0
        self._last_client = 0
        self._last_pid = 0
        self._given: set[int] = set()
        self._alarm = 0
        self._armed_for: int | None = None
        self._rang_at = 0
        self._rings = 0
        self._by_client: dict[int | None, Process] = {}
        self._held: dict[int, list[Callable[[], None]]] = {}
        self._wakes: dict[int, tuple[int | None, int]] = {}
        self._hung_since: int | None = None
        self._away_since = self.now
        self._backlog: list[Callable[[], None]] = []
        self.start_daemon()
        for _ in range(self.chance.randint(2, MAX_PROCESSES)):
            self.spawn()

    def _quantum_rule(self) -> QuantumRule:
        if self.pace == SLOW:
            return QuantumRule(mode="fixed", fixed_ns=LONG_QUANTUM_NS, most_ns=LONG_QUANTUM_NS)
        return QuantumRule(
            mode=self.chance.choice(["auto", "fixed", "adaptive"]),
            fixed_ns=self.chance.choice([SECOND, 10 * SECOND, MAX_QUANTUM_NS]),
            most_ns=MAX_QUANTUM_NS,
        )

    # Time.

    def at(self, delay_ns: int, what: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.now + delay_ns, self._order, what))

    def play(self, *, steps: int | None = None, until: int | None = None) -> None:
        """Let things happen until the scheduler has made so many steps, or until a time."""
        while self._heap and (steps is None or self.steps < steps):
            if until is not None and self._heap[0][0] > until:
                self.now = until
                return
            when, _, what = heapq.heappop(self._heap)
            self.now = max(self.now, when)
            what()

    # The scheduler.

    def start_daemon(self) -> None:
        if self.node is not None:
            return
        laws.check_nobody_waits_for_the_absent(
            list(self.processes.values()), self._away_since, self.now - SURELY_AWAY_NS
        )
        settles_at = self._node_now + self.settings.settle_ns if self._epoch else None
        self._epoch += 1
        self._armed_for = None
        self.node = Node(self.settings, epoch=self._epoch, settles_at=settles_at, is_paranoid=self.is_paranoid)
        for gpu in GPUS:
            self.tell_node(ev.GpuFound(gpu, CARD))

    def kill_daemon(self) -> None:
        self.node = None
        self._away_since = self.now
        self._hung_since = None
        self._backlog.clear()
        for process in list(self.processes.values()):
            self.cut(process)

    def hang_daemon(self) -> None:
        """SIGSTOP: it keeps its connections, and takes in what came meanwhile when it goes on."""
        if self.node is not None and self._hung_since is None:
            self._hung_since = self.now

    @property
    def is_hung(self) -> bool:
        """The scheduler is there, but does nothing."""
        return self._hung_since is not None

    def unhang_daemon(self) -> None:
        if self._hung_since is None:
            return
        if self.now - self._hung_since >= SURELY_HUNG_NS:
            laws.check_nobody_waits_for_the_hung(list(self.processes.values()), self._hung_since)
        self._hung_since = None
        backlog, self._backlog = self._backlog, []
        for what in backlog:
            what()

    def sleep(self, time_ns: int) -> None:
        """The machine slept."""
        self.now += time_ns
        self._away_since = self.now
        if self._hung_since is not None:
            self._hung_since = self.now  # nobody could notice in that time
        for process in self.processes.values():
            process.went_on_at = self.now

    @property
    def _node_now(self) -> int:
        return self.now - self.clock_error

    def tell_node(self, event: ev.Event) -> None:
        """One step of the core: what follows from it is sent, and the laws are checked."""
        if self.node is None:
            return
        if self._hung_since is not None:
            self._backlog.append(lambda: self.tell_node(event))
            return
        if isinstance(event, ev.ClientLeft) and event.client not in self.node.clients:
            return
        self.steps += 1
        now = self._node_now
        actions = self.node.handle(now, event)
        self.journal.append((now, event, tuple(actions)))
        self.digest = zlib.crc32(_ENCODER.encode((now, _named(event), list(map(_named, actions)))), self.digest)
        if actions:
            laws.check_numbers(self._given, actions)
            laws.check_budgets(self.node, actions)
        for part in (event, *actions):
            process = self._by_client.get(getattr(part, "client", None))
            if process is not None:
                assert process.connection is not None
                frame = process.connection.scheduler.frame_of(part)
                if frame is not None:
                    self._send_down(process, frame)
                laws.check_process(self.node, process)
        self._set_alarm()

    def _set_alarm(self) -> None:
        assert self.node is not None
        deadline = self.node.next_deadline()
        if deadline == self._armed_for:
            return
        self._alarm += 1
        self._armed_for = deadline
        if deadline is not None:
            late = 0 if self.is_calm else self.chance.choice([0, 0, 0, MILLISECOND, self.chance.randrange(5 * SECOND)])
            number, epoch = self._alarm, self._epoch
            self.at(max(0, deadline - self._node_now) + late, lambda: self._ring(number, epoch))

    def _ring(self, number: int, epoch: int) -> None:
        if number == self._alarm and epoch == self._epoch:
            self._armed_for = None
            self._rings = self._rings + 1 if self._rang_at == self.now else 0
            self._rang_at = self.now
            assert self._rings < MAX_RINGS, "the alarm never stops ringing"
            self.tell_node(ev.AlarmRang())

    # Processes and their connections.

    def spawn(self) -> None:
        self._last_pid += 1
        pid = self._last_pid
        gpus = self.chance.choice([[GPUS[0]], [GPUS[0]], [GPUS[1]], list(GPUS)])
        own_limit = self.chance.choice([0, 0, 4 * GIB])
        process = Process(pid, self.chance.choice(["run/a", "run/b", f"run/{pid}"]), own_limit, gpus, self)
        self.processes[pid] = process
        process.wake()
        self._live(process)

    def connect(self, process: Process) -> None:
        if self.node is None:
            process.machine.not_connected(self.now, Absence.AWAY)
            return
        assert process.connection is None, f"p{process.pid} has a connection already"
        self._last_client += 1
        who = Registrant(self._last_client, process.pid, process.group, process.group, "")
        grace_ms = self.settings.grace_ns // MILLISECOND
        process.connection = Connection(self._epoch, SchedulerEnd(who, list(process.uses), grace_ms))
        self._by_client[self._last_client] = process
        process.machine.connected()

    def cut(self, process: Process) -> None:
        """A connection ends; each side notices when it does."""
        connection = process.connection
        if connection is None or not connection.is_open:
            return
        connection.is_open = False
        self._by_client.pop(connection.client, None)
        self._hold_or_do(process, process.lose)
        self.tell_node(ev.ClientLeft(connection.client))

    def kill(self, process: Process) -> None:
        del self.processes[process.pid]
        self._held.pop(process.pid, None)
        self._wakes.pop(process.pid, None)
        connection, process.connection = process.connection, None
        if connection is not None:
            connection.is_open = False
            self._by_client.pop(connection.client, None)
            self.tell_node(ev.ClientLeft(connection.client, "killed"))

    def stop(self, process: Process) -> None:
        process.is_stopped = True

    def go_on(self, process: Process) -> None:
        process.is_stopped = False
        process.went_on_at = self.now
        for what in self._held.pop(process.pid, []):
            what()

    # The network. Order is kept in each direction of a connection; nothing else is promised.

    def say(self, process: Process, frames: bytes) -> None:
        connection = process.connection
        assert connection is not None
        for message in connection.scheduler.feed(frames):
            is_early = not process.machine.is_registered and connection.scheduler.is_of_a_turn(message)
            assert not is_early, f"p{process.pid} has not been answered yet: {message}"
            connection.said_at = max(connection.said_at, self.now + self._latency())
            self.at(connection.said_at - self.now, lambda m=message: self._arrive(process, connection, m))  # type: ignore[misc]

    def _arrive(self, process: Process, connection: Connection, message: Message) -> None:
        if not connection.is_open or connection.epoch != self._epoch or self.node is None:
            return
        if self._hung_since is not None:
            self._backlog.append(lambda: self._arrive(process, connection, message))
            return
        event = connection.scheduler.event_of(message)
        if event is None:
            self._send_down(process, PONG)
            if connection.client in self.node.unheard:
                self.tell_node(ev.ClientHeard(connection.client))
        else:
            self.tell_node(event)

    def _send_down(self, process: Process, frame: bytes) -> None:
        connection = process.connection
        assert connection is not None
        connection.heard_at = max(connection.heard_at, self.now + self._latency())
        self.at(connection.heard_at - self.now, lambda: self._hear(process, connection, frame))

    def _hear(self, process: Process, connection: Connection, frame: bytes) -> None:
        def take() -> None:
            if connection.is_open:
                process.hear(frame)

        self._hold_or_do(process, take)

    def _latency(self) -> int:
        if self.is_calm or self.chance.random() < 0.95:
            return self.chance.randrange(10 * MICROSECOND, 500 * MICROSECOND)
        return self.chance.randrange(3 * SECOND)

    # What processes ask of their world.

    def wake_at(self, process: Process, deadline: int | None) -> None:
        armed_for, number = self._wakes.get(process.pid, (None, 0))
        if deadline == armed_for:
            return
        number += 1
        self._wakes[process.pid] = deadline, number

        def wake() -> None:
            if self._wakes.get(process.pid) == (deadline, number):
                self._wakes[process.pid] = None, number
                process.wake()

        if deadline is not None:
            self.at(max(0, deadline - self.now), lambda: self._hold_or_do(process, wake))

    def drain_later(self, process: Process, use: GpuUse) -> None:
        number = use.drains
        self.at(self._drain_time(), lambda: self._hold_or_do(process, lambda: process.drained(use, number)))

    def _drain_time(self) -> int:
        if self.is_calm or self.chance.random() < 0.9:
            return self.chance.randrange(20 * MILLISECOND)
        return self.chance.randrange(15 * SECOND)

    def _hold_or_do(self, process: Process, what: Callable[[], None]) -> None:
        """What happens to a stopped process happens when it goes on."""
        if process.pid not in self.processes:
            return
        if process.is_stopped:
            self._held.setdefault(process.pid, []).append(what)
        else:
            what()

    def _live(self, process: Process) -> None:
        """A program's next step of its own: it works, rests, allocates, frees, and says what it uses, true or not."""
        if self.is_calm or process.pid not in self.processes:
            return
        gpu = self.chance.choice(list(process.uses))
        what = self.chance.choice(
            [*["work"] * 6, *["rest"] * 4, *["allocate"] * 2, *["free"] * 2, "end_contexts", "use", "slow_down"]
        )
        if what == "allocate":
            size = self.chance.choice([9 * GIB, 14 * GIB] if self.pace == SLOW else [GIB // 16, GIB, 2 * GIB, 5 * GIB])
            self._hold_or_do(process, lambda: process.allocate(gpu, size))
        elif what == "use":
            used = self.chance.choice([None, 0, GIB, 5 * GIB])
            self._hold_or_do(process, lambda: process.use(gpu, used))
        elif what == "free":
            self._hold_or_do(process, lambda: process.free(gpu, self.chance.choice([1, 2, 4])))
        else:
            self._hold_or_do(process, lambda: getattr(process, what)(gpu))
        pause = self.chance.choice([MILLISECOND, 100 * MILLISECOND, SECOND, 5 * SECOND])
        self.at(self.chance.randrange(pause) * self.pace, lambda: self._live(process))

    # The end.

    def calm_down(self) -> None:
        """Nothing fails any more: everybody who waits is let in, all agree, and nothing is left behind."""
        self.is_calm = True
        self.unhang_daemon()
        self.start_daemon()
        self.tell_node(ev.SchedulingSwitched(True))
        for process in list(self.processes.values()):
            self.go_on(process)
        processes = list(self.processes.values())
        self.play(until=self.now + 20 * SECOND)
        before = {
            (process.pid, gpu): use.worked
            for process in processes
            for gpu, use in process.uses.items()
            if use.has_work and not use.is_open
        }
        assert self.node is not None
        bound = max(gpu.longest_gang_wait_ns(len(processes)) for gpu in self.node.gpus.values())
        self.play(until=self.now + bound + self.clock_error + 20 * SECOND)
        laws.check_progress(processes, before)
        for process in processes:
            for gpu in process.uses:
                process.stop_working(gpu)
        self.play(until=self.now + bound + 20 * SECOND)
        laws.check_agreement(self.node, processes)
        for process in processes:
            self.kill(process)
        assert not self.node.clients
        assert all(group.operator is not None for group in self.node.groups.values()), "only operator limits are kept"
        assert all(not gpu.turns.seats and not gpu.turns.queue.order for gpu in self.node.gpus.values())

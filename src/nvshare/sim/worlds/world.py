"""One world: a scheduler that may die, processes that may stop, die or lose their connections, and time.

Everything random comes from one generator seeded with the world's number, and everything that happens comes out of one
heap, ordered by time and then by when it was put there. So a seed gives the same steps on every machine, and the digest
over them proves it."""

import heapq
import zlib
from collections import deque
from collections.abc import Callable
from random import Random

import msgspec

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND, SECOND, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.policies import POLICIES
from nvshare.sim.worlds import laws
from nvshare.sim.worlds.process import JOIN_NS, Connection, Process

GPUS = ("g0", "g1")
CARD = 16 * GIB
MOST_PROCESSES = 9
MOST_QUANTUM_NS = 60 * SECOND
MICROSECOND = 1000
MOST_RINGS = 20
"""Alarms at one moment: one may make the next due, but not for ever."""

_ENCODER = msgspec.msgpack.Encoder()


def _named(record: ev.Event | ac.Action) -> tuple[str, ev.Event | ac.Action]:
    return type(record).__name__, record


class World:
    """`run` plays it. What fails, and when, is chosen by sim.worlds.faults."""

    card = CARD

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
        self.settings = Settings(
            quantum=QuantumRule(
                mode=self.chance.choice(["auto", "fixed", "adaptive"]),
                fixed_ns=self.chance.choice([SECOND, 10 * SECOND, MOST_QUANTUM_NS]),
                most_ns=MOST_QUANTUM_NS,
            ),
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
        self.start_daemon()
        for _ in range(self.chance.randint(2, MOST_PROCESSES)):
            self.spawn()

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
        settles_at = self._node_now + self.settings.settle_ns if self._epoch else None
        self._epoch += 1
        self._armed_for = None
        self.node = Node(self.settings, epoch=self._epoch, settles_at=settles_at, is_paranoid=True)
        for gpu in GPUS:
            self.tell_node(ev.GpuFound(gpu, CARD))
        for process in self.processes.values():
            self.at(self.chance.randrange(SECOND), lambda process=process: self.connect(process))  # type: ignore[misc]

    def kill_daemon(self) -> None:
        self.node = None
        for process in list(self.processes.values()):
            self.cut(process)

    @property
    def _node_now(self) -> int:
        return self.now - self.clock_error

    def tell_node(self, event: ev.Event) -> None:
        """One step of the core: what follows from it is sent, and the laws are checked."""
        if self.node is None:
            return
        self.steps += 1
        now = self._node_now
        actions = self.node.handle(now, event)
        self.journal.append((now, event, tuple(actions)))
        self.digest = zlib.crc32(_ENCODER.encode((now, _named(event), list(map(_named, actions)))), self.digest)
        if actions:
            laws.check_numbers(self._given, actions, self.node)
            laws.check_budgets(self.node, actions)
        for part in (event, *actions):
            process = self._by_client.get(getattr(part, "client", None))
            if process is not None:
                if part is not event and not isinstance(part, ac.EndTurn):
                    self._send_down(process, part)  # type: ignore[arg-type]
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
            assert self._rings < MOST_RINGS, "the alarm never stops ringing"
            self.tell_node(ev.AlarmRang())

    # Processes and their connections.

    def spawn(self) -> None:
        self._last_pid += 1
        pid = self._last_pid
        gpus = self.chance.choice([["g0"], ["g0"], ["g1"], ["g0", "g1"]])
        own_limit = self.chance.choice([0, 0, 4 * GIB])
        process = Process(pid, self.chance.choice(["run/a", "run/b", f"run/{pid}"]), own_limit, gpus, self)
        self.processes[pid] = process
        for gpu in gpus:
            self.later(JOIN_NS, process, "run_alone", gpu)
        self.connect(process)
        self._live(process)

    def connect(self, process: Process) -> None:
        """As the helper thread does: at once, or again in a while."""
        connection = process.connection
        if process.pid not in self.processes or (connection is not None and connection.is_open):
            return
        if self.node is None or process.is_stopped or connection is not None:
            self.at(self.chance.randrange(20 * MILLISECOND, SECOND), lambda: self.connect(process))
            return
        self._last_client += 1
        process.connection = Connection(self._last_client, self._epoch)
        self._by_client[self._last_client] = process
        self.say(process, process.registration())

    def cut(self, process: Process) -> None:
        """A connection ends; each side notices when it does."""
        connection = process.connection
        if connection is None or not connection.is_open:
            return
        connection.is_open = False
        self._by_client.pop(connection.client, None)
        self._hold_or_do(process, process.lose)
        if self.node is not None and connection.client in self.node.clients:
            self.tell_node(ev.ClientLeft(connection.client))
        self.at(self.chance.randrange(20 * MILLISECOND, SECOND), lambda: self.connect(process))

    def kill(self, process: Process) -> None:
        del self.processes[process.pid]
        self._held.pop(process.pid, None)
        connection, process.connection = process.connection, None
        if connection is not None:
            connection.is_open = False
            self._by_client.pop(connection.client, None)
            if self.node is not None and connection.client in self.node.clients:
                self.tell_node(ev.ClientLeft(connection.client, "killed"))

    def stop(self, process: Process) -> None:
        process.is_stopped = True

    def go_on(self, process: Process) -> None:
        process.is_stopped = False
        for what in self._held.pop(process.pid, []):
            what()

    # The network. Order is kept in each direction of a connection; nothing else is promised.

    def say(self, process: Process, event: ev.Event) -> None:
        connection = process.connection
        assert connection is not None
        is_early = not connection.is_registered and isinstance(event, ev.LockRequested | ev.LockReleased)
        assert not is_early, f"p{process.pid} has not been answered yet: {event}"
        connection.said_at = max(connection.said_at, self.now + self._latency())
        self.at(connection.said_at - self.now, lambda: self._arrive(connection, event))

    def _arrive(self, connection: Connection, event: ev.Event) -> None:
        if connection.is_open and connection.epoch == self._epoch and self.node is not None:
            self.tell_node(event)

    def _send_down(self, process: Process, action: ac.Action) -> None:
        connection = process.connection
        assert connection is not None
        connection.heard_at = max(connection.heard_at, self.now + self._latency())
        self.at(connection.heard_at - self.now, lambda: self._hear(process, connection, action))

    def _hear(self, process: Process, connection: Connection, action: ac.Action) -> None:
        def take() -> None:
            if connection.is_open:
                process.hear(action)

        self._hold_or_do(process, take)

    def _latency(self) -> int:
        if self.is_calm or self.chance.random() < 0.95:
            return self.chance.randrange(10 * MICROSECOND, 500 * MICROSECOND)
        return self.chance.randrange(3 * SECOND)

    # What processes ask of their world.

    def later(self, delay_ns: int, process: Process, method: str, gpu: str) -> None:
        def call() -> None:
            if process.pid in self.processes:
                self._hold_or_do(process, lambda: getattr(process, method)(gpu))

        self.at(delay_ns, call)

    def drain_time(self, process: Process) -> int:
        if self.is_calm or self.chance.random() < 0.9:
            return self.chance.randrange(20 * MILLISECOND)
        return self.chance.randrange(15 * SECOND)

    def _hold_or_do(self, process: Process, what: Callable[[], None]) -> None:
        """What happens to a stopped process happens when it goes on."""
        if process.is_stopped:
            self._held.setdefault(process.pid, []).append(what)
        elif process.pid in self.processes:
            what()

    def _live(self, process: Process) -> None:
        """A program's next step of its own: it works, rests, allocates, frees."""
        if self.is_calm or process.pid not in self.processes:
            return
        gpu = self.chance.choice(list(process.places))
        what = self.chance.choice([*["work"] * 6, *["rest"] * 4, *["allocate"] * 2, *["free"] * 2, "end_contexts"])
        if what == "allocate":
            size = self.chance.choice([GIB // 16, GIB, 2 * GIB, 5 * GIB])
            self._hold_or_do(process, lambda: process.allocate(gpu, size))
        elif what == "free":
            self._hold_or_do(process, lambda: process.free(gpu, self.chance.choice([1, 2, 4])))
        else:
            self._hold_or_do(process, lambda: getattr(process, what)(gpu))
        pause = self.chance.choice([MILLISECOND, 100 * MILLISECOND, SECOND, 5 * SECOND])
        self.at(self.chance.randrange(pause), lambda: self._live(process))

    # The end.

    def calm_down(self) -> None:
        """Nothing fails any more: everybody who waits is let in, all agree, and nothing is left behind."""
        self.is_calm = True
        self.start_daemon()
        self.tell_node(ev.SchedulingSwitched(True))
        for process in list(self.processes.values()):
            self.go_on(process)
        processes = list(self.processes.values())
        self.play(until=self.now + 20 * SECOND)
        before = {
            (process.pid, gpu): place.worked
            for process in processes
            for gpu, place in process.places.items()
            if place.has_work and not place.turn.is_open
        }
        # Mode adaptive: two longest quanta of lag, and as much for a turn.
        most = 2 * MOST_QUANTUM_NS if self.settings.quantum.mode == "adaptive" else MOST_QUANTUM_NS
        bound = POLICIES[self.settings.policy].horizon_ns + most + len(processes) * (most + self.settings.grace_ns)
        self.play(until=self.now + bound + self.clock_error + 20 * SECOND)
        laws.check_progress(processes, before)
        for process in processes:
            for gpu, place in process.places.items():
                place.has_work = False
                process.look_idle(gpu)
        self.play(until=self.now + bound + 20 * SECOND)
        assert self.node is not None
        laws.check_agreement(self.node, processes)
        for process in processes:
            self.kill(process)
        assert not self.node.clients
        assert not self.node.groups
        assert all(not gpu.seats and not gpu.queue.order for gpu in self.node.gpus.values())

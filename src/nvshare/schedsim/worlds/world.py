"""One world: a scheduler that may die, processes that may stop, die or lose their connections, and time.

All that is random comes from one generator (chance), and all that happens from one heap (timeline). So a seed gives the
same steps on every machine, and the digest over them proves it."""

from uuid import UUID

from nvshare.client_machine.library import Config
from nvshare.core import events as ev
from nvshare.core.limits.group_names import POD_PREFIX, RUN_PREFIX
from nvshare.core.model import GIB, MILLISECOND, SECOND, QuantumRule, Settings
from nvshare.core.modes import MODES
from nvshare.core.node import Node
from nvshare.core.queue.policies import POLICIES
from nvshare.schedsim.worlds import laws
from nvshare.schedsim.worlds.chance import Chance
from nvshare.schedsim.worlds.daemon import Daemon
from nvshare.schedsim.worlds.gpu_use import GpuUse
from nvshare.schedsim.worlds.process import Process
from nvshare.schedsim.worlds.timeline import Timeline

GPUS = tuple(f"GPU-{UUID(int=number)}" for number in (1, 2))
CARD = 16 * GIB
MAX_PROCESSES = 9
MAX_QUANTUM_NS = 60 * SECOND
LONG_QUANTUM_NS = 1200 * SECOND
SLOW = 100
"""How much slower everything is in a slow world: hours pass, and waits last longer than an hour."""
SLOW_WITH_SHARES = 10
"""The same in every third slow world. Shares are looked at twice a second, so hours would be too many steps."""

CLAIMS = {"c1": 8 * GIB, "c2": 2 * GIB, "c3": 4 * GIB}
PODS = {"p1": ("c1",), "p2": ("c2",), "p3": ("c1", "c2"), "p4": ("c2", "c3")}
"""Pods by UID, and their claims, in every fourth world."""


def _cluster() -> tuple[ev.Event, ...]:
    """What Kubernetes says. Each claim is for both GPUs."""
    claims = [ev.ClaimPrepared(uid, uid, dict.fromkeys(GPUS, size)) for uid, size in CLAIMS.items()]
    return (*claims, *(ev.PodChanged(uid, uid, claims=names) for uid, names in PODS.items()), ev.PodsListed())


class World:
    """`play` lets it go on. What fails, and when, is chosen by schedsim.worlds.faults."""

    card = CARD
    is_paranoid = True
    """The core checks all that must hold after each step, which takes time in proportion to its clients."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = Chance(seed)
        self.timeline = Timeline(SECOND)
        self.processes: dict[int, Process] = {}
        self.pods = tuple(PODS) if seed % 4 == 1 else ()
        self.groups = [POD_PREFIX + uid for uid in self.pods] or [RUN_PREFIX + "a", RUN_PREFIX + "b"]
        """Those that may have several processes."""
        self.pace = self.chance.choice([SLOW, SLOW, SLOW_WITH_SHARES]) if self.chance.random() < 0.2 else 1
        self.settings = Settings(
            quantum=self._quantum_rule(),
            policy=self._policy(),
        )
        self.daemon = Daemon(
            self.timeline,
            self.chance,
            self.settings,
            cards=dict.fromkeys(GPUS, CARD),
            cluster=_cluster() if self.pods else (),
            processes=self.processes,
            is_paranoid=self.is_paranoid,
        )
        self._last_pid = 0
        self.daemon.start()
        for _ in range(self.chance.randint(2, MAX_PROCESSES)):
            self.spawn()

    def _policy(self) -> str:
        return self.chance.choice(["fcfs", *POLICIES])

    def _quantum_rule(self) -> QuantumRule:
        if self.pace > 1:
            quantum_ns = LONG_QUANTUM_NS * self.pace // SLOW
            return QuantumRule(mode="fixed", fixed_ns=quantum_ns, most_ns=quantum_ns)
        return QuantumRule(
            mode=self.chance.choice(list(MODES)),
            fixed_ns=self.chance.choice([SECOND, 10 * SECOND, MAX_QUANTUM_NS]),
            most_ns=MAX_QUANTUM_NS,
        )

    @property
    def now(self) -> int:
        return self.timeline.now

    def play(self, *, steps: int | None = None, until: int | None = None) -> None:
        """Let things happen until the scheduler has made so many steps, or until a time."""
        self.timeline.play(until=until, goes_on=lambda: steps is None or self.daemon.steps < steps)

    def sleep(self, time_ns: int) -> None:
        """The machine slept."""
        self.timeline.now += time_ns
        self.daemon.slept()
        for process in self.processes.values():
            process.went_on_at = self.now
            process.lookers.late()

    def spawn(self) -> None:
        self._last_pid += 1
        pid = self._last_pid
        gpus = self.chance.choice([[GPUS[0]], [GPUS[0]], [GPUS[1]], list(GPUS)])
        config = Config(
            own_limit=self.chance.choice([0, 0, 4 * GIB]), priority=self.chance.choice([-20, 0, 0, 0, 1, 10])
        )
        if self.pace < SLOW:
            config.weight = self.chance.choice([1, 100, 100, 300])
            config.core_limit = self.chance.choice([0] * 7 + [40])
        group = self.chance.choice([*self.groups, f"{RUN_PREFIX}{pid}"])
        counts_time = self.pace < SLOW and self.chance.random() < 0.7
        process = Process(pid, group, config, gpus, self, counts_time=counts_time)
        self.processes[pid] = process
        if self.chance.random() < 0.4:
            process.machine.use_collectives()  # With others of its group that do so it is a job.
        process.wake()
        self._live(process)

    def kill(self, process: Process) -> None:
        del self.processes[process.pid]
        process.die()
        self.daemon.process_died(process)

    # What processes ask of their world (process.Outside).

    def connect(self, process: Process) -> None:
        self.daemon.accept(process)

    def say(self, process: Process, frames: bytes) -> None:
        self.daemon.say(process, frames)

    def drain_later(self, process: Process, use: GpuUse) -> None:
        number = use.drains
        self.timeline.at(self.chance.drain_time(), lambda: process.do(lambda: process.drained(use, number)))

    def let_later(self, process: Process, use: GpuUse) -> None:
        number = use.lets
        self.timeline.at(self.chance.drain_time(), lambda: process.do(lambda: process.let_through(use, number)))

    # What processes do by themselves.

    def _live(self, process: Process) -> None:
        """A program's next step of its own: it works, rests, allocates, frees, and says what it uses, true or not."""
        if self.chance.is_calm or not process.is_alive:
            return
        gpu = self.chance.choice(list(process.uses))
        what = self.chance.choice(
            [*["work"] * 6, *["rest"] * 4, *["allocate"] * 2, *["free"] * 2, "end_contexts", "use", "slow_down"]
        )
        if what == "allocate":
            size = self.chance.choice([9 * GIB, 14 * GIB] if self.pace > 1 else [GIB // 16, GIB, 2 * GIB, 5 * GIB])
            process.do(lambda: process.allocate(gpu, size))
        elif what == "use":
            used = self.chance.choice([None, 0, GIB, 5 * GIB])
            process.do(lambda: process.use(gpu, used))
        elif what == "free":
            process.do(lambda: process.free(gpu, self.chance.choice([1, 2, 4])))
        else:
            process.do(lambda: getattr(process, what)(gpu))
        pause = self.chance.choice([MILLISECOND, 100 * MILLISECOND, SECOND, 5 * SECOND])
        self.timeline.at(self.chance.randrange(pause) * self.pace, lambda: self._live(process))

    # The end.

    def calm_down(self) -> None:
        """Nothing fails any more: every client that waits is admitted, all agree, and nothing is left behind."""
        self.chance.is_calm = True
        self.daemon.go_on()
        self.daemon.start()
        self.daemon.tell(ev.SchedulingSwitched(True))
        for process in list(self.processes.values()):
            process.go_on()
        processes = list(self.processes.values())
        self.play(until=self.now + 20 * SECOND)
        before = {
            (process.pid, gpu): use.worked
            for process in processes
            for gpu, use in process.uses.items()
            if use.has_work and not use.is_open
        }
        node = self.daemon.node
        assert node is not None
        bound = max(gpu.longest_gang_wait_ns(len(processes)) for gpu in node.gpus.values())
        end = self.now + bound + self.daemon.clock_error + 20 * SECOND
        while self.now < end and not laws.has_progressed(processes, before):
            self.play(until=min(end, self.now + 10 * SECOND))
        laws.check_progress(processes, before)
        for process in processes:
            for gpu in process.uses:
                process.stop_working(gpu)
        self.play(until=self.now + bound + 20 * SECOND)
        laws.check_agreement(node, processes)
        used = self._gpu_time(node)
        self.play(until=self.now + 5 * SECOND)
        laws.check_rest(processes, used, self._gpu_time(node))
        for process in processes:
            laws.check_looks(process)
            self.kill(process)
        assert not node.clients
        for pod in self.pods:
            self.daemon.tell(ev.PodRemoved(pod))
        assert all(group.is_ordered for group in node.groups.values()), "only what the operator said is kept"
        assert all(not gpu.turns.seats and not gpu.turns.queue.order for gpu in node.gpus.values())

    def _gpu_time(self, node: Node) -> dict[tuple[int, str], int]:
        """What each client has had of each GPU until now."""
        self.daemon.tell(ev.GpuTimeAsked())
        return {(client.id, gpu): seat.gpu_ns for client in node.clients.values() for gpu, seat in client.seats.items()}

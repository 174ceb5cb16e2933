"""A machine with thousands of clients for days of its time: waits of hours, and nothing that grows.

About twenty times an hour a client begins to compute. It needs most of a GPU for about 20 minutes, so the queues are
hours long. A fault happens every few hours; a killed process is replaced. Clients are libnvshare's own machine, as in
every world. The operator may set another policy or quantum, for at most an hour."""

import resource
from collections.abc import Iterator
from pathlib import Path

from nvshare.core.events import PolicySet, QuantumSet
from nvshare.core.limits.group_names import RUN_PREFIX
from nvshare.core.model import GIB, SECOND, QuantumRule
from nvshare.record import Record
from nvshare.schedsim.worlds import laws
from nvshare.schedsim.worlds.faults import FAULTS
from nvshare.schedsim.worlds.gpu_use import GpuUse
from nvshare.schedsim.worlds.process import Process
from nvshare.schedsim.worlds.world import GPUS, LONG_QUANTUM_NS, World

HOUR = 3600 * SECOND
BEGINNINGS_PER_HOUR = 20
"""Of all clients together, however many there are: less, and nobody would wait once the first ones have finished."""
FIRST_BEGINNINGS = 150
"""How many clients begin at once, at the start; at most this share of them."""
MAX_SHARE = 0.2
COMPUTE_NS = 1200 * SECOND
FAULT_NS = 3 * HOUR
COUNT_OF_A_RUN = 4


class Hour(Record, frozen=True):
    """One hour of the machine."""

    hour: int
    steps: int
    turns: int
    """Locks that were given."""
    clients: int
    waiting: int
    longest_wait_s: float
    memory_bytes: int


class Week(World):
    """`hours` plays it."""

    is_paranoid = False

    def __init__(self, seed: int, clients: int) -> None:
        self._share = min(MAX_SHARE, FIRST_BEGINNINGS / clients)
        """How often a client computes when it considers to."""
        self._pause_ns = int(clients * self._share / BEGINNINGS_PER_HOUR * HOUR)
        """How long it rests before, on average."""
        super().__init__(seed)
        while len(self.processes) < clients:
            self.spawn()
        self._fail_soon()

    def _policy(self) -> str:
        """Not fair: there a round of all takes 15 minutes, however many wait, and nobody would wait for hours."""
        return "fcfs"

    def _take_back_orders(self) -> None:
        """Otherwise they would hold until the next restart, for days: turns of seconds, in which less work is done."""
        self.daemon.tell(PolicySet(self._policy()))
        self.daemon.tell(QuantumSet(LONG_QUANTUM_NS))

    def _quantum_rule(self) -> QuantumRule:
        return QuantumRule(mode="fixed", fixed_ns=LONG_QUANTUM_NS, most_ns=LONG_QUANTUM_NS)

    def spawn(self) -> None:
        self._last_pid += 1
        pid = self._last_pid
        process = Process(
            pid, f"{RUN_PREFIX}{pid // COUNT_OF_A_RUN}", self.chance.choice([0, 40 * GIB]), [self._gpu()], self
        )
        self.processes[pid] = process
        process.wake()
        self._live(process)

    def kill(self, process: Process) -> None:
        super().kill(process)
        if not self.chance.is_calm:
            self.spawn()

    def hours(self, count: int) -> Iterator[Hour]:
        """Play so many hours; what each was like."""
        for hour in range(count):
            before = self.daemon.steps
            self.play(until=self.now + HOUR)
            turns = len(self.daemon.given)
            self.daemon.given.clear()  # or this record of all locks, which is ours, would grow
            self._take_back_orders()
            waits = [wait for process in self.processes.values() for wait in self._waits(process)]
            self._check_waits(waits)
            longest_s = max(waits, default=0) / SECOND
            clients = len(self.daemon.node.clients) if self.daemon.node else 0
            yield Hour(hour, self.daemon.steps - before, turns, clients, len(waits), longest_s, _memory_bytes())

    def end(self) -> None:
        """Nobody computes any more: all agree, and nothing is left behind."""
        self.chance.is_calm = True
        self.daemon.go_on()
        self.daemon.start()
        processes = list(self.processes.values())
        for process in processes:
            process.go_on()
            for gpu in process.uses:
                process.stop_working(gpu)
        self.play(until=self.now + 2 * (LONG_QUANTUM_NS + self.settings.grace_ns))
        node = self.daemon.node
        assert node is not None
        laws.check_agreement(node, processes)
        for process in processes:
            self.kill(process)
        assert not node.clients
        assert all(not gpu.turns.seats and not gpu.turns.queue.order for gpu in node.gpus.values())

    def _gpu(self) -> str:
        return self.chance.choice(GPUS)

    def _live(self, process: Process) -> None:
        """It computes with most of a GPU until that is done, frees it, and rests for hours."""
        if self.chance.is_calm or not process.is_alive:
            return
        (use,) = process.uses.values()
        if use.has_work:
            process.do(lambda: self._finish(process, use))
        elif self.chance.random() < self._share:
            process.do(lambda: self._begin(process, use))
        pause = COMPUTE_NS if use.has_work else 2 * self._pause_ns
        self.timeline.at(self.chance.randrange(pause), lambda: self._live(process))

    def _begin(self, process: Process, use: GpuUse) -> None:
        process.allocate(use.gpu, 13 * GIB)
        process.work(use.gpu)

    def _finish(self, process: Process, use: GpuUse) -> None:
        if use.is_open:
            process.stop_working(use.gpu)
            process.free(use.gpu, 1)

    def _waits(self, process: Process) -> list[int]:
        return [self.now - use.waits_since for use in process.uses.values() if use.waits_since is not None]

    def _check_waits(self, waits: list[int]) -> None:
        node = self.daemon.node
        if node is None:
            return
        bound = max(gpu.longest_gang_wait_ns(len(self.processes)) for gpu in node.gpus.values())
        assert max(waits, default=0) <= bound, "nobody waits longer than the core says"

    def _fail_soon(self) -> None:
        def fail() -> None:
            if not self.chance.is_calm:
                self.chance.choices(list(FAULTS), list(FAULTS.values()))[0](self)
                self._fail_soon()

        self.timeline.at(self.chance.randrange(2 * FAULT_NS), fail)


def _memory_bytes() -> int:
    """Resident memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

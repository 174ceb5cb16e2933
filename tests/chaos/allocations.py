"""Real processes that share a limit and allocate as fast as they can, while some and their scheduler are killed and the
limit is changed. Each allocation is judged (oracle.h): refused although it fitted all the time, or allowed over the
limit."""

import ctypes
import mmap
import os
import random
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from chaos.atomic_add import atomic_add
from nvshare import admin
from nvshare.cli import operator_client
from support.client import GIB
from support.daemon import Daemon
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "src" / "nvshare" / "_native" / "libnvshare.so"
NULL_DRIVER = ROOT / "build" / "native" / "null"
RUN = "c4a05" + "0" * 27
LIMITS = (2 * GIB, 3 * GIB, 4 * GIB, 6 * GIB, 20 * GIB)
"""All threads together want 4 GiB on average and 18 GiB at most."""
MAX_EXCUSED = 0.001
"""Of all allocations: those that were refused wrongly while some process did not get the processor."""
LONG_WAITS = dict.fromkeys(("NVSHARE_ORPHAN_WAIT_MS", "NVSHARE_ASK_MS", "NVSHARE_JOIN_MS"), "60000")
STALL_MS, LOOK_S = 100, 0.25
"""The scheduler waited for a processor for so long within the time from one look to the next."""
PROCESSES, THREADS, COMPLAINTS = 16, 16, 48
ABOUT = ("refused although it fitted", "allowed over the limit", "refused although it fitted, excused")
KINDS = ("plain", "managed", "pitch", "pool", "handle", "mapped", "array")


class Part(ctypes.Structure):
    """One thread's part of the sums."""

    _fields_ = [(name, ctypes.c_int64) for name in ("upper", "lower", "peak", "calls")]


class Complaint(ctypes.Structure):
    """A wrong answer."""

    _fields_ = [(name, ctypes.c_int64) for name in ("about", "kind", "size", "sum", "limit", "process", "at_ms")]


class Oracle(ctypes.Structure):
    """As in oracle.h."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("upper", "lower", "least_limit", "most_limit", "changes", "ready")),
        *((name, ctypes.c_int64) for name in ("wanted", "is_over", "allocations", "refusals", "wrong_refusals")),
        ("over_limit", ctypes.c_int64),
        *((name, ctypes.c_int64) for name in ("failures", "excused", "stalled_ms", "longest_stall_ms")),
        ("seen_limit", ctypes.c_int64 * PROCESSES),
        ("complaints", Complaint * COMPLAINTS),
        ("parts", (Part * THREADS) * PROCESSES),
    ]


@dataclass
class Plan:
    """How much of everything."""

    allocations: int = 1_000_000
    processes: int = 6
    threads: int = 8
    seed: int = 1
    kill_every_s: float = 3.0
    restart_every_s: float = 20.0
    change_every_s: float = 1.5
    most_s: float = 3600.0
    has_shipped_waits: bool = False
    """The library waits for a scheduler and its answers as long as it does by default. Otherwise it waits longer: a
    busy machine may take long to start a scheduler, and a process that waits no longer has the whole limit."""


@dataclass
class Report:
    """What was done and how it ended."""

    seconds: float = 0.0
    allocations: int = 0
    refusals: int = 0
    wrong_refusals: int = 0
    over_limit: int = 0
    failures: int = 0
    excused: int = 0
    """Refusals that were wrong, but in a second in which some process had not got the processor for 100 ms or more."""
    longest_stall_ms: int = 0
    done: dict[str, int] = field(default_factory=lambda: {"kill": 0, "restart": 0, "change": 0})
    complaints: list[str] = field(default_factory=list)
    excuses: list[str] = field(default_factory=list)
    """The first of the excused refusals."""

    def wrong(self, plan: Plan) -> list[str]:
        """All that must not be."""
        found = list(self.complaints)
        if self.failures:
            found.append(f"{self.failures} calls failed otherwise than for want of memory")
        if self.allocations < plan.allocations:
            found.append(f"{self.allocations} allocations instead of {plan.allocations}")
        if self.excused > self.allocations * MAX_EXCUSED:
            found.append(f"{self.excused} refusals on a machine that is too busy for a verdict")
        return found


def _processor_delay_ms(pid: int) -> int:
    """How long the process has been ready to run without running; 0 if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) // 1_000_000
    except (OSError, IndexError):
        return 0


class Allocations:
    """One run."""

    def __init__(self, place: Path, plan: Plan) -> None:
        self.place, self.plan = place, plan
        self.chance = random.Random(plan.seed)
        self.report = Report()
        self.path = place / "oracle"
        self.path.write_bytes(bytes(ctypes.sizeof(Oracle)))
        with self.path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)
        self.oracle = Oracle.from_buffer(self._memory)
        self.oracle.least_limit = self.oracle.most_limit = LIMITS[0]
        self.program = self._build()
        self.started = 0
        self.faults: list[tuple[int, str]] = []
        """When each began and had ended, in milliseconds of the monotonic clock."""
        self.daemon = self._start_daemon()
        self.processes = [self._start(number) for number in range(plan.processes)]

    def _build(self) -> Path:
        program = self.place / "allocator"
        include = [f"-I{ROOT / part}" for part in ("tests/native", "native/include")]
        source = str(ROOT / "tests" / "chaos" / "allocator.c")
        words = ["cc", "-std=gnu11", "-O2", "-Wall", "-Werror", *include, source, "-ldl", "-lpthread"]
        subprocess.run([*words, "-o", str(program)], check=True)
        return program

    def _start_daemon(self) -> Daemon:
        return Daemon(self.place / "d")

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        values = {**os.environ, "LD_PRELOAD": str(LIBRARY), "LD_LIBRARY_PATH": str(NULL_DRIVER)}
        values |= {"NVSHARE_SOCKET": self.daemon.socket, "NVSHARE_RUN_ID": RUN, "NVSHARE_RECONNECT_MS": "100"}
        values |= {"NVSHARE_GPU_MEMORY_LIMIT": str(LIMITS[0])} | ({} if self.plan.has_shipped_waits else LONG_WAITS)
        self.started += 1
        words = [str(self.program), str(self.path), str(number), str(self.plan.threads)]
        log = (self.place / f"allocator-{self.started}.log").open("wb")
        return subprocess.Popen([*words, str(self.plan.seed * 1000 + self.started)], env=values, stderr=log)

    def run(self) -> Report:
        wait_until(lambda: self.oracle.ready == self.plan.processes, "all processes have begun")
        self.oracle.wanted = self.plan.allocations
        began = time.monotonic()
        plan = self.plan
        faults = {
            "kill": (plan.kill_every_s, self._kill),
            "restart": (plan.restart_every_s, self._restart),
            "change": (plan.change_every_s, self._change),
        }
        threading.Thread(target=self._watch_scheduler, daemon=True).start()
        due = {name: began + every * self.chance.uniform(0.3, 1.0) for name, (every, _) in faults.items()}
        try:
            while self.oracle.allocations < plan.allocations and time.monotonic() - began < plan.most_s:
                name = min(due, key=lambda name: due[name])
                time.sleep(min(0.1, max(0.0, due[name] - time.monotonic())))
                if time.monotonic() >= due[name]:
                    every, fault = faults[name]
                    self._note(f"a {name} began")
                    fault()
                    self._note(f"a {name} had ended")
                    self.report.done[name] += 1
                    due[name] = time.monotonic() + every * self.chance.uniform(0.5, 1.5)
            self._end()
        finally:
            for process in self.processes:
                process.kill()
                process.wait()
            self.daemon.kill()
        self.report.seconds = time.monotonic() - began
        return self._judgement()

    def _watch_scheduler(self) -> None:
        """Note when the scheduler waited for a processor for long, as the allocators do for themselves."""
        before = 0
        while not self.oracle.is_over:
            delay_ms = _processor_delay_ms(self.daemon.pid)
            if delay_ms - before >= STALL_MS and before:
                self.oracle.stalled_ms = time.monotonic_ns() // 1_000_000
            before = delay_ms
            time.sleep(LOOK_S)

    def _note(self, what: str) -> None:
        self.faults.append((time.monotonic_ns() // 1_000_000, what))

    # What is done to them.

    def _kill(self) -> None:
        self._replace_process()
        self._await_all()

    def _replace_process(self) -> None:
        """A process is killed. The books say that its memory may be free from before that on, and is from after it."""
        number = self.chance.randrange(self.plan.processes)
        process, parts = self.processes[number], self.oracle.parts[number]
        process.send_signal(signal.SIGSTOP)
        if process.returncode is not None or not os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1]):
            assert self.oracle.allocations >= self.plan.allocations, "a process ends by itself when all is done"
            return  # One that has not stopped would go on changing its part.
        for part in parts:
            self._add("lower", -part.lower)
        process.kill()
        process.wait()
        for part in parts:
            self._add("upper", -part.upper)
            part.upper = part.lower = part.peak = part.calls = 0
        self.processes[number] = self._start(number)

    def _restart(self) -> None:
        """While it is away, a process is replaced; the new one must not allocate before it knows its part."""
        self.daemon.kill()
        self._replace_process()
        self.daemon = self._start_daemon()
        self._await_all()

    def _await_all(self) -> None:
        def are_there() -> bool:
            gpus = self.daemon.status()["gpus"]
            is_over = self.oracle.allocations >= self.plan.allocations
            return is_over or (bool(gpus) and len(gpus[0]["clients"]) == self.plan.processes)

        wait_until(are_there, "all processes have registered")

    def _change(self) -> None:
        oracle = self.oracle
        old, new = oracle.most_limit, self.chance.choice(LIMITS)
        oracle.least_limit, oracle.most_limit = min(old, new), max(old, new)
        for number in range(self.plan.processes):
            oracle.seen_limit[number] = 0
        oracle.changes += 1
        operator_client.ask(self.daemon.operator_socket, admin.SetLimit(f"{os.getuid()}-{RUN}", new))
        wait_until(lambda: self._is_in_force(new), "the new limit is in force", 60)
        oracle.least_limit = oracle.most_limit = new
        oracle.changes += 1

    def _is_in_force(self, limit: int) -> bool:
        """Until it is, the old limit or the new one may count."""
        is_over = self.oracle.allocations >= self.plan.allocations  # the processes end by themselves
        return is_over or all(self.oracle.seen_limit[number] == limit for number in range(self.plan.processes))

    def _end(self) -> None:
        self.oracle.is_over = 1
        for process in self.processes:
            if process.wait(60) != 0:
                self.report.complaints.append(f"a process ended with {process.returncode}")
        if self.oracle.lower != 0:
            self.report.complaints.append(f"{self.oracle.lower} bytes are left over in the oracle's books")

    def _add(self, name: str, change: int) -> None:
        """An atomic addition: the processes that live go on changing the sum."""
        address = ctypes.addressof(self.oracle) + getattr(Oracle, name).offset
        atomic_add(self.place, address, change)

    def _judgement(self) -> Report:
        report, oracle = self.report, self.oracle
        for name in (
            "allocations",
            "refusals",
            "wrong_refusals",
            "over_limit",
            "failures",
            "excused",
            "longest_stall_ms",
        ):
            setattr(report, name, getattr(oracle, name))
        for one in oracle.complaints:
            if one.size:
                what = ABOUT[one.about]
                when = max((fault for fault in self.faults if fault[0] <= one.at_ms), default=(0, "the beginning"))
                (report.excuses if what == ABOUT[-1] else report.complaints).append(
                    f"{what}: {KINDS[one.kind]} {one.size} of process {one.process}, sum {one.sum}, limit {one.limit},"
                    f" {one.at_ms - when[0]} ms after {when[1]}"
                )
        return report

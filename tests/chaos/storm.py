"""Real processes on a simulated GPU, and everything that can be done to them and to their scheduler.

The programs (computer.c) check their own results. Faults are chosen by a seed; what the kernel makes of them is not, so
a seed repeats the plan and not the outcome. At the end every program that was not killed must have finished with the
right result, a newcomer must get the lock at once, and the daemon must be as small as before."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.trace import Kind, TraceError, read_trace
from support.client import GIB, WireClient
from support.daemon import Daemon
from support.waiting import wait_until

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "src" / "nvshare" / "_native" / "libnvshare.so"
END_S = 180.0
"""After so long without the end of a program, nothing happens any more."""
SCALE = 0.01
SLOW_MOVES = {"trace": True, "evict_bandwidth": "200M"}
"""9 GiB take half a second to the host, so that faults happen meanwhile."""
LARGE_MIB = 7 * 1024, 7 * 1024 + 512
"""Two of these do not fit together. One fits beside the contexts of 20 programs, which count as 400 MiB each without
NVML: of 16 GiB and a reserve of 1 GiB, 19 other contexts leave 7760 MiB."""
KERNELS_PER_ROUND = 4
MAX_GROWTH = 4 << 20
MIN_KILLS = 3  # also where the start of a daemon takes seconds


@dataclass
class Plan:
    """How much of everything."""

    seconds: float = 60.0
    clients: int = 20
    rounds: int = 400
    crowd: int = 1000
    seed: int = 1
    every_s: float = 1.0


@dataclass
class Report:
    """What was done and how it ended."""

    done: Counter[str] = field(default_factory=Counter)
    finished: int = 0
    killed: int = 0
    wrong: list[str] = field(default_factory=list)
    moved_out: int = 0
    """Programs that moved memory to the host in bulk."""
    seconds: float = 0.0
    memory_growth: int = 0
    descriptors: tuple[int, int] = (0, 0)

    def count(self, what: str) -> None:
        self.done[what] += 1


def build_computer(place: Path) -> Path:
    program = place / "computer"
    include = [f"-I{ROOT / part}" for part in ("tests/native", "native/include", "native/libnvshare")]
    source = str(ROOT / "tests" / "chaos" / "computer.c")
    subprocess.run(["cc", "-std=gnu11", "-O1", *include, source, "-ldl", "-o", str(program)], check=True)
    return program


class Storm:
    """One run."""

    def __init__(self, place: Path, plan: Plan) -> None:
        self.place, self.plan = place, plan
        self.chance = random.Random(plan.seed)
        self.report = Report()
        self.programs: list[subprocess.Popen[str]] = []
        self.victims: set[int] = set()
        self.stopped: dict[int, float] = {}
        self._card = place / "card"
        self._card.mkdir()
        self.computer = build_computer(place)
        self.options = (
            "--switch-time-mode=fixed",
            "--switch-time-fixed=1",
            "--settle-seconds=0.3",
            "--grace-seconds=2",
        )
        self.daemon = self._start_daemon()

    def _start_daemon(self) -> Daemon:
        return Daemon(self.place / "d", *self.options, "--journal-file", "/dev/full")

    @property
    def _kernel_us(self) -> int:
        """So long that all programs together have work for a little longer than faults go on."""
        kernels = self.plan.clients * self.plan.rounds * KERNELS_PER_ROUND
        return round(1.2 * self.plan.seconds / kernels / SCALE * 1e6)

    def start_program(self, number: int) -> None:
        card = SimGpu().with_values(directory=str(self._card), gpus=1, memory="16Gi", scale=SCALE, **SLOW_MOVES)
        values = {**os.environ, **card.environment({}), "NVSHARE_SOCKET": self.daemon.socket}
        values |= {"LD_PRELOAD": str(LIBRARY), "NVSHARE_RECONNECT_MS": "200"}
        memory = self.chance.choice((256, 1024, 6 * 1024) if number % 2 else LARGE_MIB)
        words = [str(self.computer), str(memory), str(self.plan.rounds), str(self._kernel_us), str(number)]
        errors = (self.place / f"computer-{number}.log").open("wb")
        self.programs.append(subprocess.Popen(words, env=values, stdout=subprocess.PIPE, stderr=errors, text=True))

    def run(self) -> Report:
        began = time.monotonic()
        try:
            for number in range(self.plan.clients):
                self.start_program(number)
            self._rage(began)
            self._go_on(all_of_them=True)
            self._wait_for_all()
            self.report.moved_out = self._count_movers()
            self._look_back()
        finally:
            for program in self.programs:
                program.kill()
                program.wait()
            self.daemon.kill()
        self.report.seconds = time.monotonic() - began
        return self.report

    # What is done to them.

    def _rage(self, began: float) -> None:
        """A fault every so often; the daemon is killed with each."""
        faults = [self._kill_program, self._stop_program, self._stop_program, self._take_directory, self._nothing]
        while time.monotonic() - began < self.plan.seconds or self.report.done["daemon killed"] < MIN_KILLS:
            due = time.monotonic() + self.plan.every_s * self.chance.uniform(0.5, 1.5)
            self.chance.choice(faults)()
            self._go_on()
            self._restart_daemon()
            self.report.count("daemon killed")
            time.sleep(max(0.0, due - time.monotonic()))

    def _restart_daemon(self) -> None:
        if self.daemon.process.poll() is not None:
            self.report.wrong.append(f"the daemon ended with {self.daemon.process.returncode}: {self.daemon.log.text}")
        self.daemon.kill()
        self.daemon = self._start_daemon()

    def _alive(self) -> list[subprocess.Popen[str]]:
        return [one for one in self.programs if one.poll() is None and one.pid not in self.stopped]

    def _kill_program(self) -> None:
        alive = self._alive()
        if len(self.victims) < self.plan.clients // 4 and alive:
            one = self.chance.choice(alive)
            self.victims.add(one.pid)
            one.kill()
            self.report.count("program killed")

    def _stop_program(self) -> None:
        alive = self._alive()
        if alive:
            one = self.chance.choice(alive)
            one.send_signal(signal.SIGSTOP)
            self.stopped[one.pid] = time.monotonic() + self.chance.uniform(0.5, 4)
            self.report.count("program stopped")

    def _go_on(self, *, all_of_them: bool = False) -> None:
        for pid, until in list(self.stopped.items()):
            if all_of_them or time.monotonic() >= until:
                del self.stopped[pid]
                next(one for one in self.programs if one.pid == pid).send_signal(signal.SIGCONT)

    def _take_directory(self) -> None:
        """The socket's directory is removed; the scheduler makes it again and listens there."""
        shutil.rmtree(Path(self.daemon.socket).parent, ignore_errors=True)  # it may be made again meanwhile
        try:
            wait_until(Path(self.daemon.socket).exists, "the socket is back after its directory was removed")
        except AssertionError as error:
            self.report.wrong.append(str(error))
            return
        self.report.count("directory removed")

    def _nothing(self) -> None:
        self.report.count("left alone")

    def _count_movers(self) -> int:
        """Programs that prefetched memory to the host. Of one that was killed at its start there is no whole trace."""
        count = 0
        for path in (self._card / "trace").glob("*.trace"):
            with contextlib.suppress(TraceError):
                count += any(not record.detail for record in read_trace(path).of_kind(Kind.PREFETCH))
        return count

    # How it ends.

    def _wait_for_all(self) -> None:
        deadline = time.monotonic() + END_S
        for number, program in enumerate(self.programs):
            try:
                said, _ = program.communicate(timeout=max(1.0, deadline - time.monotonic()))
                deadline = time.monotonic() + END_S
            except subprocess.TimeoutExpired:
                self.report.wrong.append(f"program {number} waits for ever")
                continue
            if program.pid in self.victims:
                self.report.killed += 1
            elif program.returncode == 0 and said.splitlines()[-1:] == ["right"]:
                self.report.finished += 1
            else:
                log = (self.place / f"computer-{number}.log").read_text(errors="replace")[-500:]
                self.report.wrong.append(f"program {number} ended with {program.returncode}: {said!r} {log!r}")

    def _look_back(self) -> None:
        """A fresh daemon, a crowd that comes and goes, descriptors used up; then all is as it was."""
        self._restart_daemon()
        with self.daemon.client().register() as one:
            one.take_lock(GIB)
        self._crowd()  # the first one shows how large it gets; the second must not make it larger
        before = (self.daemon.memory_bytes(), self.daemon.descriptors())
        self._crowd()
        with self.daemon.client().register() as one:
            one.take_lock(GIB)
        self._wait_empty()
        self.report.memory_growth = self.daemon.memory_bytes() - before[0]
        self.report.descriptors = (before[1], self._descriptors_at_rest(before[1]))
        if self.report.memory_growth > MAX_GROWTH:
            self.report.wrong.append(f"the daemon grew by {self.report.memory_growth >> 20} MiB")
        if self.report.descriptors[1] > self.report.descriptors[0]:
            self.report.wrong.append(
                f"descriptors: {self.report.descriptors[0]} before, {self.report.descriptors[1]} after"
            )

    def _descriptors_at_rest(self, wanted: int) -> int:
        """Our own last question may still be open there for a moment."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: self.daemon.descriptors() <= wanted, "the last question is closed")
        return self.daemon.descriptors()

    def _crowd(self) -> None:
        self._wait_empty()
        crowd: list[WireClient] = [self.daemon.client().register() for _ in range(self.plan.crowd)]
        assert len(self._seats()) == self.plan.crowd
        for one in crowd:
            one.close()
        self._wait_empty()

    def _seats(self) -> list[dict[str, Any]]:
        return [seat for gpu in self.daemon.status()["gpus"] for seat in gpu["clients"]]

    def _wait_empty(self) -> None:
        wait_until(lambda: not self._seats(), "those who left are forgotten")


def few_descriptors(place: Path) -> None:
    """A daemon with hardly any descriptors refuses clients beyond them, and serves again when others have left."""
    daemon = Daemon(place, wrapper=("prlimit", "--nofile=80:80"))
    clients: list[WireClient] = []
    try:
        refused = 0
        for _ in range(60):
            client = daemon.client(timeout=10)
            try:
                clients.append(client.register())
            except (ConnectionError, TimeoutError):
                refused += 1
                client.close()
        assert refused, "80 descriptors were enough for 60 clients"
        assert clients, "no client was accepted"
        daemon.assert_alive()
        for client in clients:
            client.close()
        deadline = time.monotonic() + 60
        while True:
            try:
                with daemon.client(timeout=10).register() as one:
                    one.take_lock(GIB)
                break
            except ConnectionError:
                assert time.monotonic() < deadline, "it never serves again"
        daemon.assert_alive()
    finally:
        daemon.kill()

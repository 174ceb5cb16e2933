"""A load of programs that end in every way, some of them slowly. As loads.py."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path

import msgspec

from chaos.loads import Load, Result, judge
from libnvshare.held_turns import Span, common
from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, GIB, MIB, Program
from nvshare.simgpu.trace import ProcessTrace, trespasses

LIMIT = 4 * GIB
CONTEXT = 1 * MIB
LEAVERS = 6
SLOW_MS = 300
KERNEL_US = 1000
ENDS = ("exit", "kill", "slow exit", "abort", "exit", "slow end")
"""A program that exits slowly computes in its exit handlers; one that ends slowly keeps its memory for a while after
its connection is closed."""
SIGNALS = {"kill": signal.SIGKILL, "abort": signal.SIGABRT}
SAMPLER = """
import sys, pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
most = samples = 0
print("sampling", flush=True)
import select
while not select.select([sys.stdin], [], [], 0.0005)[0]:
    most, samples = max(most, pynvml.nvmlDeviceGetMemoryInfo(card).used), samples + 1
print(most, samples)
"""

LateKernel = tuple[int, int, int]
"""The process ID, and when the call for a kernel of an exit handler began and ended."""


class _Leavers:
    """Programs of one run on one card, a few at a time: each allocates, and ends as soon as it has the memory."""

    def __init__(self, machine: Machine) -> None:
        self.left: Counter[str] = Counter()
        self.late_kernels: list[LateKernel] = []
        self._is_over = threading.Event()
        self._machine = machine
        self._run = {
            "NVSHARE_RUN_ID": "07" * 16,
            "NVSHARE_GPU_MEMORY_LIMIT": str(LIMIT),
            "NVSHARE_MEMORY_MODE": "native",
        }

    def run(self, seconds: float) -> None:
        with ThreadPoolExecutor(LEAVERS) as threads:
            leavers = [threads.submit(self._start_and_leave, number) for number in range(LEAVERS)]
            self._is_over.wait(seconds)
            self._is_over.set()
        for leaver in leavers:
            leaver.result()

    def _start_and_leave(self, number: int) -> None:
        for way in islice(cycle(ENDS), number, None):
            how = ("slowexit",) if way == "slow exit" else ()
            program = self._machine.start(CHECKS / "lib_client", "dlsym", *how, **self._run)
            program.do("init 0")
            while program.ask(f"alloc {GIB}")[0] != "0" and not self._is_over.is_set():
                pass
            program.do(f"spin {KERNEL_US} 1")
            program.do("sync")
            self._leave(program, way)
            program.process.communicate(timeout=60)
            self.left[way] += 1
            if self._is_over.is_set():
                return

    def _leave(self, program: Program, way: str) -> None:
        if way in SIGNALS:
            program.process.send_signal(SIGNALS[way])
        elif way == "slow end":
            program.say(f"endslowly {SLOW_MS}")
        else:
            program.say("exit 0")
        if way == "slow exit":
            assert program.answer() == ["0", "exiting"]
            self._compute_in_exit_handler(program)
            program.say("exit 0")

    def _compute_in_exit_handler(self, program: Program) -> None:
        end = time.monotonic() + SLOW_MS / 1000
        while time.monotonic() < end:
            began = time.monotonic_ns()
            program.do(f"spin {KERNEL_US} 1")
            program.do("sync")
            self.late_kernels.append((program.process.pid, began, time.monotonic_ns()))


def _turns_by_pid(journal: Path) -> dict[int, list[Span]]:
    """The ID of a client that has left may be given again: the process is the one that had it when the turn began."""
    pids: dict[int, int] = {}
    begun: dict[int, tuple[int, int]] = {}
    turns = defaultdict[int, list[Span]](list)
    for line in journal.read_bytes().splitlines():
        step = msgspec.json.decode(line)
        if registered := step.get("event", {}).get("ClientRegistered"):
            pids[registered["client"]] = registered["pid"]
        for action in step.get("actions", ()):
            for name, fields in action.items():
                if name == "GiveLock":
                    begun[fields["lock"]] = pids[fields["client"]], step["now"]
                elif name == "EndTurn":
                    pid, since = begun[fields["lock"]]
                    turns[pid].append((since, step["now"]))
    return turns


def _outside_of_turns(journal: Path, traces: list[ProcessTrace], late: list[LateKernel]) -> tuple[int, int, int]:
    """How many kernels are in the card's trace; how many of them, and of those of exit handlers, had no turn. The trace
    of a process ends with its first exit handler: of later kernels only the calls are known."""
    turns = _turns_by_pid(journal)
    holds = {(trace.process, trace.uuids[0]): turns.get(trace.pid, []) for trace in traces}
    early = len(trespasses(traces, holds))
    without = [pid for pid, began, ended in late if not common(turns.get(pid, []), [(began, ended)])]
    return sum(len(trace.kernels()) for trace in traces), early, len(without)


@contextlib.contextmanager
def _sampling(machine: Machine) -> Iterator[Callable[[], tuple[int, int]]]:
    """Looks at the card as often as it can; at the end, the most that was allocated, and how many looks."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    environment = {**machine.environment, "LD_PRELOAD": ""}
    command = [sys.executable, "-c", SAMPLER]
    with subprocess.Popen(command, env=environment, text=True, **pipes) as sampler:  # type: ignore[call-overload]
        assert sampler.stdout.readline() == "sampling\n"

        def end() -> tuple[int, int]:
            most, samples = map(int, sampler.communicate("\n", timeout=60)[0].split())
            return most, samples

        try:
            yield end
        finally:
            sampler.kill()


def exit_storm(place: Path, seconds: float) -> Result:
    """7: programs of one run that allocate, and end in every way. The simulated card says how much is allocated, and
    when kernels ran."""
    place.mkdir()
    journal = place / "journal"
    options = "--settle-seconds=0", f"--journal-file={journal}"
    with Machine(place, *options, context_memory=str(CONTEXT)) as machine:
        leavers = _Leavers(machine)
        with _sampling(machine) as end:
            leavers.run(seconds)
            most, samples = end()
        machine.daemon.assert_alive()
        assert machine.daemon.stop() == 0  # the journal is complete
        kernels, early, late = _outside_of_turns(journal, machine.traces(), leavers.late_kernels)
    ways = ", ".join(f"{count} x {way}" for way, count in leavers.left.items())
    return judge(
        f"{ways}; {samples} looks at the card, at most {most // MIB} of {LIMIT // MIB} MiB;"
        f" {early} of {kernels} kernels, and {late} of {len(leavers.late_kernels)} of exit handlers, outside of a turn",
        the_limit_holds=most <= LIMIT + 2 * LEAVERS * CONTEXT,
        it_was_used=most > LIMIT // 2,
        no_kernel_runs_outside_of_a_turn=not early + late,
        kernels_ran=kernels > 0,
    )


LOADS: dict[str, tuple[str, Load]] = {"7": ("an exit storm", exit_storm)}

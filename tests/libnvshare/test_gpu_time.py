"""The GPU time that the scheduler counts for programs, judged by the trace of the simulated GPU: kernels from begin to
end, less the time in which the card was another process'.

The library cannot look while its thread waits for a processor. So the programs here run before others if the test may
do that (as root), and the part of the time for which the machine itself was late may be wrong as well. If that part is
large, the test is skipped."""

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, GIB, Program
from nvshare.simgpu.trace import Kind, ProcessTrace, merge
from support.lateness import Lateness
from support.real_time import hurry
from support.waiting import wait_until

WITHIN = 0.03 if "NVSHARE_LIBRARY" not in os.environ else 0.10
"""A library that a sanitizer instruments is many times slower, so it looks later."""
MOST_LATE = 0.15
"""Beyond this share of lateness nothing can be judged: the tolerance would cover what a wrong count shows. A machine
whose processors a real-time process takes for 12 % of the time is within it (docs/proof.md)."""
SECONDS = 10
SETTLED_S = 1.5
"""Looks are divided up half a second later."""
BUSY = (Kind.KERNEL, Kind.COPY, Kind.MEMSET)


class Timed(Machine):
    """A machine whose programs work and pause as they are told (tests/native/lib_pulse.c)."""

    def __init__(self, directory: Path, *options: str, **settings: Any) -> None:
        super().__init__(directory, *options, scale=1.0, **settings)

    def pulsing(self, memory: int = GIB, gpu: int = 0, **environment: str) -> Program:
        program = self.start(CHECKS / "lib_pulse", CUDA_VISIBLE_DEVICES=str(gpu), **environment)
        assert program.answer() == ["ready"]
        program.do(f"alloc {memory}")
        hurry(program.process.pid)
        return program

    def counted(self, program: Program) -> float:
        """In seconds, once all that the program did is counted: it waits for its input now, and rests."""
        seats = [client for gpu in self.daemon.status()["gpus"] for client in gpu["clients"]]
        return sum(float(seat["gpu_seconds"]) for seat in seats if seat["pid"] == program.process.pid)

    def true(self, program: Program) -> float:
        [trace] = [trace for trace in self.traces() if trace.pid == program.process.pid]
        return busy_seconds(trace)

    def judge(self, *programs: Program) -> list[float]:
        """By how much what is counted differs from what is true, once nothing more is counted."""
        for program in programs:
            result, *_ = program.answer(120)
            assert result == "0"
        counted = self.when_counted(programs)
        return [each / self.true(program) - 1 for each, program in zip(counted, programs, strict=True)]

    def when_counted(self, programs: Sequence[Program]) -> list[float]:
        """What is counted, once that has not changed for so long that it will not."""
        seen: list[float] = []
        since = 0.0

        def is_all_counted() -> bool:
            nonlocal seen, since
            now = [self.counted(program) for program in programs]
            if now != seen:
                seen, since = now, time.monotonic()
            return time.monotonic() - since > SETTLED_S

        wait_until(is_all_counted, "all is counted")
        return seen


def busy_seconds(trace: ProcessTrace) -> float:
    """Work of several streams at once counts once; what was waited for the card's time slice does not count."""
    records = trace.of_kind(*BUSY)
    spans = merge((record.begin_ns, record.known_end_ns) for record in records)
    waited = sum(record.waited_us for record in records) / 1e6
    return sum(end - begin for begin, end in spans) / 1e9 - waited


def check(errors: Iterable[float], late: float, shown: object) -> None:
    """All errors are within the bound, if the machine gave its processes their processors."""
    if late > MOST_LATE:
        pytest.skip(f"not judged: the machine was late for {100 * late:.0f} % of the time; errors: {shown}")
    assert all(abs(error) < WITHIN + late for error in errors), (shown, late)


ALONE = {
    "always busy": "2000 50 0 0",
    "short kernels and pauses": "3000 1 3000 1",
    "long kernels and pauses": "60000 1 60000 1",
    "bursts of a second": "10000 100 1000000 0",
    "graphs": "1000 10 10000 1 graph",
    "four streams": "3000 2 5000 4",
    "forty streams": "1000 1 20000 40",
}
"""KERNEL_US KERNELS PAUSE_US STREAMS, each on a GPU of its own."""


def test_gpu_time_of_programs_that_are_alone_is_what_the_card_says(tmp_path: Path) -> None:
    with Timed(tmp_path, gpus=len(ALONE)) as machine:
        programs = [machine.pulsing(gpu=gpu) for gpu in range(len(ALONE))]
        with Lateness() as lateness:
            for program, how in zip(programs, ALONE.values(), strict=True):
                program.say(f"pulse {SECONDS} {how}")
            errors = machine.judge(*programs)
        shown = {name: f"{100 * error:+.1f} %" for name, error in zip(ALONE, errors, strict=True)}
        print(shown, f"late {100 * lateness.share:.1f} %")
        check(errors, lateness.share, shown)


TOGETHER = {
    "side by side": (GIB, ["5000 20 0 0", "5000 20 0 0"]),
    "one pauses": (GIB, ["5000 20 0 0", "10000 20 200000 0"]),
    "in turns": (10 * GIB, ["5000 20 0 0", "5000 20 0 0"]),
    "in turns, one pauses": (10 * GIB, ["5000 20 0 0", "10000 10 300000 0"]),
}


def test_gpu_time_of_programs_that_share_a_card_is_what_the_card_says(tmp_path: Path) -> None:
    with Timed(tmp_path, "--switch-time-mode=fixed", "--switch-time-fixed=1", gpus=len(TOGETHER)) as machine:
        programs = []
        with Lateness() as lateness:
            for gpu, (memory, pulses) in enumerate(TOGETHER.values()):
                for pulse in pulses:
                    programs.append(machine.pulsing(memory, gpu=gpu))
                    programs[-1].say(f"pulse {SECONDS} {pulse}")
            errors = machine.judge(*programs)
        wrong = dict(zip(TOGETHER, zip(errors[::2], errors[1::2], strict=True), strict=True))
        shown = {name: [f"{100 * error:+.1f} %" for error in each] for name, each in wrong.items()}
        print(shown, f"late {100 * lateness.share:.1f} %")
        check(errors, lateness.share, shown)


def test_a_late_machine_excuses_an_error_as_far_as_it_is_late_and_a_very_late_one_is_not_judged() -> None:
    check([WITHIN + 0.05, -WITHIN - 0.05], 0.06, "")
    for late in (0.04, MOST_LATE):
        with pytest.raises(AssertionError):
            check([0.0, WITHIN + late + 0.01], late, "")
    with pytest.raises(pytest.skip.Exception, match="late for 16 % of the time; errors: nine"):
        check([9.0], 0.16, "nine")


SHORT = {
    "kernels of 0.5 ms, pauses of 20 ms": "500 1 20000 0",
    "kernels of 1 ms, pauses of 10 ms": "1000 1 10000 0",
    "kernels of 5 ms, pauses of 50 ms": "5000 1 50000 0",
}
ALWAYS = "5000 20 0 0"


def test_short_work_beside_a_busy_program_is_charged_between_half_of_its_time_and_all(tmp_path: Path) -> None:
    """Decision 33: a look at which both have work counts half for each, whichever program has the card. The simulated
    card gives a program that wakes up the next slice, so it hardly waits."""
    with Timed(tmp_path, gpus=len(SHORT)) as machine:
        programs = [machine.pulsing(gpu=gpu) for gpu in range(len(SHORT)) for _ in range(2)]
        for program in programs:
            program.do(f"pulse 0.1 {ALWAYS}")  # Its memory is populated.
        had = machine.when_counted(programs), [machine.true(program) for program in programs]
        with Lateness() as lateness:
            for program, how in zip(
                programs, (how for short in SHORT.values() for how in (ALWAYS, short)), strict=True
            ):
                program.say(f"pulse {SECONDS} {how}")
            machine.judge(*programs)
        has = machine.when_counted(programs), [machine.true(program) for program in programs]
    parts = [[(b - a) / SECONDS for a, b in zip(*both, strict=True)] for both in zip(had, has, strict=True)]
    shown = [f"{100 * one:.1f} % of {100 * other:.1f} %" for one, other in zip(*parts, strict=True)]
    print("counted of true:", dict(zip(SHORT, zip(shown[::2], shown[1::2], strict=True), strict=True)))
    slack = WITHIN + lateness.share
    short = list(zip(parts[0][1::2], parts[1][1::2], strict=True))
    assert all(true / 2 - slack < counted < true + slack for counted, true in short), (shown, slack)


def test_gpu_time_can_be_switched_off_and_then_the_time_in_which_the_lock_is_held_counts(tmp_path: Path) -> None:
    with Timed(tmp_path) as machine:
        program = machine.pulsing(NVSHARE_GPU_TIME="0")
        program.say("pulse 1.5 1000 1 1000 0")
        program.answer()
        [client] = machine.clients()
        assert client["gpu_seconds"] > 0.5
        assert 0 <= client["held_seconds"] - client["gpu_seconds"] < 0.7, "reports are awaited for half a second"

"""Runs the programs of the demonstration on a new card for each phase, and measures their times."""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import structs

from nvshare.cli.demo.plan import CARD, CONTEXT, KERNEL, PIECES, SLOW_FAULTS, SLOW_QUANTA, Job, Phase, Plan
from nvshare.cli.run import private_scheduler
from nvshare.cli.run.environment import ProgramSettings, shared
from nvshare.cli.run.native_files import demo_program, library
from nvshare.printable import last_line
from nvshare.record import Record
from nvshare.simgpu.cards import CARDS
from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.trace import Kind, read_traces

Report = Callable[[int, float], None]
"""Called with the index of a job and how much of it is done, 0 to 1."""


class JobResult(Record, frozen=True):
    """The result of one program. Times are real seconds after the phase began."""

    name: str
    pid: int
    begin_s: float
    end_s: float
    done: float
    error: str = ""
    """The CUDA error that ended it."""


class PhaseResult(Record, frozen=True):
    """The result of a phase."""

    phase: Phase
    seconds: float
    """Real seconds."""
    jobs: tuple[JobResult, ...]
    directory: Path | None
    """Of the simulated card, with its trace."""

    @property
    def is_finished(self) -> bool:
        return all(job.done == 1 for job in self.jobs)

    @property
    def projected_s(self) -> float:
        """How long it would have taken, estimated from its progress; infinite if there was none."""
        done = sum(job.done for job in self.jobs) / len(self.jobs)
        return self.seconds if self.is_finished else self.seconds / done if done else float("inf")


class Testbed:
    """Sets up what the programs run on: each phase has a new card, and a scheduler if it is shared."""

    def __init__(self, plan: Plan, folder: Path, *, is_real: bool) -> None:
        self._plan = plan
        self._folder = folder
        self._is_real = is_real
        self._count = 0

    @contextlib.contextmanager
    def set_up(self, *, is_shared: bool, has_slow_faults: bool = False) -> Iterator[tuple[dict[str, str], "Setup"]]:
        """A new card, a scheduler if the programs share it, and the environment for the programs."""
        self._count += 1
        directory = self._folder / f"{self._count}"
        directory.mkdir(mode=0o700)
        environment = _without_nvshare(os.environ)
        if not self._is_real:
            environment = self._card(directory / "card", has_slow_faults).environment(environment)
        if not is_shared:
            yield environment, Setup(None if self._is_real else directory / "card", None)
            return
        scheduler = private_scheduler.SchedulerPaths(str(directory))
        quantum_s = self._plan.quantum_s * (SLOW_QUANTA if has_slow_faults else 1)
        options = ("--switch-time-mode", "fixed", "--switch-time-fixed", str(quantum_s))
        cost = ("--move-seconds-per-gib", str(self._plan.move_s_per_gib))
        descriptor = private_scheduler.join(scheduler, environment, (*options, *cost))
        try:
            yield environment, Setup(None if self._is_real else directory / "card", scheduler)
        finally:
            private_scheduler.leave(scheduler, descriptor)

    def _card(self, directory: Path, has_slow_faults: bool) -> SimGpu:
        directory.mkdir(mode=0o700)
        return SimGpu().with_values(
            directory=directory,
            gpus=1,
            card=CARD,
            context_memory=CONTEXT,
            fault_bandwidth=SLOW_FAULTS if has_slow_faults else int(CARDS[CARD].faults),
            memory=self._plan.card,
            scale=self._plan.scale,
            kernels={KERNEL: f"{self._plan.kernel_ms}ms"},
            trace=1,
        )


class Setup(Record, frozen=True):
    """What was set up."""

    card: Path | None
    scheduler: private_scheduler.SchedulerPaths | None

    def environment_of(self, base: Mapping[str, str], settings: ProgramSettings) -> dict[str, str]:
        """For a program, shared if there is a scheduler."""
        if self.scheduler is None:
            return dict(base)
        return shared(base, library=library(), socket=self.scheduler.socket, settings=settings)


async def run_phase(phase: Phase, testbed: Testbed, report: Report) -> PhaseResult:
    """One phase, from the start of its first program to the end of its last one."""
    set_up = testbed.set_up(is_shared=phase.is_shared, has_slow_faults=phase.has_slow_faults)
    with set_up as (environment, setup):
        if not phase.moves_in_bulk:
            environment["NVSHARE_PREFETCH"] = "0"
        began = time.monotonic()
        running = [
            _Running(
                phase, index, job, setup.environment_of(environment, ProgramSettings(name=job.name)), began, report
            )
            for index, job in enumerate(phase.jobs)
        ]
        if phase.is_at_once:
            await _at_once(phase, running)
        else:
            for one in running:
                await one.run()
        results = tuple(one.result for one in running)
    if phase.stop_after_s is not None and setup.card is not None:
        results = _by_kernels(phase, results, setup.card)
    return PhaseResult(phase, max(job.end_s for job in results), results, setup.card)


def _by_kernels(phase: Phase, results: tuple[JobResult, ...], card: Path) -> tuple[JobResult, ...]:
    """The progress of stopped programs: they report whole bursts, the card's trace has each kernel."""
    ended = {
        trace.pid: sum(record.end_ns is not None for record in trace.of_kind(Kind.KERNEL))
        for trace in read_traces(card)
    }
    return tuple(
        structs.replace(result, done=max(result.done, ended.get(result.pid, 0) / (job.bursts * job.passes * PIECES)))
        for job, result in zip(phase.jobs, results, strict=True)
    )


async def _at_once(phase: Phase, running: list["_Running"]) -> None:
    tasks = [asyncio.create_task(one.run()) for one in running]
    try:
        when = asyncio.FIRST_COMPLETED if phase.stops_at_failure else asyncio.ALL_COMPLETED
        await asyncio.wait(tasks, timeout=phase.stop_after_s, return_when=when)
    finally:
        for one in running:
            one.stop()
        await asyncio.gather(*tasks)


class _Running:
    """One program."""

    def __init__(
        self, phase: Phase, index: int, job: Job, environment: dict[str, str], began: float, report: Report
    ) -> None:
        self._phase = phase
        self._index = index
        self._job = job
        self._environment = environment
        self._began = began
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopped = False
        self.result = JobResult(job.name, 0, 0, 0, 0.0)

    async def run(self) -> None:
        begin = time.monotonic() - self._began
        arguments = self._job.arguments(managed=self._phase.is_managed)
        self._process = await asyncio.create_subprocess_exec(
            demo_program("worker"), *arguments, env=self._environment,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        done, error = 0.0, ""
        assert self._process.stdout is not None
        try:
            async for line in self._process.stdout:
                kind, *values = line.decode(errors="replace").split()
                if kind == "progress":
                    done = int(values[0]) / int(values[1])
                    self._report(self._index, done)
                elif kind == "failed":
                    error = values[0]
            _, output = await self._process.communicate()
            if self._process.returncode and not error and not self._is_stopped:
                error = last_line(output.decode(errors="replace")) or f"exit code {self._process.returncode}"
        finally:
            self.stop()
        end = time.monotonic() - self._began
        self.result = JobResult(self._job.name, self._process.pid, begin, end, done, error)

    def stop(self) -> None:
        """End it if it still runs."""
        if self._process is not None and self._process.returncode is None:
            self._is_stopped = True
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


def _without_nvshare(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without settings of nvshare, so that the demonstration does not depend on them."""
    return {
        name: value for name, value in environment.items() if not name.startswith("NVSHARE_") and name != "LD_PRELOAD"
    }

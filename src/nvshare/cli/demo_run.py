"""Running the demonstration's programs: real processes, their progress read line by line, their times taken."""

import asyncio
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import structs

from nvshare.cli import private
from nvshare.cli.demo_plan import KERNEL, PIECES, Job, Phase, Plan
from nvshare.cli.launch import Terms, shared
from nvshare.cli.leftovers import entering, occupy
from nvshare.cli.library import demo_program, library
from nvshare.record import Record
from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.trace import Kind, read_traces

Report = Callable[[int, float], None]
"""Told the index of a job and how much of it is done, 0 to 1."""


class JobResult(Record, frozen=True):
    """How one program fared. Times are real seconds after the phase began."""

    name: str
    pid: int
    begin_s: float
    end_s: float
    done: float
    error: str = ""
    """The driver's name for what ended it early."""


class PhaseResult(Record, frozen=True):
    """How a situation went."""

    phase: Phase
    seconds: float
    """Real ones."""
    jobs: tuple[JobResult, ...]
    directory: Path | None
    """Of the simulated card, with its trace."""

    @property
    def is_finished(self) -> bool:
        return all(job.done == 1 for job in self.jobs)

    @property
    def projected_s(self) -> float:
        """How long it would have taken, by how far it came; infinite if it never came anywhere."""
        done = sum(job.done for job in self.jobs) / len(self.jobs)
        return self.seconds if self.is_finished else self.seconds / done if done else float("inf")


class Stage:
    """Where the programs run: on cards of one plan, each situation on a fresh one."""

    def __init__(self, plan: Plan, folder: Path, *, is_real: bool) -> None:
        self._plan = plan
        self._folder = folder
        self._is_real = is_real
        self._count = 0

    @contextlib.contextmanager
    def set_up(self, *, is_shared: bool) -> Iterator[tuple[dict[str, str], "Set"]]:
        """A fresh card, and a scheduler if the programs share it; the environment for the programs."""
        self._count += 1
        place = self._folder / f"{self._count}"
        place.mkdir(mode=0o700)
        environment = _without_nvshare(os.environ)
        if not self._is_real:
            environment = self._card(place / "card").environment(environment)
        if not is_shared:
            yield environment, Set(None if self._is_real else place / "card", None)
            return
        scheduler = private.Place(str(place))
        options = ("--switch-time-mode", "fixed", "--switch-time-fixed", str(self._plan.quantum_s))
        cost = ("--move-seconds-per-gib", str(self._plan.move_s_per_gib))
        descriptor = private.join(scheduler, environment, (*options, *cost))
        try:
            yield environment, Set(None if self._is_real else place / "card", scheduler)
        finally:
            private.leave(scheduler, descriptor)

    def _card(self, directory: Path) -> SimGpu:
        directory.mkdir(mode=0o700)
        return SimGpu().with_values(
            directory=directory,
            gpus=1,
            memory=self._plan.card,
            scale=self._plan.scale,
            kernels={KERNEL: f"{self._plan.kernel_ms}ms"},
            trace=1,
        )


class Set(Record, frozen=True):
    """What was set up."""

    card: Path | None
    scheduler: private.Place | None

    def environment_of(self, base: Mapping[str, str], terms: Terms) -> dict[str, str]:
        """For a program, shared if there is a scheduler."""
        if self.scheduler is None:
            return dict(base)
        return shared(base, library=library(), socket=self.scheduler.socket, terms=terms)


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """A short path for cards and sockets, gone afterwards."""
    runtime = private.runtime_directory()
    with entering(runtime):
        folder = Path(tempfile.mkdtemp(prefix="demo-", dir=runtime))
        descriptor = occupy(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


async def run_phase(phase: Phase, stage: Stage, report: Report) -> PhaseResult:
    """One situation, from its first program's start to its last one's end."""
    with stage.set_up(is_shared=phase.is_shared) as (environment, made):
        began = time.monotonic()
        running = [
            _Running(phase, index, job, made.environment_of(environment, Terms(name=job.name)), began, report)
            for index, job in enumerate(phase.jobs)
        ]
        if phase.is_at_once:
            await _at_once(phase, running)
        else:
            for one in running:
                await one.run()
        results = tuple(one.result for one in running)
    if phase.stop_after_s is not None and made.card is not None:
        results = _by_kernels(phase, results, made.card)
    return PhaseResult(phase, max(job.end_s for job in results), results, made.card)


def _by_kernels(phase: Phase, results: tuple[JobResult, ...], card: Path) -> tuple[JobResult, ...]:
    """How far programs came that were stopped: they report whole bursts, the card knows each kernel."""
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
            _, said = await self._process.communicate()
            if self._process.returncode and not error and not self._is_stopped:
                error = _last_words(said) or f"exit code {self._process.returncode}"
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


def _last_words(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return "".join(char if char.isprintable() else "?" for char in lines[-1]) if lines else ""


def _without_nvshare(environment: Mapping[str, str]) -> dict[str, str]:
    """The demonstration is the same whatever is set in the shell it is started from."""
    return {
        name: value for name, value in environment.items() if not name.startswith("NVSHARE_") and name != "LD_PRELOAD"
    }

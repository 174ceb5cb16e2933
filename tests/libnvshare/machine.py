"""A machine of simulated GPUs with the real scheduler on it, and the questions that the trace answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from libnvshare.programs import CHECKS, GIB, MIB, Program, Programs
from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.trace import Kind, Overlap, ProcessTrace, overlaps, read_traces
from support.daemon import Daemon

WORK = (Kind.KERNEL, Kind.COPY, Kind.MEMSET)


class Machine(Programs):
    """Simulated cards, a scheduler, and programs under the library."""

    def __init__(
        self,
        directory: Path,
        *options: str,
        gpus: int = 1,
        scale: float = 0.01,
        has_nvml: bool = False,
        **settings: Any,
    ) -> None:
        self.simulation = directory / "gpus"
        self.simulation.mkdir()
        values = {"directory": str(self.simulation), "gpus": gpus, "memory": "16Gi", "scale": scale, "trace": 1}
        cards = SimGpu().with_values(**values | settings)
        cuda = cards.environment({})
        self.place = directory / "daemon"
        self.options = (*options, "--nvml=on") if has_nvml else options
        self.driver: dict[str, Any] = {name: cuda[name] for name in cuda if has_nvml}
        self.daemon = Daemon(self.place, *self.options, **self.driver)
        super().__init__(directory, {**cuda, "NVSHARE_SOCKET": self.daemon.socket})

    def restart(self) -> None:
        """SIGKILL, and a new one in its place."""
        self.daemon.kill()
        self.daemon = Daemon(self.place, *self.options, **self.driver)

    def client(self, memory: int = 0, *, gpu: int = 0, **environment: str) -> Program:
        """A program with a context and this much memory."""
        program = self.start(CHECKS / "lib_client", "dlsym", **environment)
        program.do(f"init {gpu}")
        if memory:
            program.do(f"alloc {memory}")
        return program

    def clients(self, gpu: int = 0) -> list[dict[str, Any]]:
        """The scheduler's own view of who is on a GPU, in the order in which the programs were started: a program
        registers in a thread of its own, so the scheduler may know the second one first."""
        gpus = self.daemon.status()["gpus"]
        started = {program.process.pid: place for place, program in enumerate(self.started)}
        return sorted(gpus[gpu]["clients"] if gpus else [], key=lambda client: started.get(client["pid"], len(started)))

    def traces(self) -> list[ProcessTrace]:
        return read_traces(self.simulation)

    def overlaps(self) -> list[Overlap]:
        """Times at which two processes had work on one card."""
        return overlaps(self.traces(), WORK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        try:
            super().__exit__(*error)  # it complains about reports of sanitizers
        finally:
            self.daemon.kill()


class Looked(Machine):
    """A machine with one card, and a program that looks at it: how much is on a card is what the card itself says to a
    program without the library."""

    CONTEXT = 256 * MIB

    def __init__(self, directory: Path, *options: str, **settings: Any) -> None:
        super().__init__(directory, *options, **settings)
        self._looker = self.start(CHECKS / "simgpu_worker", LD_PRELOAD="")
        assert self._looker.answer() == ["ready"]

    def used(self, programs: int = 1) -> int:
        """By so many programs, without contexts."""
        free, total = map(int, self._looker.ask("info"))
        return total - free - (programs + 1) * self.CONTEXT


def turns(traces: list[ProcessTrace], uuid: str) -> Iterator[tuple[str, int, int]]:
    """Which process had the card from when to when, in order: work of one process with nobody else's in between."""
    work = sorted(
        (record.begin_ns, record.known_end_ns, trace.process)
        for trace in traces
        for record in trace.of_kind(*WORK)
        if trace.uuids[record.card] == uuid
    )
    current: list[tuple[int, int]] = []
    for index, (begin, end, process) in enumerate(work):
        if index and work[index - 1][2] != process:
            yield work[index - 1][2], current[0][0], max(until for _, until in current)
            current = []
        current.append((begin, end))
    if current:
        yield work[-1][2], current[0][0], max(until for _, until in current)


__all__ = ["GIB", "Looked", "Machine", "turns"]

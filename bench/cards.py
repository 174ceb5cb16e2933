"""A simulated P100 of natural speed, and workers on it under the library. The card's trace says what each one had."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.scheduler import Scheduler
from nvshare.cli.run.native_files import demo_program, library
from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.trace import ProcessTrace, read_traces

GIB = 1 << 30
KERNEL, KERNEL_MS, PIECES = "nvshare_demo_pass", 5, 8
BURST_KERNELS = 200
WARM_UP_S = 3.0


class Program:
    """One worker under the library."""

    def __init__(self, *, size: int = 2 * GIB, bursts: int = 100_000, pause_ms: int = 0, **environment: Any) -> None:
        self.size, self.bursts, self.pause_ms = size, bursts, pause_ms
        self.environment = {name: str(value) for name, value in environment.items()}


class Card:
    """A simulated card, its scheduler, and what its trace says."""

    def __init__(self, directory: Path, memory: int = 16 * GIB, kernel_ms: int = KERNEL_MS) -> None:
        self.directory = directory / "card"
        self.directory.mkdir()
        kernels = {KERNEL: f"{kernel_ms}ms"}
        cards = SimGpu().with_values(directory=self.directory, card="p100", memory=memory, kernels=kernels, trace=1)
        self.bare = cards.environment(os.environ)

    def start(self, stack: ExitStack, daemon: Scheduler, programs: Sequence[Program]) -> list[int]:
        """The pids, when all are ready."""
        preload = {"LD_PRELOAD": str(library()), "NVSHARE_SOCKET": str(daemon.socket)}
        started = []
        for one in programs:
            size = [str(one.size), str(one.bursts), str(BURST_KERNELS // PIECES), "1", str(one.pause_ms)]
            process = stack.enter_context(
                subprocess.Popen(
                    [str(demo_program("worker")), *size],
                    env=self.bare | preload | one.environment,
                    stdout=subprocess.PIPE,
                )
            )
            stack.callback(process.kill)
            started.append(process)
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready"), "a program did not start"
        return [process.pid for process in started]

    def trace(self, pid: int) -> ProcessTrace:
        return next(trace for trace in read_traces(self.directory) if trace.pid == pid)

    def percent(self, pids: Sequence[int], begin_ns: int, seconds: float) -> list[float]:
        """What each program had of the card in this time."""
        end_ns = begin_ns + round(seconds * 1e9)
        ended = [[kernel.known_end_ns for kernel in self.trace(pid).kernels(KERNEL)] for pid in pids]
        return [100 * sum(begin_ns < end <= end_ns for end in of) * KERNEL_MS / 1e3 / seconds for of in ended]

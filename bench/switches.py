"""What a switch costs between two programs that do not fit together: the real library, scheduler and processes on a
simulated P100 (16 GiB, link 12 GB/s each way, page faults 2.9 GB/s).

    make -C native bench
    python -m bench switches

A switch costs the time in which the card does not compute (nvshare.simgpu.switches). It is in the card's own trace, in
seconds of the card, and the median over the switches counts.

| row | figure | floor of the same run |
|---|---|---|
| a switch | its cost | the link moves what must move at a switch, one way: a lone program that prefetches so much |
| always busy | two programs at once, quantum 10 s | one after the other |
| slow faults | the cost of a switch in bulk, page faults at 0.5 GB/s | the cost by page faults |"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.scheduler import scheduler
from bench.verdict import bounded
from nvshare.cli.run.native_files import demo_program, library
from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.switches import switch_costs
from nvshare.simgpu.trace import read_traces

ROOT = Path(__file__).resolve().parents[1]
GIB = 1 << 30
SIZE = 9 * GIB
CONTEXT = 400 << 20
"""As the scheduler assumes: it cannot measure the context of a program that has memory."""
AWAY = 2 * SIZE + 2 * CONTEXT - 16 * GIB
"""What cannot be on the card while the two programs have their contexts: so much must move at each switch."""
KERNEL, KERNEL_MS, PIECES = "nvshare_demo_pass", 12.5, 8
FOREVER = 1_000
FIRST_SWITCHES = 3
"""Not counted: each program touches its memory for the first time, and nothing is known of what it uses."""
Row = dict[str, Any]


class Card:
    """A simulated card with a scheduler, and the programs on it."""

    def __init__(self, directory: Path, scale: float, **settings: Any) -> None:
        self.directory, self.scale = directory, scale
        kernels = {KERNEL: f"{KERNEL_MS}ms"}
        values = {"card": "p100", "context_memory": CONTEXT, "kernels": kernels, "scale": scale, "trace": 1}
        cards = SimGpu().with_values(directory=directory / "card", **values | settings)
        (directory / "card").mkdir()
        self.bare = cards.environment(os.environ)

    @contextmanager
    def programs(self, count: int, bursts: int, quantum_s: int, **environment: str) -> Iterator[list[Any]]:
        """Always busy, under the library, until the block ends. A burst is a second of the card. A program says a line
        after each, which nobody reads: fewer than fill a pipe."""
        options = ("--nvml", "on", "--switch-time-mode", "fixed", "--switch-time-fixed", str(quantum_s))
        with ExitStack() as stack:
            daemon = stack.enter_context(scheduler(self.directory, *options, environment=self.bare))
            preload = {"LD_PRELOAD": str(library()), "NVSHARE_SOCKET": str(daemon.socket)}
            started = [stack.enter_context(_worker(self.bare | preload | environment, bursts)) for _ in range(count)]
            yield started

    def switches(self) -> list[float]:
        """The cost of each switch so far, in seconds of the card."""
        return switch_costs(read_traces(self.directory / "card"))[FIRST_SWITCHES:-1]  # the last turn has not ended


@contextmanager
def _worker(environment: dict[str, str], bursts: int) -> Iterator[subprocess.Popen[bytes]]:
    passes = round(1000 / (KERNEL_MS * PIECES))
    command = [str(demo_program("worker")), str(SIZE), str(bursts), str(passes), "1", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready"), "a program did not start"
            yield process
        finally:
            process.kill()


def median_switch(count: int, quantum_s: int, scale: float, settings: dict[str, Any], **environment: str) -> float:
    """The cost of a switch, the median of so many."""
    with tempfile.TemporaryDirectory() as name:
        card = Card(Path(name), scale, **settings)
        with card.programs(2, FOREVER, quantum_s, **environment) as started:
            while len(costs := card.switches()) < count:
                assert all(program.poll() is None for program in started), "a program ended"
                time.sleep(quantum_s / 2)
        return statistics.median(costs)


def link_s(scale: float) -> float:
    """How long the link takes for what must move at a switch, in its slower direction."""
    program = ROOT / "build" / "native" / "checks" / "simgpu_worker"
    with tempfile.TemporaryDirectory() as name:
        orders = f"managed {AWAY}\nprefetch\nevict\nprefetch\n"
        done = subprocess.run(
            [str(program)], env=Card(Path(name), scale).bare, input=orders, capture_output=True, text=True, check=True
        )
    _, _, _, out_ms, in_ms = done.stdout.split()
    return max(float(out_ms), float(in_ms)) / 1e3


def a_switch() -> Row:
    floor, cost = link_s(1.0), median_switch(6, 1, 1.0, {})
    row: Row = {"bench": "switches", "what": "a switch, 2 x 9 GiB on 16 GiB"}
    return row | {"card_s": round(cost, 3), "link_s": round(floor, 3)} | bounded(cost, floor, 1.25)


def always_busy() -> Row:
    scale, bursts, quantum_s = 0.2, 40, 10
    times = []
    for at_once in (False, True):
        with tempfile.TemporaryDirectory() as name:
            card = Card(Path(name), scale)
            times.append(_whole(card, bursts, round(quantum_s * scale), at_once=at_once))
    row: Row = {"bench": "switches", "what": f"always busy, quantum {quantum_s} s", "card_s": round(times[1], 1)}
    return row | {"one_after_the_other_s": round(times[0], 1)} | bounded(times[1], times[0], 1.10)


def _whole(card: Card, bursts: int, quantum_s: int, *, at_once: bool) -> float:
    """Seconds of the card from the first kernel of two programs to the last one, without the pause between them if
    they run one after the other."""
    for count in (2,) if at_once else (1, 1):
        with card.programs(count, bursts, quantum_s) as started:
            for program in started:
                assert program.wait(600) == 0
    kernels = [trace.kernels() for trace in read_traces(card.directory / "card")]
    spans = [(of[0].begin_ns, of[-1].known_end_ns) for of in kernels]
    if at_once:
        spans = [(min(begin for begin, _ in spans), max(end for _, end in spans))]
    return sum(end - begin for begin, end in spans) / 1e9 / card.scale


def slow_faults() -> Row:
    settings = {"fault_bandwidth": "500M"}
    by_faults = median_switch(2, 3, 0.1, settings, NVSHARE_PREFETCH="0")
    in_bulk = median_switch(2, 3, 0.1, settings)
    row: Row = {"bench": "switches", "what": "slow faults, 0.5 GB/s", "card_s": round(in_bulk, 3)}
    return row | {"by_faults_s": round(by_faults, 3)} | bounded(in_bulk, by_faults, 1 / 5)


def rows() -> Iterator[Row]:
    yield a_switch()
    yield always_busy()
    yield slow_faults()

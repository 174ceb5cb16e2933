"""Lock hand-over: release -> the next client has it, against a C process that answers the same frames with no logic.

Daemon and load are pinned to one core, so that a hand-over's whole cost shows; journal and metrics are on, the log
is at warning. The floor is measured in the same run, before and after, and the better of the two counts. The bound
is of the CPU time, which depends less on other processes, and the best of several runs counts. The goal is 0.57 of the
floor's hand-overs per second, which the C original reached. `python_floor_ratio`: what a Python process without logic
reaches of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.scheduler import scheduler, wait_for
from bench.verdict import bounded, goal

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "bench"
CLIENTS = {2: 9.5, 10: 9.5, 100: 11.0, 1000: 13.0}
"""How many, and the bound of the CPU time in multiples of the floor's."""
C_FLOOR = (str(BUILD / "handover_floor"),)
PYTHON_FLOOR = (sys.executable, "-m", "bench.handover_python")
WANTED_RATIO = 0.57
"""What the C original reached: 40,300 hand-overs per second, where the floor made 70,000 in the same run."""
RUNS = 3


def build() -> None:
    """Compile the load and the floor."""
    BUILD.mkdir(parents=True, exist_ok=True)
    for name in ("handover_load", "handover_floor"):
        source = ROOT / "bench" / "native" / f"{name}.c"
        include = f"-I{ROOT / 'native' / 'libnvshare'}"
        subprocess.run(["cc", "-O2", "-Wall", "-Wextra", include, "-o", str(BUILD / name), str(source)], check=True)


def pin() -> None:
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def load(path: Path, pid: int, clients: int, seconds: float) -> dict[str, Any]:
    """One measurement against the scheduler that listens at the path."""
    done = subprocess.run(
        [str(BUILD / "handover_load"), str(path), str(clients), str(seconds), str(pid)],
        check=True,
        capture_output=True,
        text=True,
        preexec_fn=pin,
        timeout=60,
    )
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def floor_of(path: Path, clients: int, seconds: float, command: tuple[str, ...] = C_FLOOR) -> dict[str, Any]:
    """What a process without logic does."""
    with subprocess.Popen([*command, str(path)], preexec_fn=pin, cwd=ROOT) as process:
        try:
            wait_for(path, process)
            return load(path, process.pid, clients, seconds)
        finally:
            process.terminate()
            path.unlink(missing_ok=True)


def row(directory: Path, clients: int, seconds: float) -> dict[str, Any]:
    """Ours, the floor, and their ratio."""
    path = directory / "floor.sock"
    journal = ("--journal-file", str(directory / "journal")) if os.environ.get("BENCH_JOURNAL_FILE") else ()
    floors = [floor_of(path, clients, seconds / 2)]
    with scheduler(directory, *journal, prepare=pin) as daemon:
        runs = [load(daemon.socket, daemon.pid, clients, seconds / RUNS) for _ in range(RUNS)]
    ours = min(runs, key=lambda run: float(run["cpu_us"]))
    floors.append(floor_of(path, clients, seconds / 2))
    python = floor_of(path, clients, seconds / 2, PYTHON_FLOOR)
    floor = max(one["per_second"] for one in floors)
    floor_cpu_us = min(one["cpu_us"] for one in floors)
    ratio = round(ours["per_second"] / floor, 2)
    row = {"bench": "handover", **ours, "floor_per_second": floor, "ratio": ratio, "floor_cpu_us": floor_cpu_us}
    row["python_floor_ratio"] = round(python["per_second"] / floor, 2)
    row |= bounded(ours["cpu_us"], floor_cpu_us, CLIENTS[clients])
    return row | {"wanted_ratio": WANTED_RATIO} | goal(ratio >= WANTED_RATIO)


def rows(seconds: float = 2.0) -> list[dict[str, Any]]:
    """One for each number of clients."""
    build()
    found = []
    for clients in CLIENTS:
        with tempfile.TemporaryDirectory() as name:
            found.append(row(Path(name), clients, seconds))
    return found


if __name__ == "__main__":
    for one in rows():
        print(one)

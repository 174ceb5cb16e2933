"""What a launch costs on the simulated driver, in CPU time, against the null driver in the same run.

    make -C native bench
    python -m bench simgpu

`caller` is the launching thread, `process` includes the execution thread that plays the card. The best of several
runs counts: what is left is the cost, not the neighbours'. The bound is a multiple of the null driver's launch; the
goal is 150 ns for the process."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bench.verdict import bounded, goal

ROOT = Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "build" / "native" / "bench" / "launch_sim"
SIMULATED = ROOT / "src" / "nvshare" / "_native" / "sim"
NULL = ROOT / "build" / "native" / "null"
LAUNCHES = "500000"
ROUNDS = 5
WANTED_NS = 150.0
MAX_RATIO = {1: 80.0, 2: 95.0}


def cost(driver: Path, directory: str, threads: int) -> tuple[float, float]:
    """CPU nanoseconds of a launch: the caller's, and the whole process'."""
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(driver),
        "NVSHARE_SIM_DIR": directory,
        "NVSHARE_SIM_KERNEL_US": "1",
        "NVSHARE_SIM_TRACE": "0",
    }
    found = []
    for _ in range(ROUNDS):
        command = [str(PROGRAM), LAUNCHES, str(threads)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    return min(run["caller_cpu_ns"] for run in found), min(run["process_cpu_ns"] for run in found)


def rows() -> list[dict[str, Any]]:
    """One row for each number of launching threads."""
    with tempfile.TemporaryDirectory() as directory:
        return [row(directory, threads) for threads in (1, 2)]


def row(directory: str, threads: int) -> dict[str, Any]:
    null, _ = cost(NULL, directory, threads)
    caller, process = cost(SIMULATED, directory, threads)
    return {
        "bench": "simgpu",
        "threads": threads,
        "null_ns": round(null, 1),
        "caller_ns": round(caller, 1),
        "process_ns": round(process, 1),
        **bounded(process, null, MAX_RATIO[threads]),
        "wanted_ns": WANTED_NS,
        **goal(process < WANTED_NS),
    }

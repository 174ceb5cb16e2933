"""Lock hand-over: release -> the next client has it, against a C process that answers the same frames with no logic.

Daemon and load are pinned to one core, so that a hand-over's whole cost shows; journal and metrics are on, the log is
at warning. The floor is measured in the same run, before and after, and the better of the two counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "bench"
CLIENTS = (2, 10, 100, 1000)
WANTED_RATIO = 0.5


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
    """One measurement against whoever listens at the path."""
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


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1000):
        if path.exists() or process.poll() is not None:
            return
        time.sleep(0.01)


def measure(command: list[str], path: Path, clients: int, seconds: float) -> dict[str, Any]:
    process = subprocess.Popen(command, preexec_fn=pin)
    try:
        wait_for(path, process)
        return load(path, process.pid, clients, seconds)
    finally:
        process.terminate()
        process.wait()


def rows(seconds: float = 2.0) -> list[dict[str, Any]]:
    """One row for each number of clients: ours, the floor, and their ratio."""
    build()
    found = []
    for clients in CLIENTS:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            floor_command = [str(BUILD / "handover_floor"), str(directory / "floor.sock")]
            floor = measure(floor_command, directory / "floor.sock", clients, seconds / 2)
            command = [sys.executable, "-m", "nvshare.scheduler.main", "--socket", str(directory / "s.sock")]
            command += [
                "--operator-socket",
                str(directory / "op" / "c.sock"),
                "--log-level",
                "warning",
                "--nvml",
                "off",
            ]
            command += ["--journal-file", str(directory / "journal")] if os.environ.get("BENCH_JOURNAL_FILE") else []
            ours = measure(command, directory / "s.sock", clients, seconds)
            (directory / "floor.sock").unlink()
            again = measure(floor_command, directory / "floor.sock", clients, seconds / 2)
        floor = max(floor, again, key=lambda row: row["per_second"])
        ratio = round(ours["per_second"] / floor["per_second"], 2)
        wanted = {"wanted_ratio": WANTED_RATIO, "ok": ratio >= WANTED_RATIO}
        found.append({"bench": "handover", **ours, "floor_per_second": floor["per_second"], "ratio": ratio, **wanted})
    return found


if __name__ == "__main__":
    for row in rows():
        print(row)

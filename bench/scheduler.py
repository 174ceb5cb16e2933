"""A real scheduler to measure, for as long as a block runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"


@dataclass(frozen=True)
class Scheduler:
    """One that listens."""

    pid: int
    socket: Path
    operator_socket: Path


def wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Until somebody listens there."""
    while not path.exists():
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} did not start: it ended with {process.returncode}")
        time.sleep(0.01)


@contextmanager
def scheduler(
    directory: Path,
    *options: str,
    prepare: Callable[[], None] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Scheduler]:
    """Started with these options, without Kubernetes and, unless they say otherwise, without NVML and in mode auto: the
    loads hand the lock around in the order of arrival. `prepare` runs in its process first."""
    made, operator = directory / "s.sock", directory / "op" / "c.sock"
    where = ("--socket", str(made), "--operator-socket", str(operator))
    quiet = ("--nvml", "off", "--kubernetes", "off", "--log-level", "warning", "--switch-time-mode", "auto")
    command = [sys.executable, "-m", "nvshare.scheduler.main", *where, *quiet, *options]
    variables = {**environment, "PYTHONPATH": str(SOURCES)}
    with subprocess.Popen(command, env=variables, stdin=subprocess.DEVNULL, preexec_fn=prepare) as process:
        try:
            wait_for(made, process)
            yield Scheduler(process.pid, made, operator)
        finally:
            process.terminate()

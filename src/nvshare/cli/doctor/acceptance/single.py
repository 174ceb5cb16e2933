"""Checks with one program, which asks the GPU one question (native/probe)."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nvshare.cli.doctor.acceptance.results import Card
from nvshare.cli.errors import CommandError
from nvshare.cli.run import private_scheduler
from nvshare.cli.run.cleanup import temporary_directory
from nvshare.cli.run.environment import ProgramSettings, shared
from nvshare.cli.run.native_files import library
from nvshare.native_directory import NATIVE
from nvshare.printable import last_line

MOST_BYTES = 1 << 30
PART_OF_FREE = 8
"""A check on a card that others use takes at most this part of what is free."""
Measure = Callable[[Card], dict[str, float]]
BATCHES = "50"


def small(card: Card) -> int:
    """How much memory a check may take on any card."""
    return max(1 << 20, min(MOST_BYTES, card.free_bytes // PART_OF_FREE) >> 20 << 20)


def bare(card: Card) -> dict[str, str]:
    """The environment of a program without nvshare."""
    kept = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return kept | {"CUDA_VISIBLE_DEVICES": card.uuid}


def probe(*words: str, environment: dict[str, str]) -> dict[str, float]:
    """What the program prints; raises CommandError if it fails."""
    done = subprocess.run(  # noqa: S603 - our own program
        [probe_path(), *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    values: dict[str, float] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition(" ")
        if name == "failed":
            raise CommandError(value)
        values[name] = float(value)
    if done.returncode:
        raise CommandError(last_line(done.stderr) or f"the program ended with exit code {done.returncode}")
    return values


def probe_path() -> Path:
    path = NATIVE / "probe"
    if not path.is_file():
        raise CommandError(f"{path} does not exist: build it with `make native`, or install the package again")
    return path


@contextmanager
def scheduler(card: Card, *, quantum_s: int = 1, grace_s: int = 10) -> Iterator[private_scheduler.SchedulerPaths]:
    """A scheduler for this check alone. It ends by itself if this process is killed."""
    options = ("--switch-time-mode", "fixed", "--switch-time-fixed", str(quantum_s), "--grace-seconds", str(grace_s))
    with temporary_directory() as folder:
        paths = private_scheduler.SchedulerPaths(str(folder))
        descriptor = private_scheduler.join(paths, bare(card), options)
        try:
            yield paths
        finally:
            private_scheduler.leave(paths, descriptor)


def under(
    card: Card, paths: private_scheduler.SchedulerPaths, *, name: str = "probe", limit_bytes: int | None = None
) -> dict[str, str]:
    """The environment of a program under nvshare."""
    settings = ProgramSettings(limit_bytes=limit_bytes, name=name)
    return shared(bare(card), library=library(), socket=paths.socket, settings=settings)


def identity(card: Card) -> dict[str, float]:
    return probe("identity", environment=bare(card))


def moves(card: Card) -> dict[str, float]:
    return probe("moves", str(small(card)), environment=bare(card))


def launches(card: Card) -> dict[str, float]:
    return _both(card, "launches")


def allocations(card: Card) -> dict[str, float]:
    return _both(card, "allocations")


def _both(card: Card, name: str) -> dict[str, float]:
    """Without nvshare, then with it."""
    without = probe(name, BATCHES, environment=bare(card))
    with scheduler(card) as paths:
        found = probe(name, BATCHES, environment=under(card, paths))
    return found | {f"bare_{key}": value for key, value in without.items()}


def shared_probe(name: str) -> Measure:
    """The same question under nvshare."""

    def measure(card: Card) -> dict[str, float]:
        with scheduler(card) as paths:
            return probe(name, environment=under(card, paths))

    return measure


def nvml(card: Card) -> dict[str, float]:
    limit = small(card)
    with scheduler(card) as paths:
        return probe("nvml", environment=under(card, paths, limit_bytes=limit)) | {"limit_bytes": limit}

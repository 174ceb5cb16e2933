"""What the library costs: each call against the bare call on a driver that does nothing, in the same run.

    make -C native bench
    python -m bench library

Bare and preloaded runs take turns, and the best of several counts: what is left is the cost, not the neighbours'.
The bound is a multiple of the bare call; the goal is in nanoseconds more than the bare call."""

import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.scheduler import scheduler
from bench.verdict import bounded, goal
from nvshare.wire.codec import Decoder, encode
from nvshare.wire.messages import FROM_CLIENT, LockOk, Register, ReqLock, SchedOn

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "native"
PROGRAM = BUILD / "bench" / "lib_cost"
LIBRARY = ROOT / "src" / "nvshare" / "_native" / "libnvshare.so"
ROUNDS = 10
LAUNCHES = "5000000"
PROCESSES = 300


@dataclass(frozen=True)
class Figure:
    """One measurement: with and without the library, in nanoseconds."""

    name: str
    bare: float
    ours: float
    wanted_more: float
    max_ratio: float | None
    """None: it depends so much on the load of the machine that it is only reported."""

    @property
    def more(self) -> float:
        return self.ours - self.bare

    def row(self) -> dict[str, Any]:
        row: dict[str, Any] = {"bench": "library", "call": self.name, "bare_ns": round(self.bare, 1)}
        row |= {"ours_ns": round(self.ours, 1), "more_ns": round(self.more, 1)}
        if self.max_ratio is not None:
            row |= bounded(self.ours, self.bare, self.max_ratio)
        return row | {"wanted_more_ns": self.wanted_more} | goal(self.more <= self.wanted_more)


def run(path: str, *words: str, library: Path | None = None, gpus: str = "1") -> list[float]:
    values = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "null"), "NVSHARE_SOCKET": path, "NVS_NULL_GPUS": gpus}
    if library:
        values["LD_PRELOAD"] = str(library)
    done = subprocess.run([str(PROGRAM), *words], env=values, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def best(one: Callable[[], list[float]], other: Callable[[], list[float]]) -> tuple[list[float], list[float]]:
    """The least of several runs of each, taken in turns."""
    firsts, seconds = [], []
    for _ in range(ROUNDS):
        firsts.append(one())
        seconds.append(other())
    return [min(column) for column in zip(*firsts, strict=True)], [min(column) for column in zip(*seconds, strict=True)]


def against_bare(path: str, *words: str, library: Path = LIBRARY, gpus: str = "1") -> tuple[list[float], list[float]]:
    return best(lambda: run(path, *words, gpus=gpus), lambda: run(path, *words, library=library, gpus=gpus))


def serve(connection: socket.socket) -> None:
    """Gives every lock at once and takes none back: the gate stays open and pacing is on."""
    decoder = Decoder(FROM_CLIENT)
    with connection:
        while data := connection.recv(65536):
            for message in decoder.feed(data):
                if isinstance(message, Register):
                    connection.sendall(encode(SchedOn(0, 1, 1)))
                elif isinstance(message, ReqLock):
                    connection.sendall(encode(LockOk(message.gpu, False, 1)))


@contextmanager
def generous_scheduler(directory: Path) -> Iterator[str]:
    """A scheduler with one thread per client, for as long as the block runs."""
    path = directory / "scheduler.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(64)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield str(path)


def launches(path: str) -> Iterator[Figure]:
    for threads in ("1", "2"):
        (bare,), (ours,) = against_bare(path, "launch", threads, LAUNCHES)
        yield Figure(f"launch, lock held, {threads} thread(s)", bare, ours, 5, 5)
    (bare,), (ours,) = against_bare(path, "launch", "1", LAUNCHES, gpus="4")
    yield Figure("launch, lock held, 4 visible GPUs", bare, ours, 30, 9)
    fenced = BUILD / "lib_fenced" / "libnvshare.so"
    if fenced.exists():
        (bare,), (ours,) = against_bare(path, "launch", "1", LAUNCHES, library=fenced)
        yield Figure("launch, lock held, without membarrier", bare, ours, 40, 7)


def allocations(path: str) -> Iterator[Figure]:
    for live, max_allocate, max_free in (("10", 9, 7), ("20000", 15, 11), ("1000000", 33, 11)):
        bare, ours = against_bare(path, "alloc", live, "640000")
        yield Figure(f"allocate, {live} live", bare[0], ours[0], 300, max_allocate)
        yield Figure(f"free, {live} live", bare[1], ours[1], 300, max_free)


def start(path: str) -> Figure:
    (bare,), (ours,) = against_bare(path, "start")
    return Figure("from cuInit to the first launch", bare, ours, 3e6, None)


def many_starts(path: str, library: Path | None) -> float:
    """Seconds until this many processes, started at once, have each made a first launch (so: have registered)."""
    values = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "null"), "NVSHARE_SOCKET": path}
    if library:
        values["LD_PRELOAD"] = str(library)
    began = time.monotonic()
    started = [
        subprocess.Popen([str(PROGRAM), "start"], env=values, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(PROCESSES)
    ]
    for process in started:
        assert process.wait(60) == 0
    return time.monotonic() - began


def storm() -> Figure:
    """Many starts against the real scheduler."""
    with tempfile.TemporaryDirectory() as directory, scheduler(Path(directory)) as daemon:
        path = str(daemon.socket)
        bare, ours = many_starts(path, None), many_starts(path, LIBRARY)
    return Figure(f"{PROCESSES} processes at once, first launch", bare * 1e9, ours * 1e9, 2e9, None)


def rows() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name, generous_scheduler(Path(name)) as path:
        for figure in (*launches(path), *allocations(path), start(path)):
            yield figure.row()
    yield storm().row()

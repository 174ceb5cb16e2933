"""What the library costs: each call against the bare call on a driver that does nothing, in the same run.

    make -C native bench
    python -m bench library
    python -m bench.library --against LIBRARY    this build and another one, in the same run

Bare and preloaded runs take turns, and the best of several counts: what is left is the cost, not the neighbours'.
The bound is a multiple of the bare call; the goal is in nanoseconds more than the bare call."""

import argparse
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
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
LAUNCHES = "500000"
"""So few that some of the runs are not interrupted."""
PROCESSES = 300


@dataclass(frozen=True)
class Call:
    """What is measured: the words of the program, and a name, goal and bound for each number that it prints."""

    words: tuple[str, ...]
    names: tuple[str, ...]
    wanted_more: float
    max_ratios: tuple[float | None, ...]
    """None: it depends so much on the load of the machine that it is only reported."""
    gpus: str = "1"
    rounds: int = 10
    bare_words: tuple[str, ...] = ()
    """What is measured without the library, if that is something else."""


def launch(threads: str, name: str, wanted_more: float, max_ratio: float, gpus: str = "1") -> Call:
    return Call(("launch", threads, LAUNCHES), (f"launch, lock held, {name}",), wanted_more, (max_ratio,), gpus, 60)


def allocate(live: str, max_allocate: float, max_free: float) -> Call:
    names = f"allocate, {live} live", f"free, {live} live"
    return Call(("alloc", live, "640000"), names, 300, (max_allocate, max_free))


CALLS = (
    launch("1", "1 thread", 5, 5),
    launch("2", "2 threads", 5, 5),
    launch("1", "4 visible GPUs", 30, 9, gpus="4"),
    allocate("10", 9, 7),
    allocate("20000", 15, 11),
    allocate("1000000", 33, 11),
    Call(("start",), ("from cuInit to the first launch",), 3e6, (None,)),
)
FENCED = replace(launch("1", "without membarrier", 10, 3), bare_words=("fenced", "1", LAUNCHES))
"""Each launch executes a fence, so the floor is a call with a fence: on some machines a fence takes four times as long
as a call."""


@dataclass(frozen=True)
class Figure:
    """One measurement: with and without the library, in nanoseconds."""

    name: str
    bare: float
    ours: float
    wanted_more: float
    max_ratio: float | None

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


def best(path: str, call: Call, *libraries: Path | None) -> list[list[float]]:
    """For each library (None: without one) the least of several runs, taken in turns."""
    runs: list[list[list[float]]] = [[] for _ in libraries]
    for _ in range(call.rounds):
        for library, found in zip(libraries, runs, strict=True):
            words = call.words if library else call.bare_words or call.words
            found.append(run(path, *words, library=library, gpus=call.gpus))
    return [[min(column) for column in zip(*found, strict=True)] for found in runs]


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


def figures(path: str, call: Call, library: Path) -> Iterator[Figure]:
    for name, max_ratio, bare, ours in zip(call.names, call.max_ratios, *best(path, call, None, library), strict=True):
        yield Figure(name, bare, ours, call.wanted_more, max_ratio)


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
    fenced = BUILD / "lib_fenced" / "libnvshare.so"
    with tempfile.TemporaryDirectory() as name, generous_scheduler(Path(name)) as path:
        for call in CALLS:
            yield from (figure.row() for figure in figures(path, call, LIBRARY))
        if fenced.exists():
            yield from (figure.row() for figure in figures(path, FENCED, fenced))
    yield storm().row()


def against(other: Path) -> Iterator[str]:
    """Each call without a library, with this build and with another one; ours divided by the other."""
    yield f"{'call':36} {'bare ns':>12} {'this ns':>12} {'other ns':>12} {'this/other':>10}"
    with tempfile.TemporaryDirectory() as directory, generous_scheduler(Path(directory)) as path:
        for call in CALLS:
            for name, bare, ours, theirs in zip(call.names, *best(path, call, None, LIBRARY, other), strict=True):
                yield f"{name:36} {bare:12.1f} {ours:12.1f} {theirs:12.1f} {ours / theirs:10.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, metavar="LIBRARY", help="another build of libnvshare.so")
    for line in against(parser.parse_args().against.resolve(strict=True)):
        print(line, flush=True)


if __name__ == "__main__":
    main()

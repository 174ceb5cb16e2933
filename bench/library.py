"""What the library costs: each call against the bare call on a driver that does nothing, in the same run.

    make -C native library-bench
    python bench/library.py            the table
    python bench/library.py --check    fail if a figure is over its bound

Bare and preloaded runs take turns, and the best of several counts: what is left is the cost, not the neighbours'."""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.scheduler import scheduler  # noqa: E402
from nvshare.wire.codec import Decoder, encode  # noqa: E402
from nvshare.wire.messages import FROM_CLIENT, LockOk, Register, ReqLock, SchedOn  # noqa: E402

BUILD = ROOT / "build" / "native"
PROGRAM = BUILD / "bench" / "lib_cost"
LIBRARY = ROOT / "src" / "nvshare" / "_native" / "libnvshare.so"
ROUNDS = 5
LAUNCHES = "5000000"
PROCESSES = 300


@dataclass(frozen=True)
class Figure:
    """One measurement: with and without the library, in nanoseconds."""

    name: str
    bare: float
    ours: float
    bound: float

    @property
    def more(self) -> float:
        return self.ours - self.bare

    def __str__(self) -> str:
        verdict = "" if self.more <= self.bound else "  OVER"
        return (
            f"{self.name:44} {self.bare:12.1f} {self.ours:12.1f} {self.more:+12.1f}   bound +{self.bound:.0f}{verdict}"
        )


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
        yield Figure(f"launch, lock held, {threads} thread(s)", bare, ours, 5)
    (bare,), (ours,) = against_bare(path, "launch", "1", LAUNCHES, gpus="4")
    yield Figure("launch, lock held, 4 visible GPUs", bare, ours, 30)
    fenced = BUILD / "lib_fenced" / "libnvshare.so"
    if fenced.exists():
        (bare,), (ours,) = against_bare(path, "launch", "1", LAUNCHES, library=fenced)
        yield Figure("launch, lock held, without membarrier", bare, ours, 40)


def allocations(path: str) -> Iterator[Figure]:
    for live in ("10", "20000", "1000000"):
        bare, ours = against_bare(path, "alloc", live, "640000")
        yield Figure(f"allocate, {live} live", bare[0], ours[0], 300)
        yield Figure(f"free, {live} live", bare[1], ours[1], 300)


def start(path: str) -> Figure:
    (bare,), (ours,) = against_bare(path, "start")
    return Figure("from cuInit to the first launch", bare, ours, 3e6)


def growth(path: str) -> str:
    """Memory after a million launches and after ten more: what a leak in the launch path would show."""
    sizes = []
    for count in ("1000000", "11000000"):
        values = {
            **os.environ,
            "LD_LIBRARY_PATH": str(BUILD / "null"),
            "NVSHARE_SOCKET": path,
            "LD_PRELOAD": str(LIBRARY),
        }
        with subprocess.Popen([str(PROGRAM), "launch", "1", count], env=values, stdout=subprocess.DEVNULL) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        sizes.append(usage.ru_maxrss)
    return f"peak memory: {sizes[0]} KiB after 1 million launches, {sizes[1]} KiB after 11 million"


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
    return Figure(f"{PROCESSES} processes at once, first launch", bare * 1e9, ours * 1e9, 2e9)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="exit 1 if a figure is over its bound")
    check = parser.parse_args().check
    figures: list[Figure] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory, generous_scheduler(Path(directory)) as path:
        print(f"{'nanoseconds':44} {'bare':>12} {'preloaded':>12} {'more':>12}")
        for figure in (*launches(path), *allocations(path), start(path)):
            figures.append(figure)
            print(figure, flush=True)
        print(growth(path))
    figures.append(storm())
    print(figures[-1])
    print(f"measured in {time.monotonic() - began:.0f} s")
    return int(check and any(figure.more > figure.bound for figure in figures))


if __name__ == "__main__":
    raise SystemExit(main())

"""Loads that once ended, froze, starved or outwitted the scheduler, each with what must hold under it.

Every load runs against a scheduler of its own for a few seconds and returns what was measured. Bounds are wide enough
for a busy machine: what went wrong before took seconds or ended the scheduler. `python -m bench floods` measures the
delays themselves."""

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from bench.floods import processor_clock

from nvshare.wire import messages as wire
from support.client import GIB, WireClient, entry
from support.daemon import Daemon
from support.waiting import wait_until

MAX_WAIT_S = 2.0
"""A victim's longest wait for a lock of an idle GPU."""
QUANTUM_S = GRACE_S = 1
FAST = (
    "--switch-time-mode=fixed",
    f"--switch-time-fixed={QUANTUM_S}",
    f"--grace-seconds={GRACE_S}",
    "--settle-seconds=0",
)
HELD_S = 0.01
LIE: dict[str, Any] = {"state": wire.ClaimState.UNSHARED, "swappable": 1 << 55, "contexts": 1}
LIE_S = 0.2
MIN_RESTARTS = 2
END_S = 1.0
"""A process that ends closes its sockets a moment before its exit code is known."""


@dataclass
class Result:
    """What one load did, and whether all that must hold did."""

    measured: str
    wrong: str = ""
    is_skipped: bool = False
    not_judged: tuple[str, ...] = ()
    """Measurements that say nothing, because the machine was too busy even without the load."""


NEEDS_ROOT = Result("skipped: needs root", is_skipped=True)

Load = Callable[[Path, float], Result]


def judge(measured: str, **claims: bool) -> Result:
    """The claims that are false are what is wrong."""
    return Result(measured, ", ".join(name.replace("_", " ") for name, holds in claims.items() if not holds))


class Victim:
    """A client that takes the lock of its own GPU and returns it, once at least, and until the block ends. What goes
    wrong in its thread is raised at the end of the block."""

    def __init__(self, daemon: Daemon, gpu: int = 7, memory: int = GIB) -> None:
        self._client = daemon.client(timeout=60).register(entry(gpu))
        self._clock = processor_clock(daemon.pid)
        self._memory = memory
        self._is_over = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self.waits: list[float] = []
        self.own: list[float] = []
        """Of each wait: the processor time that the scheduler used meanwhile."""

    def _take_turns(self) -> None:
        while not self.waits or not self._is_over.is_set():
            began, used = time.monotonic(), time.clock_gettime(self._clock)
            lock = self._client.take_lock(self._memory)
            self.own.append(time.clock_gettime(self._clock) - used)
            self.waits.append(time.monotonic() - began)
            self._is_over.wait(HELD_S)
            self._client.release(lock)

    def __enter__(self) -> Self:
        self._turns = self._thread.submit(self._take_turns)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.shutdown()
        self._client.close()
        self._turns.result()

    @property
    def longest_s(self) -> float:
        return max(self.waits, default=float("inf"))

    def __str__(self) -> str:
        waits = sorted(self.waits)
        return f"{len(waits)} turns of another client, longest wait {1000 * self.longest_s:.0f} ms"


@contextlib.contextmanager
def serving(place: Path, *options: str) -> Iterator[Daemon]:
    """A scheduler that must be alive at the end. If it has ended by itself, that is the error, whatever it led to."""
    daemon = Daemon(place, "--http", "127.0.0.1:0", *options)
    try:
        yield daemon
        daemon.assert_alive()
    except Exception:
        with contextlib.suppress(subprocess.TimeoutExpired):
            daemon.process.wait(END_S)
        daemon.assert_alive()
        raise
    finally:
        daemon.kill()


def until(seconds: float) -> Iterator[int]:
    """0, 1, 2, ... until the time is over."""
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        yield number
        number += 1


# The loads. Numbers are those of docs/proof.md.


def lying_claims(place: Path, seconds: float) -> Result:
    """3: connections that claim to run unshared with 2^55 bytes, again and again. Two are open at a time."""

    def lie() -> None:
        while not is_over.wait(0 if len(liars) < 2 else LIE_S):
            liars.append(daemon.client().register(entry(0, **LIE)))
            if len(liars) > 2:
                liars.pop(0).close()
            are_lying.set()

    liars: list[WireClient] = []
    is_over, are_lying = threading.Event(), threading.Event()
    with serving(place, *FAST) as daemon, ThreadPoolExecutor(1) as thread:
        lies = thread.submit(lie)
        try:
            assert are_lying.wait(60)
            with Victim(daemon, gpu=0, memory=9 * GIB) as victim:
                is_over.wait(seconds)
                turns = len(victim.waits)
                is_over.set()
                lies.result()
                for liar in liars:
                    liar.close()
        finally:
            is_over.set()
        measured = f"{turns} turns of an honest client in {seconds:.0f} s of lies"
        return judge(measured, an_honest_client_gets_a_turn_each_second=turns >= seconds)


def forgotten_limits(place: Path, seconds: float) -> Result:
    """8: a limit of the operator, and restarts of the scheduler. The next process of the run comes after the settling
    time, when nobody is left who could claim the limit."""
    run, kept, count = bytes(range(16)), 0, 0
    end = time.monotonic() + seconds
    while count <= MIN_RESTARTS or time.monotonic() < end:
        with serving(place, "--settle-seconds=0.1") as daemon:
            if not count:
                with daemon.client().register(run=run):
                    daemon.ctl("limit", f"{os.getuid()}-{run.hex()}", "2Gi")
            wait_until(lambda d=daemon: not d.status()["settling"], "the settling time is over")  # type: ignore[misc]
            with daemon.client().register(run=run) as member:
                kept += wire.UpdateLimit(0, 2 * GIB) in member.hear_all()
        count += 1
    measured = f"{count - 1} restarts, {kept} of {count} newcomers were told the limit"
    return judge(measured, the_limit_is_kept=kept == count)


LOADS: dict[str, tuple[str, Load]] = {
    "3": ("lying claims", lying_claims),
    "8": ("limits across restarts", forgotten_limits),
}

"""How late this machine runs threads that go before all others.

A virtual machine whose host gives its processors to others stands still meanwhile. Then everything that is measured
in real time is wrong, whatever the code does. A probe on each processor sleeps for a millisecond, again and again, and
adds up by how much it woke too late. As root it has a higher priority than all other threads, so it is late only if the
machine itself is."""

import contextlib
import os
import select
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

STEP_S = 0.001
USUAL_S = 0.0005
"""A wake-up that is late by less than this is as it should be."""
PRIORITY = 2
"""Of the probe, among threads of SCHED_FIFO."""


class Lateness:
    """Measures while the block runs; `share` afterwards: the part of that time for which a processor was late."""

    share: float

    def __enter__(self) -> Self:
        cpus = os.sched_getaffinity(0)
        command = [sys.executable, __file__]
        self._probes = [
            subprocess.Popen([*command, str(cpu)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for cpu in sorted(cpus)
        ]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.share = max(float(probe.communicate()[0]) for probe in self._probes)


def probe(cpu: int) -> float:
    """Until the input ends."""
    os.sched_setaffinity(0, {cpu})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    began = before = time.monotonic()
    late = 0.0
    while not select.select([sys.stdin], [], [], STEP_S)[0]:
        now = time.monotonic()
        if now - before > STEP_S + USUAL_S:
            late += now - before - STEP_S
        before = now
    return late / (before - began) if before > began else 0.0


if __name__ == "__main__":
    print(probe(int(sys.argv[1])))

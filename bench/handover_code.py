"""How much code of the scheduler a hand-over executes: bytecodes and calls of Python functions, by part.

    python -m bench.handover_code [CLIENTS]

A scheduler runs in this process and is traced, while a thread hands its lock around. The core's time advances by
READ_NS whenever it is read, so that turns are as short as without tracing. The counts depend on the version of Python,
and not on the machine or its load. So one run shows what a change saves."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from functools import partial
from itertools import count as counted
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import nvshare
from bench.daemon import GIB, BenchClient
from nvshare.scheduler import main as scheduler
from nvshare.scheduler.engine import Engine
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode

SOURCES = str(Path(nvshare.__file__).parent) + os.sep
PARTS = ("core", "wire", "translation", "scheduler/clients", "scheduler/engine", "scheduler/observe")
HAND_OVERS = 200
READ_NS = 20_000
"""About the time of a hand-over, which reads the clock once."""


class Count:
    """Counts in the thread that calls `sys.settrace`, while `is_on`."""

    def __init__(self) -> None:
        self.is_on = False
        self.bytecodes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        path = frame.f_code.co_filename
        if not self.is_on or not path.startswith(SOURCES):
            return None  # Code outside of the measurement is not slowed down.
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        part = path.removeprefix(SOURCES).removesuffix(".py")
        self.bytecodes[part] += event == "opcode"
        self.calls[part] += event == "call"
        return self.trace

    def rows(self) -> list[tuple[str, float, float]]:
        """The parts, and all of them."""
        found = [(part, _sum(self.bytecodes, part), _sum(self.calls, part)) for part in PARTS]
        return [*found, ("all", _sum(self.bytecodes, ""), _sum(self.calls, ""))]


def _sum(counts: Counter[str], part: str) -> float:
    """For one hand-over."""
    return sum(count for name, count in counts.items() if name.startswith(part)) / HAND_OVERS


def hand_around(path: Path, clients: int, count: Count) -> None:
    """Each client gives the lock back at once and wants another, as in native/handover_load.c. The order is that of
    arrival, in mode auto."""
    while not path.exists():
        time.sleep(0.01)
    peers = [BenchClient(path, b"%016d" % index) for index in range(clients)]
    answers: list[wire.Message] = []
    for peer in peers:
        peer.hear(wire.SchedOn)
        peer.socket.sendall(encode(wire.ReqLock(gpu=0, contexts=1, swappable=10 * GIB, unswappable=0)))
        answers.append(peer.hear(wire.WaitForMem if answers else wire.LockOk))
    given = answers[0]
    for hand_over in range(2 * HAND_OVERS):
        count.is_on = hand_over >= HAND_OVERS
        holder, following = peers[hand_over % clients], peers[(hand_over + 1) % clients]
        assert isinstance(given, wire.LockOk)
        holder.socket.sendall(encode(wire.LockReleased(gpu=0, again=True, lock=given.lock)))
        given = following.hear(wire.LockOk)
    count.is_on = False


def hand_around_and_stop(path: Path, clients: int, count: Count) -> None:
    try:
        hand_around(path, clients, count)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    count = Count()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.sock"
        threading.Thread(target=hand_around_and_stop, args=(path, clients, count), daemon=True).start()
        quiet = ("--nvml", "off", "--kubernetes", "off", "--log-level", "warning")
        options = (*quiet, "--max-clients-per-group", "2000", "--switch-time-mode", "auto")
        clock = counted(time.monotonic_ns(), READ_NS).__next__
        with mock.patch.object(scheduler, "Engine", partial(Engine, clock=clock)):
            sys.settrace(count.trace)
            code = scheduler.main(["--socket", str(path), "--operator-socket", f"{name}/op/c.sock", *options])
            sys.settrace(None)
    for part, bytecodes, calls in count.rows():
        print(f"{part:20}{bytecodes:8.0f} bytecodes{calls:6.0f} calls")
    return code


if __name__ == "__main__":
    sys.exit(main())

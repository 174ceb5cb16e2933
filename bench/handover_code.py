"""How much code of the scheduler a hand-over executes: bytecodes and calls of Python functions, by part.

    python -m bench.handover_code [CLIENTS]

A scheduler runs in this process and is traced, while a thread hands its lock around. The counts depend on the version
of Python, and not on the machine or its load: what a change saves is seen at once."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import nvshare
from bench.daemon import GIB, BenchClient
from nvshare.scheduler.main import main as run_scheduler
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode

SOURCES = str(Path(nvshare.__file__).parent) + os.sep
PARTS = ("core", "wire", "translation", "scheduler/clients", "scheduler/engine", "scheduler/observe")
HAND_OVERS = 200


class Count:
    """Counts in the thread that calls `sys.settrace`, while `is_on`."""

    def __init__(self) -> None:
        self.is_on = False
        self.bytecodes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        path = frame.f_code.co_filename
        if self.is_on and path.startswith(SOURCES):
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
    for peer in peers:
        peer.hear(wire.SchedOn)
        peer.socket.sendall(encode(wire.ReqLock(gpu=0, contexts=1, swappable=10 * GIB, unswappable=0)))
        if peer is not peers[0]:
            peer.hear(wire.WaitForMem)
    given = peers[0].hear(wire.LockOk)
    for hand_over in range(2 * HAND_OVERS):
        count.is_on = hand_over >= HAND_OVERS
        holder, following = peers[hand_over % clients], peers[(hand_over + 1) % clients]
        assert isinstance(given, wire.LockOk)
        holder.socket.sendall(encode(wire.LockReleased(gpu=0, again=True, lock=given.lock)))
        given = following.hear(wire.LockOk)
    count.is_on = False
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> int:
    clients = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    count = Count()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "s.sock"
        threading.Thread(target=hand_around, args=(path, clients, count), daemon=True).start()
        quiet = ("--nvml", "off", "--kubernetes", "off", "--log-level", "warning")
        options = (*quiet, "--max-clients-per-group", "2000", "--switch-time-mode", "auto")
        sys.settrace(count.trace)
        code = run_scheduler(["--socket", str(path), "--operator-socket", f"{name}/op/c.sock", *options])
        sys.settrace(None)
    for part, bytecodes, calls in count.rows():
        print(f"{part:20}{bytecodes:8.0f} bytecodes{calls:6.0f} calls")
    return code


if __name__ == "__main__":
    sys.exit(main())

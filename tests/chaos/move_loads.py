"""Faults while memory moves in bulk. As loads.py.

Two programs that do not fit together take turns on a card from which memory goes out slowly. Each round waits until the
one that has to leave moves its memory to the host, then something fails, and the card's own records say afterwards
whether the move was under way. A round whose fault came too late counts for nothing: it is repeated."""

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.loads import FAST, Load, Result, judge
from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, MIB, Program
from nvshare.simgpu.trace import Kind
from support.waiting import wait_until

SIZE = 2560 * MIB
CARD: dict[str, Any] = {"memory": "4Gi", "scale": 1, "evict_bandwidth": "300M"}
ASKED = 2 * SIZE - 4096 * MIB
"""What must leave at least, so that the other one's memory fits. It takes more than three seconds."""
UNDER_WAY = ASKED - 256 * MIB
"""While no more than this has begun to move, slices are still to come."""
MOST_ROUNDS = 15
PATIENCE_S = 120


class Round:
    """A program that moves its memory out, because another one has its turn."""

    def __init__(self, machine: Machine, other: Program, there: int) -> None:
        self.machine, self.other = machine, other
        self.leaving = machine.start(CHECKS / "lib_mover")
        self.leaving.do("init", timeout=PATIENCE_S)
        self.memory = self.allocate()
        other.say(f"touch {there} {SIZE} 3")
        wait_until(lambda: self.begun_out > 0, "the program moves its memory out", PATIENCE_S)

    def allocate(self) -> int:
        """Memory that is used once, so that it is on the card."""
        address = int(self.leaving.do(f"alloc {SIZE}", timeout=PATIENCE_S)[0])
        self.leaving.do(f"touch {address} {SIZE} 1", timeout=PATIENCE_S)
        return address

    @property
    def begun_out(self) -> int:
        """Bytes that have begun to move to the host."""
        traces = (trace for trace in self.machine.traces() if trace.pid == self.leaving.process.pid)
        return sum(one.bytes for trace in traces for one in trace.of_kind(Kind.PREFETCH) if not one.detail)

    @property
    def is_under_way(self) -> bool:
        return 0 < self.begun_out < UNDER_WAY

    def other_went_on(self) -> bool:
        return self.other.answer(PATIENCE_S)[0] == "0"

    # Each says whether the move was under way when it happened.

    def kill_it(self) -> bool:
        self.leaving.process.kill()
        self.leaving.process.wait(PATIENCE_S)
        return self.is_under_way

    def kill_scheduler(self) -> bool:
        self.machine.daemon.kill()
        was_under_way = self.is_under_way
        self.machine.restart()
        wait_until(lambda: len(self.machine.clients()) == 2, "both register again", PATIENCE_S)
        return was_under_way

    def free_memory(self) -> bool:
        self.leaving.do(f"free {self.memory}", timeout=PATIENCE_S)
        was_under_way = self.is_under_way
        self.memory = self.allocate()
        return was_under_way

    def end(self) -> None:
        """It works as before, unless it was killed."""
        if self.leaving.process.poll() is None:
            self.leaving.do(f"touch {self.memory} {SIZE} 1", timeout=PATIENCE_S)
            self.leaving.finish()


FAULTS: dict[str, Callable[[Round], bool]] = {
    "killed while it moved out": Round.kill_it,
    "scheduler killed between the halves of a switch": Round.kill_scheduler,
    "memory freed while it moved": Round.free_memory,
}


def faults_while_memory_moves(place: Path, seconds: float) -> Result:
    """18: a program is killed while it moves out, the scheduler between the halves of a switch, and memory is freed
    while it moves."""
    place.mkdir()
    hits: Counter[str] = Counter()
    late = failed = 0
    end = time.monotonic() + seconds
    with Machine(place, *FAST, **CARD) as machine:
        other = machine.start(CHECKS / "lib_mover")
        other.do("init", timeout=PATIENCE_S)
        there = int(other.do(f"alloc {SIZE}")[0])
        while hits.total() + late < MOST_ROUNDS and (len(hits) < len(FAULTS) or time.monotonic() < end):
            what = min(FAULTS, key=lambda name: hits[name])
            one = Round(machine, other, there)
            if FAULTS[what](one):
                hits[what] += 1
            else:
                late += 1
            failed += not one.other_went_on()
            one.end()
        machine.daemon.assert_alive()
        wait_until(lambda: len(machine.clients()) == 1, "those who left are forgotten", PATIENCE_S)
    measured = f"{', '.join(f'{hits[name]} x {name}' for name in FAULTS)}; {late} faults came too late"
    return judge(measured, every_fault_met_a_move_under_way=len(hits) == len(FAULTS), others_go_on=not failed)


LOADS: dict[str, tuple[str, Load]] = {"18": ("faults while memory moves", faults_while_memory_moves)}

"""Programs whose memory moves at a switch, and what their cards recorded of it."""

from pathlib import Path
from typing import Any

from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, GIB, MIB, Program
from nvshare.simgpu.trace import Kind, ProcessTrace, Record
from support.waiting import wait_until

FOREVER = 1_000_000
SIZE, SLICE = 5 * GIB, 64 * MIB
OPTIONS = ("--switch-time-mode=fixed", "--switch-time-fixed=1")


def machine_of(tmp_path: Path, **settings: Any) -> Machine:
    return Machine(tmp_path, *OPTIONS, memory="8Gi", **settings)


def program(machine: Machine, **environment: str) -> tuple[Program, int]:
    """A program with one allocation; its address."""
    started = machine.start(CHECKS / "lib_mover", **environment)
    started.do("init")
    return started, int(started.do(f"alloc {SIZE}")[0])


def two_that_take_turns(machine: Machine, **environment: str) -> list[Program]:
    """Each touches all of its memory, over and over; they do not fit together."""
    both = [program(machine, **environment) for _ in range(2)]
    for one, address in both:
        one.say(f"touch {address} {SIZE} {FOREVER}")
    return [one for one, _ in both]


def one_that_pauses(machine: Machine) -> tuple[Program, int, Program]:
    """A program that has touched its memory, the memory's address, and another program that wants the
    card for ever: the first one moves out."""
    one, address = program(machine)
    one.do(f"touch {address} {SIZE} 1", timeout=60)
    other, there = program(machine)
    other.say(f"touch {there} {SIZE} {FOREVER}")
    return one, address, other


def moved(machine: Machine) -> list[dict[str, int]]:
    return [client["moved"] for client in machine.clients()]


def prefetches(trace: ProcessTrace) -> list[Record]:
    return trace.of_kind(Kind.PREFETCH)


def pids_that_move_out(machine: Machine) -> list[int]:
    return [trace.pid for trace in machine.traces() if any(record.detail == 0 for record in prefetches(trace))]


def turns(machine: Machine) -> int:
    return min((client["turns"] for client in machine.clients()), default=0)


def wait_for_moves(machine: Machine) -> None:
    wait_until(
        lambda: all(one["in_bytes"] and one["out_bytes"] for one in moved(machine)) and len(moved(machine)) == 2,
        "both have moved memory both ways",
        60,
    )

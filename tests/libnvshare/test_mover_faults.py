"""What ends while memory moves: memory, contexts, programs, the scheduler. Simulated cards, the real scheduler."""

from pathlib import Path

import pytest

from libnvshare.machine import Machine
from libnvshare.movers import (
    SIZE,
    machine_of,
    one_that_pauses,
    prefetches,
    two_that_take_turns,
    wait_for_moves,
)
from libnvshare.programs import GIB, Program
from support.waiting import wait_until

SLOW_OUT = {"evict_bandwidth": "400M", "scale": 1}
"""A move of 3 GB to the host takes more than seven seconds."""


def begun_out(machine: Machine, one: Program) -> int:
    """Bytes of the slices to the host that have begun to move."""
    (trace,) = (trace for trace in machine.traces() if trace.pid == one.process.pid)
    return sum(record.bytes for record in prefetches(trace) if not record.detail)


@pytest.mark.parametrize("order", ["free", "destroy"])
def test_memory_can_be_freed_and_contexts_destroyed_while_it_moves(tmp_path: Path, order: str) -> None:
    with machine_of(tmp_path, **SLOW_OUT) as machine:
        one, address, other = one_that_pauses(machine)
        wait_until(lambda: begun_out(machine, one), "the move has begun", 60)
        one.do(f"free {address}" if order == "free" else "destroy")
        assert 0 < begun_out(machine, one) < 2 * GIB, "the move was under way: 2.8 GiB were asked for"
        if order == "free":
            again = int(one.do(f"alloc {SIZE}")[0])
            one.do(f"touch {again} {SIZE} 1", timeout=60)
        one.finish()
        assert other.process.poll() is None


def test_a_program_that_is_killed_while_it_moves_leaves_the_gpu_to_the_others(tmp_path: Path) -> None:
    with machine_of(tmp_path, **SLOW_OUT) as machine:
        one, _, _ = one_that_pauses(machine)
        wait_until(lambda: begun_out(machine, one), "the move has begun", 60)
        one.process.kill()
        one.process.wait(60)
        assert 0 < begun_out(machine, one) < 2 * GIB, "the move was under way: 2.8 GiB were asked for"
        wait_until(lambda: [one["state"] for one in machine.clients()] == ["running"], "the other runs alone", 60)


def test_a_scheduler_that_dies_between_the_halves_of_a_switch_is_replaced_and_turns_go_on(tmp_path: Path) -> None:
    with machine_of(tmp_path, evict_bandwidth="1G", scale=1) as machine:  # a move takes three seconds
        both = two_that_take_turns(machine)
        wait_until(lambda: any(begun_out(machine, one) for one in both), "one moves out", 60)
        machine.daemon.kill()
        assert max(begun_out(machine, one) for one in both) < 5 * GIB // 2, "it was killed before the end of the move"
        machine.restart()
        wait_for_moves(machine)

"""What a program is shown as free and may allocate, on simulated cards under the real scheduler.

A kernel's record says how long it waited for memory to be moved in, in the card's own time: a busy machine does not
change it."""

from pathlib import Path

import pytest

from libnvshare.machine import Machine
from libnvshare.programs import GIB, MIB, OUT_OF_MEMORY, Program
from support.waiting import wait_until

CHUNK = 2 * MIB
CONTEXT = 400 * MIB
"""What the scheduler counts for a context while NVML has not told it more."""


def shown(program: Program) -> int:
    """Free memory as the program sees it."""
    return int(program.do("info")[0])


def fill(program: Program) -> int:
    """Allocates all that is shown; how much that is."""
    size = shown(program) // CHUNK * CHUNK
    program.do(f"alloc {size}")
    return size


@pytest.mark.parametrize(("memory", "reserve"), [("4Gi", GIB // 2), ("16Gi", GIB), ("32Gi", 32 * GIB // 20)])
def test_a_program_that_fills_what_it_is_shown_runs_at_bare_speed(tmp_path: Path, memory: str, reserve: int) -> None:
    with Machine(tmp_path, scale=0.001, memory=memory) as machine:
        program = machine.client()
        size = fill(program)
        program.do("spin 1000 4", timeout=60)
        program.do("sync", timeout=60)
        (trace,) = machine.traces()
        first, *others = trace.kernels()
        assert size == (int(memory.removesuffix("Gi")) * GIB - reserve - CONTEXT) // CHUNK * CHUNK
        assert first.page_in_ns > 0
        assert [kernel.page_in_ns for kernel in others] == [0, 0, 0]


def test_more_than_is_shown_is_refused_and_the_reason_is_said_once(tmp_path: Path) -> None:
    with Machine(tmp_path, memory="4Gi") as machine:
        program = machine.client()
        for _ in range(2):
            assert program.ask(f"alloc {shown(program) + CHUNK}")[0] == str(OUT_OF_MEMORY)
        assert program.said().count("was refused: the card has 3184 MiB for this program, 0 MiB of them in use") == 1


def test_memory_of_others_that_cannot_be_evicted_is_not_shown_until_it_is_freed(tmp_path: Path) -> None:
    with Machine(tmp_path, memory="16Gi") as machine:
        program = machine.client()
        alone = shown(program)
        native = machine.client(4 * GIB, NVSHARE_MEMORY_MODE="native")
        wait_until(lambda: sum(c["memory_allocated"] for c in machine.clients()) >= 4 * GIB, what="it is reported")
        address = program.do(f"alloc {CHUNK}")[0]  # the answer to its own report includes what the others have
        wait_until(lambda: shown(program) == alone - CHUNK - 4 * GIB - CONTEXT, what="less is shown")
        native.finish()
        wait_until(lambda: len(machine.clients()) == 1, what="the other has left")
        program.do(f"free {address}")
        program.do(f"alloc {alone}")  # before it is refused, the scheduler is asked


def test_the_operator_chooses_the_reserve(tmp_path: Path) -> None:
    with Machine(tmp_path, "--card-reserve=100Mi", memory="4Gi") as machine:
        assert shown(machine.client()) == 4 * GIB - CONTEXT - 100 * MIB

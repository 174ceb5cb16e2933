"""What switches cost, from made-up traces."""

import pytest

from nvshare.simgpu.switches import switch_costs
from nvshare.simgpu.trace import Kind, ProcessTrace, Record

MS = 1_000_000
SCALE = 0.1


def kernel(begin_ms: int, end_ms: int | None, page_in_ms: int = 0) -> Record:
    end_ns = None if end_ms is None else end_ms * MS
    return Record(Kind.KERNEL, 0, begin_ms * MS, end_ns, 0, 0, page_in_ms * MS, 0, "pass", 0, 0)


def trace(process: str, *kernels: Record) -> ProcessTrace:
    return ProcessTrace(process, 1, 0, "worker", 0, SCALE, ("GPU",), kernels, 0)


def test_a_switch_costs_the_gap_and_what_kernels_wait_for_memory_in_seconds_of_the_card() -> None:
    one = trace("one", kernel(0, 50), kernel(50, 100), kernel(210, 300))
    other = trace("other", kernel(120, 180, page_in_ms=30), kernel(180, 200, page_in_ms=5))
    assert switch_costs([one, other]) == pytest.approx([0.55, 0.1])


def test_a_kernel_that_has_not_ended_is_no_turn() -> None:
    assert switch_costs([trace("one", kernel(0, 100)), trace("other", kernel(120, None))]) == []


def test_without_programs_there_is_no_switch() -> None:
    assert switch_costs([]) == []

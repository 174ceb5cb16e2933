"""Memory moves in bulk at a switch, on simulated cards under the real scheduler.

What moved is read from the card's own records, so a busy machine changes nothing but how long a test takes."""

from itertools import pairwise, permutations
from pathlib import Path

import pytest

from libnvshare.machine import Machine
from libnvshare.movers import (
    FOREVER,
    OPTIONS,
    SIZE,
    SLICE,
    machine_of,
    moved,
    one_that_pauses,
    pids_that_move_out,
    prefetches,
    program,
    turns,
    two_that_take_turns,
    wait_for_moves,
)
from libnvshare.programs import GIB, MIB
from nvshare.simgpu.trace import Kind, ProcessTrace, Record
from support.waiting import wait_until


def test_at_a_switch_one_moves_out_what_the_other_needs(tmp_path: Path) -> None:
    with machine_of(tmp_path) as machine:
        two_that_take_turns(machine)
        wait_for_moves(machine)
        wait_until(
            lambda: all(any(not kernel.page_in_ns for kernel in trace.kernels()) for trace in machine.traces()),
            "the memory of each was all there",
            60,
        )
        for trace in machine.traces():
            assert {record.detail for record in prefetches(trace)} == {0, 1}
            assert max(record.bytes for record in prefetches(trace)) == SLICE


def overlap(leaving: ProcessTrace, coming: ProcessTrace) -> bool:
    """Memory of one moved out while memory of the other moved in."""
    outs, ins = (
        [(one.begin_ns, one.end_ns) for one in prefetches(trace) if bool(one.detail) == to_gpu and one.end_ns]
        for trace, to_gpu in ((leaving, False), (coming, True))
    )
    return any(begin < in_end and in_begin < end for begin, end in outs for in_begin, in_end in ins)


def first_kernels(machine: Machine) -> list[Record]:
    """Those with which turns began whose memory had been on the card before."""
    kernels = [(kernel.begin_ns, trace.pid, kernel) for trace in machine.traces() for kernel in trace.kernels()]
    in_order = sorted(kernels, key=lambda one: one[0])
    return [one[2] for before, one in pairwise(in_order) if before[1] != one[1]][1:]


def test_memory_moves_out_and_in_at_the_same_time_and_a_turns_first_kernel_waits_no_longer(
    tmp_path: Path,
) -> None:
    """By page faults its 2.8 GiB would take at least 2.8 seconds. On a busy machine one switch of many is enough."""
    speeds = {"copy_bandwidth": "4G", "evict_bandwidth": "4G", "fault_bandwidth": "1G"}
    with machine_of(tmp_path, scale=1, **speeds) as machine:
        two_that_take_turns(machine)
        wait_for_moves(machine)
        wait_until(lambda: any(overlap(a, b) for a, b in permutations(machine.traces())), "both move at once", 60)
        quick = lambda: any(0 < kernel.page_in_ns < 1.5e9 for kernel in first_kernels(machine))  # noqa: E731
        wait_until(quick, "a turn begins with memory that was moved in bulk", 60)


def test_where_there_are_several_gpus_launches_go_on_showing_what_is_used(tmp_path: Path) -> None:
    """There each launch takes the slow path of the gate. After many quick launches only some are looked at."""
    with machine_of(tmp_path, gpus=2) as machine:
        both = [program(machine) for _ in range(2)]
        for one, address in both:
            [other] = one.do(f"alloc {4 * MIB}")
            one.do(f"burst {other} 4096 20000", timeout=60)
            one.say(f"touch {address} {SIZE} {FOREVER}")
        seen = lambda: len(moved(machine)) == 2 and all(one["in_bytes"] > GIB for one in moved(machine))  # noqa: E731
        wait_until(seen, "both have moved in what they used after the burst", 60)


def test_a_program_that_pauses_moves_out_at_once_although_no_message_wakes_it(tmp_path: Path) -> None:
    with machine_of(tmp_path) as machine:
        one, _, other = one_that_pauses(machine)
        runs = lambda: any(one.pid == other.process.pid and one.kernels() for one in machine.traces())  # noqa: E731
        wait_until(runs, "the other one runs", 60)
        wait_until(lambda: pids_that_move_out(machine) == [one.process.pid], "it moves out", 60)
        moves = [record for trace in machine.traces() for record in prefetches(trace) if not record.detail]
        (work,) = (trace.kernels() for trace in machine.traces() if trace.pid == other.process.pid)
        assert moves[0].begin_ns - work[0].begin_ns < 4e9, "before the helper's safety net of 5 s wakes it"


def test_a_program_that_remains_when_the_other_one_has_ended_moves_in_in_bulk(tmp_path: Path) -> None:
    with machine_of(tmp_path) as machine:
        one, address, other = one_that_pauses(machine)
        wait_until(lambda: pids_that_move_out(machine) == [one.process.pid], "it moves out", 60)
        other.process.kill()
        wait_until(lambda: len(machine.clients()) == 1, "the other one is gone", 60)
        one.do(f"touch {address} {SIZE} 1", timeout=60)
        wait_until(
            lambda: any(record.detail for trace in machine.traces() for record in prefetches(trace)), "it moves in", 60
        )


def test_memory_that_was_never_touched_is_not_moved(tmp_path: Path) -> None:
    used = 4 * GIB  # of both together it does not fit
    with machine_of(tmp_path, touch="stream") as machine:
        both = [program(machine) for _ in range(2)]
        for one, address in both:
            one.do(f"set {address} {used}")
            one.say(f"touch {address} {used} {FOREVER}")
        wait_until(lambda: turns(machine) >= 3, "each has had its turns", 60)
        for trace in machine.traces():
            (allocation,) = (record for record in trace.of_kind(Kind.ALLOC) if record.bytes == SIZE)
            within = range(allocation.address, allocation.address + used)
            assert prefetches(trace)
            assert all(
                record.address in within and record.address + record.bytes - 1 in within for record in prefetches(trace)
            )


def test_what_was_used_of_a_large_array_moves_out_before_the_rest_of_it(tmp_path: Path) -> None:
    """Kernels got its base only, which does not say how much of it they use."""
    used = 2 * GIB
    with machine_of(tmp_path, touch="stream") as machine:
        both = [program(machine) for _ in range(2)]
        for one, address in both:
            one.say(f"touch {address} {used} {FOREVER}")
        wait_until(lambda: turns(machine) >= 3, "each has had its turns", 60)
        for trace in machine.traces():
            (allocation,) = (record for record in trace.of_kind(Kind.ALLOC) if record.bytes == SIZE)
            out = [record.address - allocation.address for record in prefetches(trace) if not record.detail]
            beyond = next((index for index, offset in enumerate(out) if offset >= used), len(out))
            assert out[0] == 0
            assert set(out[:beyond]) == set(range(0, used, SLICE)) or beyond == len(out)


POINTS, COPIES = ("extra", "kernel"), ("shaped", "batch", "peer")
REGION, CHUNK = 768 * MIB, 2 * MIB
"""All five together are so much that no two programs fit."""


def test_memory_shows_its_use_in_every_kind_of_call(tmp_path: Path) -> None:
    with machine_of(tmp_path, touch="stream") as machine:
        programs = [program(machine) for _ in range(3)]
        for one, address in programs:
            for index, use in enumerate(COPIES + POINTS):
                one.do(f"{use} {address + index * REGION} {REGION}", timeout=60)
        for one, _ in programs:
            one.say(f"spin 1000000 {FOREVER}")  # few long kernels: the traces are read again and again
        # A copy comes first: it shows that the allocation is an arena. A pointer shows the chunk that it points into.
        wanted = [REGION] * len(COPIES) + [CHUNK] * len(POINTS)
        wait_until(
            lambda: [moved_out(trace) for trace in machine.traces()] == [wanted] * 3, "all move what they used", 60
        )


def moved_out(trace: ProcessTrace) -> list[int]:
    """Bytes of each region of the program's allocation that were ever moved out."""
    (allocation,) = (record for record in trace.of_kind(Kind.ALLOC) if record.bytes == SIZE)
    chunks = {
        (record.address + offset - allocation.address) // CHUNK
        for record in prefetches(trace)
        if not record.detail
        for offset in range(0, record.bytes, CHUNK)
    }
    return [sum(CHUNK for chunk in chunks if chunk * CHUNK // REGION == index) for index in range(len(COPIES + POINTS))]


def test_nothing_is_moved_if_the_user_says_so(tmp_path: Path) -> None:
    with machine_of(tmp_path) as machine:
        two_that_take_turns(machine, NVSHARE_PREFETCH="0")
        wait_until(lambda: turns(machine) >= 3, "each has had its turns", 60)
        assert [prefetches(trace) for trace in machine.traces()] == [[], []]
        assert [one["not_moving"] for one in machine.clients()] == ["switched off (NVSHARE_PREFETCH=0)"] * 2


@pytest.mark.parametrize(("order", "own"), [("advise", []), ("prefetch", [SIZE])])
def test_memory_that_the_program_advises_or_prefetches_is_left_alone(
    tmp_path: Path, order: str, own: list[int]
) -> None:
    with machine_of(tmp_path) as machine:
        both = [program(machine) for _ in range(2)]
        for one, address in both:
            one.do(f"{order} {address} {SIZE}", timeout=60)
            one.say(f"touch {address} {SIZE} {FOREVER}")
        wait_until(lambda: turns(machine) >= 3, "each has had its turns", 60)
        assert [[record.bytes for record in prefetches(trace)] for trace in machine.traces()] == [own, own]


def test_a_prefetch_that_does_nothing_is_noticed_and_said_once(tmp_path: Path) -> None:
    with machine_of(tmp_path, prefetch="ignored", scale=1) as machine:
        both = two_that_take_turns(machine)
        said = "prefetching memory has no effect here; page faults move it instead"
        wait_until(lambda: all(said in one.said() for one in both), "it is said", 60)
        before = [len(prefetches(trace)) for trace in machine.traces()]
        had = turns(machine)
        wait_until(lambda: turns(machine) >= had + 2, "turns go on", 60)
        assert [len(prefetches(trace)) for trace in machine.traces()] == before
        assert [one.said().count(said) for one in both] == [1, 1]
        assert [one["not_moving"] for one in machine.clients()] == ["prefetches have no effect"] * 2


def test_a_card_without_concurrent_managed_access_has_no_mover(tmp_path: Path) -> None:
    with Machine(tmp_path, compute_capability="5.2") as machine:
        one, address = program(machine)
        one.do(f"touch {address} {SIZE} 1")
        assert [prefetches(trace) for trace in machine.traces()] == [[]]
        (shown,) = machine.clients()
        assert shown["not_moving"] == "the GPU has no concurrent managed access"


def test_programs_that_all_fit_move_nothing(tmp_path: Path) -> None:
    with Machine(tmp_path, *OPTIONS, memory="16Gi") as machine:
        two_that_take_turns(machine)
        wait_until(lambda: [one["state"] for one in machine.clients()] == ["running"] * 2, "both run", 60)
        assert [prefetches(trace) for trace in machine.traces()] == [[], []]

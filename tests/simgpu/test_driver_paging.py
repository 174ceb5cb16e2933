"""Time and memory of the simulated card: what first touch, residency, thrashing and taking turns cost.

Times are the card's own (events), so a busy machine does not change them; only thrashing is made slower by it."""

from pathlib import Path

import pytest

from simgpu.node import MakeNode, Node
from support.real_time import hurry
from support.simgpu_worker import GIB, MIB, Worker
from support.waiting import wait_until

ALONE_PASS_S = 0.12
FITTING_PASS_S = ALONE_PASS_S / 2  # of 5 GiB instead of 10


@pytest.fixture
def card(make_node: MakeNode) -> Node:
    return make_node(gpus=1, memory="16Gi", scale=0.01)


def test_first_touch_and_a_resident_pass_take_the_measured_times(card: Node, checks: Path) -> None:
    with Worker(card, checks) as worker:
        assert worker.ask(f"managed {10 * GIB}") == "0"
        assert worker.simulated_s("pass 1") == pytest.approx(3.82, rel=0.1)
        assert worker.simulated_s("pass 50") / 50 == pytest.approx(ALONE_PASS_S, rel=0.05)


def test_two_that_do_not_fit_thrash_when_they_run_at_once(make_node: MakeNode, checks: Path) -> None:
    card = make_node(gpus=1, memory="16Gi", scale=0.005)
    with Worker(card, checks) as endless, Worker(card, checks) as measured:
        for worker in (endless, measured):
            assert worker.ask(f"managed {10 * GIB}") == "0"
            hurry(worker.process.pid)  # if the other one does not run, no memory is taken away
        measured.ask("pass 1")  # first touch: after it, only the other one makes a pass slow
        endless.tell("pass 1000000")
        wait_until(lambda: measured.simulated_s("pass 1") > 10 * ALONE_PASS_S, "the two run at once")
        one_pass = measured.simulated_s("pass 30") / 30
        endless.kill()
    assert one_pass / ALONE_PASS_S >= 50


def test_taking_turns_costs_little_more_than_one_after_the_other(card: Node, checks: Path) -> None:
    turn = 420  # passes: 50 simulated seconds
    with Worker(card, checks) as first, Worker(card, checks) as second:
        for worker in (first, second):
            assert worker.ask(f"managed {10 * GIB}") == "0"
        in_turns = sum(worker.simulated_s(f"pass {turn}") for worker in (first, second) * 2)
    one_after_the_other = 2 * (3.82 + (2 * turn - 1) * ALONE_PASS_S)
    assert in_turns / one_after_the_other <= 1.15


def test_two_that_fit_share_the_time_and_nothing_else(make_node: MakeNode, checks: Path) -> None:
    card = make_node(gpus=1, memory="16Gi", scale=0.01, slice="200ms")  # long slices: switching is cheap
    with Worker(card, checks) as endless, Worker(card, checks) as measured:
        for worker in (endless, measured):
            assert worker.ask(f"managed {5 * GIB}") == "0"
            worker.simulated_s("pass 1")
        endless.tell("pass 1000000")
        wait_until(lambda: measured.simulated_s("pass 1") > 1.5 * FITTING_PASS_S, "the two run at once")
        one_pass = measured.simulated_s("pass 300") / 300
        endless.kill()
    # A busy machine adds to each change of turns; thrashing would take 50 times as long.
    assert FITTING_PASS_S < one_pass < 10 * FITTING_PASS_S


def test_native_memory_pushes_managed_memory_out_and_fails_only_when_the_card_is_full_of_it(
    card: Node, checks: Path
) -> None:
    with Worker(card, checks) as managed, Worker(card, checks) as native:
        assert managed.ask(f"managed {14 * GIB}") == "0"
        managed.ask("pass 1")
        assert managed.used() >= 14 * GIB
        assert native.ask(f"native {10 * GIB}") == "0"
        assert native.used() <= 16 * GIB
        assert managed.ask(f"native {6 * GIB}") == "2"  # out of memory: 10 + 6 + contexts
        assert managed.ask(f"native {5 * GIB}") == "0"


def test_a_working_set_larger_than_the_card_runs_all_the_same(card: Node, checks: Path) -> None:
    with Worker(card, checks) as worker:
        assert worker.ask(f"managed {20 * GIB}") == "0"
        assert worker.simulated_s("pass 2") > 14
        assert worker.used() <= 16 * GIB


def test_a_kernel_touches_the_whole_working_set_unless_told_otherwise(make_node: MakeNode, checks: Path) -> None:
    whole = make_node(memory="16Gi", scale=0.01)
    with Worker(whole, checks) as worker:
        worker.ask(f"managed {1 * GIB}")
        assert worker.simulated_s("spin 1000") == pytest.approx(0.371, rel=0.1)
        assert worker.simulated_s("spin 1000") == pytest.approx(0.001, rel=0.5)
    with Worker(whole, checks, NVSHARE_SIM_TOUCH="stream") as worker:  # alone again: settings are read again
        worker.ask(f"managed {1 * GIB}")
        assert worker.simulated_s("spin 1000") < 0.1
        assert 0 < worker.used() - 256 * MIB < 200 * MIB


def test_kernels_take_the_time_their_name_says(card: Node, checks: Path) -> None:
    settings = {"NVSHARE_SIM_KERNEL_US": "30", "NVSHARE_SIM_KERNELS": "matmul=5ms,cutlass_*=1s"}
    with Worker(card, checks, **settings) as worker:
        assert worker.simulated_s("kernel anything") == pytest.approx(30e-6, rel=0.01)
        assert worker.simulated_s("kernel matmul") == pytest.approx(5e-3, rel=0.01)
        assert worker.simulated_s("kernel matmul_2") == pytest.approx(30e-6, rel=0.01)
        assert worker.simulated_s("kernel cutlass_80_tensorop") == pytest.approx(1, rel=0.01)

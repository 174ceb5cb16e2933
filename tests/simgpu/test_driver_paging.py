"""Time and memory of the simulated card: what first touch, residency, thrashing and taking turns cost.

Times are the card's own (events), so a busy machine does not change them; only thrashing is made slower by it."""

from pathlib import Path

import pytest

from support.simgpu_worker import GIB, MIB, Worker

ALONE_PASS_S = 0.12


@pytest.fixture
def card(make_node):
    return make_node(gpus=1, memory="16Gi", scale=0.01)


def test_first_touch_and_a_resident_pass_take_the_measured_times(card, checks: Path) -> None:
    with Worker(card, checks) as worker:
        assert worker.ask(f"managed {10 * GIB}") == "0"
        assert worker.simulated_s("pass 1") == pytest.approx(3.82, rel=0.1)
        assert worker.simulated_s("pass 50") / 50 == pytest.approx(ALONE_PASS_S, rel=0.05)


def test_two_that_do_not_fit_thrash_when_they_run_at_once(make_node, checks: Path) -> None:
    card = make_node(gpus=1, memory="16Gi", scale=0.005)
    with Worker(card, checks) as one:
        assert one.ask(f"managed {10 * GIB}") == "0"
        alone = one.simulated_s("pass 100")
    with Worker(card, checks) as first, Worker(card, checks) as second:
        for worker in (first, second):
            assert worker.ask(f"managed {10 * GIB}") == "0"
        for worker in (first, second):
            worker.tell("pass 100")
        times = [float(worker.answer()) / 1e3 for worker in (first, second)]
    assert min(times) / alone >= 50


def test_taking_turns_costs_little_more_than_one_after_the_other(card, checks: Path) -> None:
    turn = 420  # passes: 50 simulated seconds
    with Worker(card, checks) as first, Worker(card, checks) as second:
        for worker in (first, second):
            assert worker.ask(f"managed {10 * GIB}") == "0"
        in_turns = sum(worker.simulated_s(f"pass {turn}") for worker in (first, second) * 2)
    one_after_the_other = 2 * (3.82 + (2 * turn - 1) * ALONE_PASS_S)
    assert in_turns / one_after_the_other <= 1.15


def test_two_that_fit_share_the_time_and_nothing_else(make_node, checks: Path) -> None:
    card = make_node(gpus=1, memory="16Gi", scale=0.01, slice="200ms")  # long slices: switching is cheap
    with Worker(card, checks) as first, Worker(card, checks) as second:
        for worker in (first, second):
            assert worker.ask(f"managed {5 * GIB}") == "0"
            worker.simulated_s("pass 1")
        for worker in (first, second):
            worker.tell("pass 500")
        together = [float(worker.answer()) / 1e3 for worker in (first, second)]
    assert 500 * 0.06 * 1.5 < max(together) < 500 * 0.06 * 2 * 1.5


def test_prefetching_is_faster_than_faulting(card, checks: Path) -> None:
    with Worker(card, checks) as worker:
        assert worker.ask(f"managed {8 * GIB}") == "0"
        prefetched = worker.simulated_s("prefetch")
        assert prefetched == pytest.approx(8 * GIB / 12e9, rel=0.1)
        assert worker.simulated_s("pass 1") == pytest.approx(8 * GIB / (10 * GIB) * ALONE_PASS_S, rel=0.1)


def test_native_memory_pushes_managed_memory_out_and_fails_only_when_the_card_is_full_of_it(card, checks: Path) -> None:
    with Worker(card, checks) as managed, Worker(card, checks) as native:
        assert managed.ask(f"managed {14 * GIB}") == "0"
        managed.ask("pass 1")
        assert managed.used() >= 14 * GIB
        assert native.ask(f"native {10 * GIB}") == "0"
        assert native.used() <= 16 * GIB
        assert managed.ask(f"native {6 * GIB}") == "2"  # out of memory: 10 + 6 + contexts
        assert managed.ask(f"native {5 * GIB}") == "0"


def test_a_working_set_larger_than_the_card_runs_all_the_same(card, checks: Path) -> None:
    with Worker(card, checks) as worker:
        assert worker.ask(f"managed {20 * GIB}") == "0"
        assert worker.simulated_s("pass 2") > 14
        assert worker.used() <= 16 * GIB


def test_a_kernel_touches_the_whole_working_set_unless_told_otherwise(make_node, checks: Path) -> None:
    whole = make_node(memory="16Gi", scale=0.01)
    with Worker(whole, checks) as worker:
        worker.ask(f"managed {1 * GIB}")
        assert worker.simulated_s("spin 1000") == pytest.approx(0.371, rel=0.1)
        assert worker.simulated_s("spin 1000") == pytest.approx(0.001, rel=0.5)
    with Worker(whole, checks, NVSHARE_SIM_TOUCH="stream") as worker:  # alone again: settings are read anew
        worker.ask(f"managed {1 * GIB}")
        assert worker.simulated_s("spin 1000") < 0.1
        assert 0 < worker.used() - 256 * MIB < 200 * MIB


def test_kernels_take_the_time_their_name_says(card, checks: Path) -> None:
    settings = {"NVSHARE_SIM_KERNEL_US": "30", "NVSHARE_SIM_KERNELS": "matmul=5ms,cutlass_*=1s"}
    with Worker(card, checks, **settings) as worker:
        assert worker.simulated_s("kernel anything") == pytest.approx(30e-6, rel=0.01)
        assert worker.simulated_s("kernel matmul") == pytest.approx(5e-3, rel=0.01)
        assert worker.simulated_s("kernel matmul_2") == pytest.approx(30e-6, rel=0.01)
        assert worker.simulated_s("kernel cutlass_80_tensorop") == pytest.approx(1, rel=0.01)

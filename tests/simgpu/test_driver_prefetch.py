"""Prefetches and advice on the simulated card, and the link that they share. Times are the card's own."""

from pathlib import Path

import pytest

from simgpu.node import MakeNode, Node
from support.simgpu_worker import GIB, MIB, Worker

LINK = 12e9
FAULTS = 10 * GIB / 3.70
PASS_S_PER_GIB = 0.012  # over resident memory
CONTEXT = 256 * MIB


@pytest.fixture
def card(make_node: MakeNode) -> Node:
    return make_node(gpus=1, memory="16Gi", scale=0.01)


def touched(worker: Worker, gib: int) -> None:
    assert worker.ask(f"managed {gib * GIB}") == "0"
    worker.ask("pass 1")


def test_both_directions_move_at_the_speed_of_the_link(card: Node, checks: Path) -> None:
    with Worker(card, checks) as worker:
        touched(worker, 8)
        assert worker.simulated_s("evict") == pytest.approx(8 * GIB / LINK, rel=0.02)
        assert worker.used() == CONTEXT
        assert worker.simulated_s("prefetch") == pytest.approx(8 * GIB / LINK, rel=0.02)
        assert worker.used() == CONTEXT + 8 * GIB
        assert worker.simulated_s("pass 1") == pytest.approx(8 * PASS_S_PER_GIB, rel=0.02)


def test_a_prefetch_of_memory_that_is_there_takes_no_time(card: Node, checks: Path) -> None:
    with Worker(card, checks) as worker:
        touched(worker, 4)
        assert worker.simulated_s("prefetch") == 0


def test_a_prefetch_populates_memory_that_was_never_touched_without_using_the_link(card: Node, checks: Path) -> None:
    with Worker(card, checks) as worker:
        assert worker.ask(f"managed {4 * GIB}") == "0"
        assert worker.used() == CONTEXT
        assert worker.simulated_s("prefetch") == pytest.approx(4 * PASS_S_PER_GIB, rel=0.02)
        assert worker.used() == CONTEXT + 4 * GIB


def test_a_prefetch_to_a_full_card_evicts_what_came_in_first_and_takes_twice_as_long(card: Node, checks: Path) -> None:
    with Worker(card, checks) as waiting, Worker(card, checks) as running:
        touched(waiting, 9)
        touched(running, 9)
        # Its own memory came in first: what the first chunks evict is missing later, so all of it moves both ways.
        assert waiting.simulated_s("prefetch") == pytest.approx(2 * 9 * GIB / LINK, rel=0.02)
        assert running.simulated_s("pass 1") > 2 * 9 * PASS_S_PER_GIB  # it was pushed out


def test_a_kernel_waits_for_memory_that_a_prefetch_brings_and_needs_no_faults(card: Node, checks: Path) -> None:
    with Worker(card, checks) as worker:
        touched(worker, 8)
        worker.ask("evict")
        assert worker.simulated_s("both") == pytest.approx(8 * GIB / LINK, rel=0.1)


def test_the_link_carries_both_directions_at_once_and_one_direction_in_order(make_node: MakeNode, checks: Path) -> None:
    with Worker(make_node(memory="16Gi", scale=0.2), checks) as worker:  # so slow that a late thread hardly counts
        touched(worker, 12)
        half = 6 * GIB / LINK
        assert worker.simulated_s("halves o-") == pytest.approx(half, rel=0.1)
        assert worker.simulated_s("halves io") == pytest.approx(half, rel=0.3)  # the streams do not start at once
        assert worker.simulated_s("halves -i") == pytest.approx(half, rel=0.1)
        assert worker.simulated_s("halves oo") == pytest.approx(2 * half, rel=0.1)


def test_memory_that_prefers_the_host_is_read_over_the_link_and_stays_there(card: Node, checks: Path) -> None:
    with Worker(card, checks) as worker:
        touched(worker, 4)
        assert worker.ask("remote") == "0"
        worker.ask("evict")
        once = 4 * GIB / LINK + 4 * PASS_S_PER_GIB
        assert worker.simulated_s("pass 2") == pytest.approx(2 * once, rel=0.02)
        assert worker.used() == CONTEXT


def test_faults_that_evict_can_be_made_slower(make_node: MakeNode, checks: Path) -> None:
    card = make_node(memory="4Gi", scale=0.01, evicting_fault_bandwidth="500M")
    with Worker(card, checks) as worker:
        assert worker.ask(f"managed {2 * GIB}") == "0"
        assert worker.simulated_s("pass 1") == pytest.approx(2 * GIB / FAULTS + 2 * PASS_S_PER_GIB, rel=0.05)
        assert worker.ask(f"managed {3 * GIB}") == "0"
        evicting = 5 * GIB + CONTEXT - 4 * GIB
        expected = evicting / 500e6 + (3 * GIB - evicting) / FAULTS + 3 * PASS_S_PER_GIB
        assert worker.simulated_s("pass 1") == pytest.approx(expected, rel=0.05)


def test_a_prefetch_that_is_ignored_succeeds_and_moves_nothing(make_node: MakeNode, checks: Path) -> None:
    with Worker(make_node(prefetch="ignored", scale=0.01), checks) as worker:
        touched(worker, 2)
        assert worker.simulated_s("evict") == 0
        assert worker.used() == CONTEXT + 2 * GIB


def test_a_card_without_concurrent_managed_access_refuses_a_prefetch(make_node: MakeNode, checks: Path) -> None:
    with Worker(make_node(compute_capability="5.2"), checks) as worker:
        assert worker.ask(f"managed {MIB}") == "0"
        assert worker.ask("bring") == "101"  # CUDA_ERROR_INVALID_DEVICE

"""What moving memory costs, as it is learned."""

from random import Random

import pytest

from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, Memory, ModeName, QuantumRule, Settings
from nvshare.core.modes.adaptive import Adaptive
from nvshare.core.modes.move_cost import FIRST_GUESS_S_PER_GIB, MAX_S_PER_GIB, MeasuredCost, MoveCost
from nvshare.core.node import Node


def per_gib(cost: MoveCost) -> float:
    return cost.of(GIB) / SECOND


def test_before_anything_is_known_a_guess_holds() -> None:
    assert per_gib(MoveCost()) == FIRST_GUESS_S_PER_GIB


def test_one_clear_figure_is_nearly_enough() -> None:
    """8 GiB took 4 s longer than a tenth of a second: what work varies by does not matter."""
    cost = MoveCost()
    cost.note(8 * GIB, 4 * SECOND, SECOND // 10)
    assert per_gib(cost) == pytest.approx(0.5, rel=0.01)


def test_a_figure_that_drowns_in_the_work_hardly_counts_beside_the_guess() -> None:
    """In mode adaptive; balanced has no weight for the guess."""
    cost = MoveCost(guess_weight=Adaptive.guess_weight)
    cost.note(GIB, 10 * SECOND, 100 * SECOND)
    assert per_gib(cost) == pytest.approx(FIRST_GUESS_S_PER_GIB, abs=0.01)


def test_figures_that_vary_find_their_middle() -> None:
    cost, chance = MoveCost(), Random("moving")
    for _ in range(100):
        cost.note(4 * GIB, int(chance.uniform(0, 4) * SECOND), 5 * SECOND)
    assert per_gib(cost) == pytest.approx(0.5, rel=0.15)


def test_a_card_that_becomes_slower_is_noticed() -> None:
    cost = MoveCost()
    for _ in range(50):
        cost.note(4 * GIB, SECOND, SECOND)
    before = per_gib(cost)
    for _ in range(100):
        cost.note(4 * GIB, 8 * SECOND, SECOND)
    assert before == pytest.approx(0.25, rel=0.02)
    assert per_gib(cost) > 1.7


@pytest.mark.parametrize(("extra_s", "wanted"), [(-100, 0.01), (10_000, MAX_S_PER_GIB)])
def test_nonsense_is_kept_within_bounds(extra_s: int, wanted: float) -> None:
    cost = MoveCost()
    cost.note(4 * GIB, extra_s * SECOND, 0)
    assert per_gib(cost) == pytest.approx(wanted)


def test_what_clients_measured_counts_and_nothing_is_inferred_any_more() -> None:
    cost = MoveCost()
    cost.set_measured(SECOND // 10)
    cost.note(8 * GIB, 8 * SECOND, SECOND)
    assert (cost.of(2 * GIB), cost.samples) == (SECOND // 5, 2)


def test_the_measured_cost_follows_the_last_moves_and_has_bounds() -> None:
    measured = MeasuredCost()
    measured.note(GIB // 16, SECOND)  # too little to say anything
    before = measured.ns_per_gib
    measured.note(4 * GIB, 4 * SECOND)
    assert (before, measured.ns_per_gib) == (None, SECOND)
    for _ in range(30):
        measured.note(4 * GIB, SECOND)
    assert measured.ns_per_gib == pytest.approx(SECOND / 4, rel=0.02)
    measured.note(1000 * GIB, 1)
    for _ in range(30):
        measured.note(1000 * GIB, 1)
    assert measured.ns_per_gib == SECOND // 100


def test_until_a_move_is_measured_the_speed_of_the_link_counts() -> None:
    speed = 10 * GIB
    cost = MoveCost(lambda: speed)
    assert (per_gib(cost), cost.is_known) == (0.1, True)
    cost.note(8 * GIB, 8 * SECOND, SECOND)
    assert per_gib(cost) == 0.1, "nothing is inferred where moves can be measured"
    cost.set_measured(SECOND // 4)
    assert per_gib(cost) == 0.25


def test_a_link_that_no_longer_counts_leaves_what_work_taught() -> None:
    speed = 10 * GIB
    cost = MoveCost(lambda: speed)
    cost.note(8 * GIB, 4 * SECOND, SECOND // 10)
    speed = 0
    assert per_gib(cost) == pytest.approx(0.5, rel=0.01)


def test_without_a_link_and_samples_nothing_is_known() -> None:
    assert not MoveCost().is_known


@pytest.mark.parametrize(("speed", "wanted"), [(1, MAX_S_PER_GIB), (GIB * 10_000, 0.01)])
def test_a_link_of_any_speed_is_kept_within_bounds(speed: int, wanted: float) -> None:
    assert per_gib(MoveCost(lambda: speed)) == wanted


def test_a_small_move_that_took_very_long_does_not_outweigh_large_ones() -> None:
    cost = MeasuredCost()
    cost.note(8 * GIB, 8 * SECOND // 10)
    cost.note(GIB // 8, 10_000 * SECOND)
    assert cost.ns_per_gib is not None
    assert cost.ns_per_gib < SECOND // 4


HAS = Memory(4 * GIB)
LIES = {
    "without a turn": (False, SECOND, ev.MemoryMoved(1, "g", to_host=False, moved=4 * GIB, took_ns=SECOND // 2)),
    "more than it has": (True, SECOND, ev.MemoryMoved(1, "g", to_host=False, moved=1 << 56, took_ns=SECOND // 2)),
    "for longer than its turn": (True, SECOND, ev.MemoryMoved(1, "g", False, 4 * GIB, (1 << 64) - 1)),
    "to the host": (True, SECOND, ev.MemoryMoved(1, "g", to_host=True, moved=4 * GIB, took_ns=SECOND // 2)),
}


@pytest.mark.parametrize("which", LIES)
@pytest.mark.parametrize("mode", ["balanced", "fixed"])
def test_a_report_that_cannot_be_true_measures_nothing(which: str, mode: ModeName) -> None:
    has_turn, now, event = LIES[which]
    node = Node(Settings(quantum=QuantumRule(mode=mode)), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g", 16 * GIB))
    node.handle(0, ev.ClientRegistered(1, "run/1", "x", "x", (Claim("g", 16 * GIB),), moves_memory=True))
    node.handle(0, (ev.LockRequested if has_turn else ev.MemoryChanged)(1, "g", HAS))
    node.handle(now, event)
    assert not node.gpus["g"].turns.mode.is_cost_measured

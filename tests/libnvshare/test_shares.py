"""Shares of a GPU's time with real processes, judged by the simulated card's trace. `python -m bench shares` observes
for longer, and more closely."""

import pytest
from bench.answers import answered
from bench.cards import Program
from bench.shares import FAIR, PARTS, WEIGHTS, normalised, observed


def test_two_programs_with_core_limits_get_about_theirs() -> None:
    """A busy machine may keep both programs from using all that they may have, but one not more than the other."""
    got = observed([Program(NVSHARE_GPU_CORE_LIMIT=percent) for percent in (30, 60)], seconds=8)
    assert 15 < got[0] < 34.5
    assert 30 < got[1] < 69
    assert got[0] / got[1] == pytest.approx(0.5, rel=0.15)


def test_weights_are_about_proportions_side_by_side() -> None:
    got = observed([Program(NVSHARE_WEIGHT=weight) for weight in WEIGHTS], *FAIR, seconds=12)
    assert normalised(got) == pytest.approx(list(PARTS), abs=7)  # equal slices would be 33 each


@pytest.mark.parametrize("options", [(), ("--switch-time-mode", "balanced"), ("--policy", "fair")], ids=" ".join)
def test_a_high_priority_waits_for_one_drain(options: tuple[str, ...]) -> None:
    """The lock is dropped in the step of the request. How long the drain takes depends on the machine; how much work it
    waits for does not. Where moves are known to be cheap, the batch job's quantum may have ended before."""
    answer = answered(*options)
    assert answer.cause == "priority" or (answer.cause == "quantum" and "balanced" in options)
    assert answer.waited_s == 0
    assert answer.drain_work_s <= 0.5

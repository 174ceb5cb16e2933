"""Random mixes: the seeds are what they were, and balanced and adaptive keep what they were found to do."""

from functools import partial
from statistics import fmean

import pytest

from nvshare.schedsim import mixes
from nvshare.schedsim.distributions import Scene, make_mix
from nvshare.schedsim.machine import Ended, Outcome


def test_a_seed_is_one_mix() -> None:
    assert mixes.random_mix(5) == mixes.random_mix(5)
    assert mixes.random_mix(5) != mixes.random_mix(6)


def test_equals_are_equal() -> None:
    mix = mixes.random_mix(8)
    assert mix.are_equals
    assert len({(job.memory, job.phases, job.gpu) for job in mix.jobs}) == 1


def test_adaptive_beats_both_on_a_handful_of_mixes() -> None:
    """The 200 are in docs/proof.md; these twelve keep it so."""
    compared = mixes.compare(range(12), [mixes.FCFS_30, mixes.AUTO, mixes.ADAPTIVE])
    times = [{name: outcome.makespan_s for name, outcome in one.outcomes.items()} for one in compared]
    assert mixes.geometric_mean([one["adaptive"] / one["fcfs-30s"] for one in times]) <= 0.85
    assert mixes.geometric_mean([one["adaptive"] / one["auto"] for one in times]) <= 0.95
    assert min(mixes.fairness(one.outcomes["adaptive"]) for one in compared if one.are_equals) >= 0.9


@pytest.mark.parametrize(
    ("link", "of_original", "of_auto", "response_s", "longest_wait_s"),
    [(None, 0.66, 0.79, 7.0, 600), (12e9, 0.60, 0.89, 3.0, 250)],  # 0.61, 0.73, 5.6 s, 505 s; 0.56, 0.84, 2.4 s, 165 s
)
def test_balanced_the_default_answers_bursts_soon_and_beats_both_on_a_handful_of_mixes(
    link: float | None, of_original: float, of_auto: float, response_s: float, longest_wait_s: float
) -> None:
    """By page faults and with the mover. Bursts take 25 s with the original, and 18 s or 15 s with auto."""
    make = partial(make_mix, scene=Scene("interactive", link=link))
    compared = mixes.compare(range(10), [mixes.FCFS_30, mixes.AUTO, mixes.BALANCED], make=make)
    ours = [one.outcomes["balanced"] for one in compared]
    assert mixes.geometric_mean([mixes.ratio(one, "balanced", "fcfs-30s") for one in compared]) <= of_original
    assert mixes.geometric_mean([mixes.ratio(one, "balanced", "auto") for one in compared]) <= of_auto
    assert fmean(response for one in ours for job in one.jobs for response in job.responses_s) <= response_s
    assert max(one.longest_wait_s for one in ours) <= longest_wait_s


def test_jain_is_one_for_equals_and_less_for_others() -> None:
    assert mixes.jain([2.0, 2.0]) == 1
    assert mixes.jain([1.0, 3.0]) == 0.8


def made(seed: int, *, are_equals: bool = False, **makespans: float) -> mixes.Comparison:
    def outcome(makespan_s: float) -> Outcome:
        job = Ended("one", "gpu0", makespan_s, 1.0, makespan_s / 2, 1)
        return Outcome(makespan_s, (job, job), 0.0, 0, makespan_s / 2, (), 1.0)

    return mixes.Comparison(seed, are_equals, {name: outcome(makespan) for name, makespan in makespans.items()})


def test_a_duel_names_the_worst_seed_and_all_that_are_worse_by_more_than_two_percent() -> None:
    compared = [made(3, a=100, b=100), made(4, a=103, b=100), made(5, a=50, b=100), made(6, a=102, b=100)]
    found = mixes.duel([*compared, made(7, a=150, b=100)], "a", "b")
    assert (found.worst, found.worst_seed, found.worse) == (1.5, 7, (4, 7))
    assert found.mean == pytest.approx((1.03 * 0.5 * 1.02 * 1.5) ** 0.2)


def test_several_processes_find_what_one_finds() -> None:
    told: list[mixes.Comparison] = []
    alone = mixes.compare(range(8, 11), [mixes.AUTO])
    assert mixes.compare(range(8, 11), [mixes.AUTO], told.append, processes=2) == alone == told


def test_a_shaken_mix_is_another_one_and_the_same_each_time() -> None:
    mix, late = mixes.random_mix(9), mixes.shaken(mixes.AUTO)
    assert mixes.run(mix, late) == mixes.run(mix, late)
    assert mixes.run(mix, late) != mixes.run(mix, mixes.AUTO)

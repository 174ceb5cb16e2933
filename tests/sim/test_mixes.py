"""Random mixes: the seeds are what they were, and adaptive keeps what it was found to do."""

from nvshare.sim import mixes


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


def test_jain_is_one_for_equals_and_less_for_others() -> None:
    assert mixes.jain([2.0, 2.0]) == 1
    assert mixes.jain([1.0, 3.0]) == 0.8

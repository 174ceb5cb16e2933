"""A program on several GPUs beside programs on one of them: each gets its share, whatever the phase, mode and size.

The shipped core and the shipped client machine drive it. Time is simulated: a result is the same on every machine.

The fair share of a program on several GPUs is what programs on one GPU each, of the same size, get in its place. What
the others get beside those is theirs."""

from collections.abc import Sequence
from functools import cache

import pytest

from nvshare.core.gangs.gangs import Gangs
from nvshare.core.model import GIB, SECOND, QuantumRule, Settings
from nvshare.schedsim.card import CardModel
from nvshare.schedsim.jobs import Job
from nvshare.schedsim.machine import Machine

LEAST_SHARE = 0.8
CARD = CardModel(size=16 * GIB, bus=12e9, gain=1.0, sweep_s=1.0)
MODES = {
    "fixed": (QuantumRule(mode="fixed", fixed_ns=2 * SECOND), 0.2, 400),
    "auto": (QuantumRule(mode="auto"), 2.0, 750),
    "adaptive": (QuantumRule(mode="adaptive"), 2.0, 750),
    "balanced": (QuantumRule(mode="balanced"), 2.0, 750),
}
"""With the GPU time of a round, and how many rounds there are: in each turn many rounds, and many turns."""
SIZES = ((10, 10), (14, 9), (9, 14))
ARRIVALS = ((0.0, 0.0), (0.0, 1.63), (0.37, 1.0), (1.0, 0.37))
TWO = ("gpu0", "gpu1")
FOUR = ("gpu0", "gpu1", "gpu2", "gpu3")
FOUR_ARRIVALS = (0.0, 0.31, 0.62, 0.93)


def worker(name: str, gib: int, gpus: Sequence[str], arrives_s: float, mode: str) -> Job:
    """Rounds on its GPUs, with a little CPU time between two, as a training step has it."""
    _, round_s, rounds = MODES[mode]
    phases = ((round_s, round_s / 100),) * rounds
    return Job(name, gib * GIB, 0.1, phases, gpus[0], arrives_s, more_gpus=tuple(gpus[1:]))


def machine_with(jobs: list[Job], mode: str) -> Machine:
    return Machine(dict.fromkeys(FOUR, CARD), jobs, Settings(quantum=MODES[mode][0]), gate="nvshare")


def shares(jobs: list[Job], mode: str) -> dict[str, float]:
    """GPU seconds in a second that each job got on each of its GPUs while all were there."""
    outcome = machine_with(jobs, mode).run()
    began = max(job.arrives_s for job in jobs)
    ended = min(one.finished_s + job.arrives_s for job, one in zip(jobs, outcome.jobs, strict=True))
    got = dict.fromkeys((job.name for job in jobs), 0.0)
    for stretch in outcome.stretches:
        if stretch.doing == "thinking" and began <= stretch.begin <= ended:  # A round has ended.
            got[jobs[stretch.job - 1].name] += MODES[mode][1] / (ended - began)
    return got


@cache
def fair(mode: str, gib: int, others_gib: int) -> tuple[float, float]:
    """What a program on one GPU gets beside another one, and what that one gets."""
    jobs = [worker("it", gib, TWO[:1], 0.5, mode), worker("other", others_gib, TWO[:1], 0.0, mode)]
    got = shares(jobs, mode)
    return got["it"], got["other"]


def wide_and_singles(mode: str, sizes: tuple[int, int], gpus: Sequence[str], arrivals: Sequence[float]) -> list[Job]:
    """A program on all GPUs, and one on each."""
    wide, single = sizes
    singles = [worker(gpu, single, [gpu], arrives_s, mode) for gpu, arrives_s in zip(gpus, arrivals, strict=True)]
    return [worker("wide", wide, gpus, 0.5, mode), *singles]


def beside_one_on_each(
    mode: str, sizes: tuple[int, int], gpus: Sequence[str], arrivals: Sequence[float]
) -> list[float]:
    """What a program on all GPUs has of its fair share, and those on one each of theirs."""
    got = shares(wide_and_singles(mode, sizes, gpus, arrivals), mode)
    its, theirs = fair(mode, *sizes)
    return [got["wide"] / its, *(got[gpu] / theirs for gpu in gpus)]


@pytest.mark.parametrize("arrivals", ARRIVALS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("mode", MODES)
def test_a_program_on_two_gpus_beside_one_on_each_has_its_share_and_so_have_they(
    mode: str, sizes: tuple[int, int], arrivals: tuple[float, float]
) -> None:
    assert min(beside_one_on_each(mode, sizes, TWO, arrivals)) >= LEAST_SHARE


@pytest.mark.parametrize("mode", MODES)
def test_a_program_on_four_gpus_beside_one_on_each_has_its_share_and_so_have_they(mode: str) -> None:
    assert min(beside_one_on_each(mode, (10, 10), FOUR, FOUR_ARRIVALS)) >= LEAST_SHARE


@pytest.mark.parametrize("mode", MODES)
def test_programs_on_two_gpus_each_that_share_one_of_them_all_have_their_share(mode: str) -> None:
    places = (FOUR[:2], FOUR[1:3], FOUR[2:])
    jobs = [worker(f"{a} {b}", 10, (a, b), 0.4 * number, mode) for number, (a, b) in enumerate(places)]
    got = shares(jobs, mode)
    its, _ = fair(mode, 10, 10)
    assert min(got.values()) >= LEAST_SHARE * its, got


@pytest.mark.parametrize("mode", MODES)
def test_without_gangs_a_program_on_several_gpus_does_not_have_its_share(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the tests above can fail."""
    monkeypatch.setattr(Gangs, "look_at", lambda *_: False)
    has = [beside_one_on_each(mode, sizes, TWO, ARRIVALS[-1])[0] for sizes in SIZES]
    has.append(beside_one_on_each(mode, (10, 10), FOUR, FOUR_ARRIVALS)[0])
    assert min(has) < LEAST_SHARE, has


@pytest.mark.parametrize("gpus", [TWO, FOUR])
@pytest.mark.parametrize("mode", MODES)
def test_nobody_beside_a_gang_and_no_gang_waits_longer_than_the_bound(mode: str, gpus: Sequence[str]) -> None:
    """That of core.modes.mode. Nobody needs the grace time here, so the bound is without it."""
    jobs = wide_and_singles(mode, (10, 10), gpus, FOUR_ARRIVALS[: len(gpus)])
    machine = machine_with(jobs, mode)
    outcome = machine.run()
    graces_ns = (len(jobs) + 1) * Settings().grace_ns
    bound_ns = max(gpu.longest_gang_wait_ns(len(jobs)) for gpu in machine.node.gpus.values()) - graces_ns
    assert 0 < outcome.longest_wait_s <= bound_ns / SECOND

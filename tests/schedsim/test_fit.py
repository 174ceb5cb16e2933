"""Simulated jobs on a machine whose host memory is small, and on cards of which a part is kept free."""

import json
from random import Random

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from nvshare.cli.simulate.command import simulate
from nvshare.core.model import GIB, QuantumRule, Settings
from nvshare.schedsim.gates import GateName
from nvshare.schedsim.jobs import Job
from nvshare.schedsim.machine import Machine, Outcome
from nvshare.schedsim.presets import PRESETS

CARD = PRESETS["p100"]
PHASES = ((4.0, 1.0),) * 10


def job(name: str, memory: int, host: int | None = None, **more: float) -> Job:
    return Job(name, memory, 1.0, PHASES, host_memory=host, **more)  # type: ignore[arg-type]


def run(*jobs: Job, gate: GateName = "nvshare", reserve: int | None = None, **options: bool) -> Outcome:
    settings = Settings(quantum=QuantumRule(mode="fixed", fixed_ns=10 * 10**9), card_reserve=reserve)
    return Machine({"gpu0": CARD}, list(jobs), settings, gate=gate, **options).run()


def ends(outcome: Outcome) -> list[str]:
    return [one.end for one in outcome.jobs]


SMALL_HOST = (job("small", 12 * GIB, 4 * GIB), job("other", 9 * GIB, arrives_s=1.0))


def test_a_client_that_would_evict_what_the_host_cannot_take_waits_until_the_other_has_ended() -> None:
    small, other = run(*SMALL_HOST).jobs
    assert (small.end, other.end) == ("finished", "finished")
    assert (small.turns, other.blocked_by) == (1, "small")
    assert other.longest_wait_s == pytest.approx(small.finished_s, abs=2)


def test_without_that_the_owner_of_the_memory_is_killed() -> None:
    assert ends(run(*SMALL_HOST, is_host_counted=False)) == ["killed", "finished"]
    assert ends(run(*SMALL_HOST, gate="classic")) == ["killed", "finished"], "the original does not look"


def test_with_enough_host_memory_they_take_turns_as_if_none_were_counted() -> None:
    enough = (job("small", 12 * GIB, 12 * GIB), job("other", 9 * GIB, arrives_s=1.0))
    plain = (job("small", 12 * GIB), job("other", 9 * GIB, arrives_s=1.0))
    assert run(*enough) == run(*plain)
    assert run(*enough).jobs[1].turns > 1


def test_a_part_that_the_host_can_take_still_moves() -> None:
    outcome = run(job("small", 12 * GIB, 7 * GIB), job("other", 8 * GIB, arrives_s=1.0))
    assert ends(outcome) == ["finished", "finished"]
    assert min(one.turns for one in outcome.jobs) > 1
    assert outcome.moved_gb > 0


@pytest.mark.parametrize("seed", range(12))
def test_nobody_is_killed_by_the_turns_of_another_one(seed: int) -> None:
    """Of one job the host lacks up to half of the card."""
    chance = Random(f"host {seed}")
    memory = chance.randint(9 * GIB, 13 * GIB)
    lacking = chance.randint(GIB, CARD.size // 2)
    other = job("other", chance.randint(GIB, 13 * GIB), arrives_s=chance.uniform(0, 60))
    assert ends(run(job("small", memory, memory - lacking), other)) == ["finished", "finished"]


def test_a_job_that_is_larger_than_what_the_card_has_for_it_is_refused_and_the_others_run() -> None:
    """The card has 15.9 GiB: 1 GiB is kept free, and each of two contexts takes 400 MiB."""
    large, other = job("large", 15 * GIB), job("other", 4 * GIB)
    assert ends(run(large, other, may_oversubscribe=False)) == ["refused", "finished"]
    assert ends(run(large, other, may_oversubscribe=False, reserve=0)) == ["finished", "finished"]
    assert ends(run(large, other)) == ["finished", "finished"]


def test_a_job_that_fills_what_it_may_have_runs_at_full_speed_and_beyond_the_card_it_does_not() -> None:
    within = replace(job("within", 14 * GIB), arrives_s=0.0)
    (one,) = run(within, may_oversubscribe=False).jobs
    loading_s = 14 * GIB / CARD.bus
    assert one.finished_s == pytest.approx(one.alone_s + loading_s, rel=0.01)
    (over,) = run(job("beyond", 17 * GIB)).jobs
    assert over.finished_s > 2 * one.finished_s


def test_with_card_and_host_full_a_newcomer_is_refused_and_nobody_ends() -> None:
    """What the host cannot take of the first one is not there for the second one."""
    small, large = job("small", 9 * GIB, 2 * GIB), job("large", 9 * GIB, arrives_s=10.0)
    assert ends(run(small, large, may_oversubscribe=False)) == ["finished", "refused"]
    assert ends(run(small, replace(large, memory=7 * GIB), may_oversubscribe=False)) == ["finished", "finished"]


@pytest.mark.parametrize(("host", "wanted"), [("off", "killed"), ("on", "finished")])
def test_of_three_jobs_the_one_with_too_little_host_memory_is_not_killed(host: str, wanted: str) -> None:
    """It pauses, so its memory is the oldest. The two others do not fit beside it together."""
    jobs = ("-j", "6Gi:4/60x2,host=1Gi", "-j", "8Gi:40/0x1", "-j", "8Gi:40/0x1")
    command = ["jobs", *jobs, "--mode", "fixed", "--quantum", "5", "--host-memory", host, "--json"]
    ended = json.loads(CliRunner().invoke(simulate, command).output)["jobs"]
    assert [one["end"] for one in ended] == [wanted, "finished", "finished"]
    assert all(one["turns"] > 3 for one in ended[1:])


@pytest.mark.parametrize(
    ("words", "wanted", "said"),
    [
        ((), ["finished", "finished"], "waited: the host cannot take all memory of job1"),
        (("--host-memory", "off"), ["killed", "finished"], "killed: more of its memory was on the host"),
        (("--card-reserve", "5Gi"), ["refused", "finished"], "refused: the card has less memory for it"),
        (("--card-reserve", "5Gi", "--oversubscribe"), ["finished", "finished"], "waited"),
    ],
)
def test_a_user_sees_how_jobs_ended_and_why_they_waited(words: tuple[str, ...], wanted: list[str], said: str) -> None:
    jobs = ("-j", "11Gi:4/1x10,host=1Gi", "-j", "7Gi:4/1x10")
    command = ["jobs", *jobs, "--mode", "fixed", "--quantum", "10", *words]
    shown, values = (CliRunner().invoke(simulate, [*command, *more]) for more in ((), ("--json",)))
    assert [one["end"] for one in json.loads(values.output)["jobs"]] == wanted
    assert said in shown.output

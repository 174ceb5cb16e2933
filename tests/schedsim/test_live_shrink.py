"""Simulated jobs whose limit changes while they run: what is over it is kept on the host and used over the link."""

import json

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from nvshare.cli.simulate.command import simulate
from nvshare.core.model import GIB, QuantumRule, Settings
from nvshare.schedsim.card import Card
from nvshare.schedsim.jobs import Job
from nvshare.schedsim.machine import Machine, Outcome
from nvshare.schedsim.presets import PRESETS

CARD = PRESETS["p100"]
PHASES = ((4.0, 1.0),) * 10
LOWERED = ((20.0, 6 * GIB),)


def job(memory: int = 8 * GIB, *limits: tuple[float, int], **more: float) -> Job:
    return Job("job", memory, 1.0, PHASES, limits=limits, **more)  # type: ignore[arg-type]


def run(*jobs: Job, shrinks: bool = True) -> Outcome:
    rule = QuantumRule(mode="fixed", fixed_ns=10 * 10**9)
    return Machine({"gpu0": CARD}, list(jobs), Settings(quantum=rule, live_shrink=shrinks), gate="nvshare").run()


def test_what_is_over_a_lowered_limit_is_used_over_the_link_which_takes_longer() -> None:
    before, after = run(job()).jobs[0], run(job(8 * GIB, *LOWERED)).jobs[0]
    assert (after.end, after.most_held) == ("finished", 2 * GIB)
    assert CARD.touch is not None
    assert CARD.link is not None
    slower = 1 + CARD.touch * (2 / 8) / CARD.link
    assert CARD.first_touch is not None
    began_s = 1 + 8 * GIB / CARD.first_touch  # then three phases of 5 s, and the fourth
    done_s = 12 + (20 - began_s - 15) + 2 * GIB / CARD.link  # GPU seconds, when the memory has moved to the host
    assert after.finished_s - before.finished_s == pytest.approx((40 - done_s) * (slower - 1), rel=0.01)


def test_a_raised_limit_brings_it_back() -> None:
    raised = run(job(8 * GIB, *LOWERED, (25.0, 8 * GIB)))
    (lowered, back, plain) = (run(job(8 * GIB, *LOWERED)), raised, run(job()))
    assert plain.jobs[0].finished_s < back.jobs[0].finished_s < lowered.jobs[0].finished_s
    assert raised.moved_gb == pytest.approx(2 * GIB / 1e9, rel=0.01)
    assert raised.pushed_gb == pytest.approx(2 * GIB / 1e9, rel=0.01)


def test_memory_that_is_not_used_goes_first_and_costs_nothing() -> None:
    shrunk = run(job(8 * GIB, *LOWERED, working_set=4 * GIB))
    assert shrunk.jobs[0].most_held == 2 * GIB
    assert shrunk.makespan_s == run(job(8 * GIB, working_set=4 * GIB)).makespan_s


def test_two_that_did_not_fit_run_side_by_side_when_one_is_shrunk() -> None:
    both = job(12 * GIB, (15.0, 4 * GIB)), job(8 * GIB)
    shrunk, apart = run(*both), run(replace(both[0], limits=()), both[1])
    assert shrunk.switches < apart.switches
    assert shrunk.jobs[1].finished_s < apart.jobs[1].finished_s


def test_without_live_shrink_a_lowered_limit_leaves_memory_where_it_is() -> None:
    lowered, plain = run(job(8 * GIB, *LOWERED), shrinks=False), run(job(), shrinks=False)
    assert (lowered.jobs, lowered.moved_gb, lowered.pushed_gb) == (plain.jobs, 0, 0)


def test_what_is_kept_on_the_host_counts_as_its_owners_host_memory() -> None:
    outcome = Machine(
        {"gpu0": CARD}, [job(8 * GIB, *LOWERED, host_memory=GIB)], Settings(), gate="nvshare", is_host_counted=False
    ).run()
    assert outcome.jobs[0].end == "killed"


def test_an_allocation_above_the_limit_is_refused() -> None:
    late = replace(job(8 * GIB, (0.0, 6 * GIB)), startup_s=5.0)
    machine = Machine({"gpu0": CARD}, [late], Settings(), gate="nvshare", may_oversubscribe=False)
    assert machine.run().jobs[0].end == "refused"


def test_a_card_computes_more_slowly_with_memory_on_the_host_and_loads_only_the_rest() -> None:
    card = Card(replace(CARD, size=100, touch=10.0, link=10.0, bus=5.0, first_touch=5.0, evict=None))
    card.add(0, 80, is_loaded=True)
    card.begin(0, 0, 4.0)
    card.hold(0, 0, 40)
    assert (card.tenants[0].resident, card.is_loading(0)) == (40.0, False)
    assert card.next_change() == 6_000_000_000  # half of what it touches comes over the link: 1.5 s for each second
    card.advance(3_000_000_000)
    card.hold(3_000_000_000, 0, 20)
    assert card.is_loading(0)
    assert card.next_change() == 5_000_000_000


def test_the_command_line_has_limits_and_says_what_was_kept() -> None:
    words = ["jobs", "-j", "8Gi:4/1x10,limit=6Gi@20,limit=8Gi@30"]
    text = CliRunner().invoke(simulate, words).output
    assert "kept up to 2.00 GiB on the host because of its limit" in text
    values = json.loads(CliRunner().invoke(simulate, [*words, "--json"]).output)
    assert values["jobs"][0]["most_held"] == 2 * GIB
    wrong = CliRunner().invoke(simulate, ["jobs", "-j", "8Gi:4/1x10,limit=6Gi"])
    assert "limit=SIZE@SECONDS" in str(wrong.exception)

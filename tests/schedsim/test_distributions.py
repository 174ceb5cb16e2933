"""Kinds of mixes, figures of merit, and the search for the best schedule."""

import pytest

from nvshare.core import events as ev
from nvshare.core.actions import Action
from nvshare.core.model import GIB
from nvshare.schedsim import distributions, merits, mixes, oracle
from nvshare.schedsim.card import CardModel
from nvshare.schedsim.distributions import Scene, make_mix
from nvshare.schedsim.jobs import Job
from nvshare.schedsim.machine import Ended, Machine, Outcome
from nvshare.schedsim.mixes import Mix
from nvshare.schedsim.presets import PRESETS

CARD = CardModel(10 * GIB, GIB, gain=1.0, sweep_s=1.0)


@pytest.mark.parametrize("kind", distributions.DISTRIBUTIONS)
def test_a_seed_is_one_mix_of_its_kind(kind: str) -> None:
    assert make_mix(5, Scene(kind)) == make_mix(5, Scene(kind))
    assert make_mix(5, Scene(kind)) != make_mix(6, Scene(kind))


def test_each_kind_is_what_it_says() -> None:
    for seed in range(20):
        interactive, small = make_mix(seed, Scene("interactive")), make_mix(seed, Scene("small"))
        assert {job.is_interactive for job in interactive.jobs} == {True, False}
        assert 2 <= len(small.jobs) <= oracle.MOST_JOBS
        assert sum(job.memory for job in small.jobs) > small.cards["gpu0"].size
        assert len(make_mix(seed, Scene("crowded")).jobs) >= 8
        arenas = make_mix(seed, Scene("arenas", card=PRESETS["t4"]))
        assert all(0 < job.used < job.memory < PRESETS["t4"].size for job in arenas.jobs)


def test_the_cost_of_a_move_and_the_link_are_those_of_the_scene() -> None:
    (card,) = make_mix(1, Scene("small", cost_s=2.0, link=12e9, is_duplex=False)).cards.values()
    assert (card.bus, card.link, card.is_duplex) == (GIB / 2, 12e9, False)
    (card,) = make_mix(1, Scene("small", cost_s=0.02, link=12e9)).cards.values()
    assert card.link == card.bus, "a link is no slower than faults"


def test_the_response_of_a_burst_is_counted_from_when_there_is_work_until_it_is_done() -> None:
    batch = Job("batch", 8 * GIB, 0.0, ((40.0, 0.0),))
    bursts = Job("bursts", 8 * GIB, 5.0, ((1.0, 50.0), (1.0, 0.0)), is_interactive=True)
    outcome = Machine({"gpu0": CARD}, [batch, bursts], mixes.AUTO.settings, gate="nvshare").run()
    assert outcome.jobs[0].responses_s == ()
    # It waits from 5 s until the quantum of 40 s is over, 8 s for its memory, and works for 1 s. In its pause the other
    # one brings back what it lacks and evicts 6 GiB.
    assert outcome.jobs[1].responses_s == pytest.approx((40 - 5 + 8 + 1, 6 + 1), abs=0.1)


def test_the_mover_measures_what_a_gib_costs() -> None:
    fast = CardModel(10 * GIB, GIB, gain=1.0, sweep_s=1.0, link=4 * GIB)
    jobs = [Job(name, 8 * GIB, 0.0, ((120.0, 0.0),)) for name in "ab"]
    machine = Machine({"gpu0": fast}, jobs, mixes.AUTO.settings, gate="nvshare")
    machine.run()
    (gpu,) = machine.node.gpus.values()
    assert gpu.turns.mode.is_cost_measured
    assert gpu.turns.mode.move_cost_ns == pytest.approx(0.25e9, rel=0.01)


def test_moves_to_the_host_are_reported_as_the_card_made_them(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = CardModel(10 * GIB, GIB, gain=1.0, sweep_s=1.0, link=4 * GIB)
    jobs = [Job(name, 8 * GIB, 0.0, ((120.0, 0.0),)) for name in "ab"]
    machine = Machine({"gpu0": fast}, jobs, mixes.AUTO.settings, gate="nvshare")
    posted: list[ev.Event] = []
    handle = machine.node.handle

    def listen(now: int, event: ev.Event) -> list[Action]:
        posted.append(event)
        return handle(now, event)

    monkeypatch.setattr(machine.node, "handle", listen)
    outcome = machine.run()
    out = [event for event in posted if isinstance(event, ev.MemoryMoved) and event.to_host]
    moved, took_ns = sum(event.moved for event in out), sum(event.took_ns for event in out)
    assert moved == pytest.approx(outcome.pushed_gb * 1e9)
    assert moved / took_ns == pytest.approx(4 * GIB / 1e9, rel=0.01)
    assert 0 < outcome.pushed_gb <= outcome.moved_gb


def arenas(working_set: int | None) -> Outcome:
    jobs = [Job(name, 8 * GIB, 0.0, ((10.0, 1.0),) * 20, working_set=working_set) for name in "ab"]
    return Machine({"gpu0": CARD}, jobs, mixes.AUTO.settings, gate="nvshare").run()


def test_jobs_that_use_a_part_of_their_memory_run_side_by_side_once_that_is_known() -> None:
    known, unknown = arenas(2 * GIB), arenas(None)
    assert known.switches <= 4
    assert known.switches < unknown.switches
    assert known.moved_gb == 0, "what each uses is created on the card, and stays there"
    assert known.longest_wait_s < unknown.longest_wait_s


def made(
    seed: int, *slowdowns: float, responses_s: tuple[float, ...] = (), are_equals: bool = False
) -> mixes.Comparison:
    jobs = tuple(Ended("one", "gpu0", slow, 1.0, slow / 2, 1, responses_s) for slow in slowdowns)
    outcome = Outcome(max(slowdowns), jobs, 0.0, 0, max(slowdowns) / 2, (), 1.0)
    return mixes.Comparison(seed, are_equals, {"a": outcome})


def test_merits_are_of_all_jobs_of_all_mixes() -> None:
    found = merits.merits([made(1, 2.0, 4.0), made(4, 8.0, 8.0, are_equals=True)], "a")
    assert found.slowdown == pytest.approx((2 * 4 * 8 * 8) ** 0.25)
    assert found.makespan_s == pytest.approx((4 * 8) ** 0.5)
    assert (found.longest_wait_s, found.longest_wait_seed) == (4.0, 4)
    assert (found.least_fairness, found.least_fairness_seed) == (1.0, 4)
    assert (found.mean_response_s, found.p95_response_s) == (None, None)


def test_merits_without_equals_have_no_fairness_and_with_bursts_have_responses() -> None:
    found = merits.merits([made(3, 2.0, responses_s=tuple(map(float, range(1, 101))))], "a")
    assert (found.least_fairness, found.least_fairness_seed) == (None, None)
    assert (found.mean_response_s, found.p95_response_s) == (50.5, 95.0)


def two_that_pause() -> Mix:
    """Each computes while the other one pauses, if the lock is handed over in each pause."""
    jobs = tuple(Job(name, 4 * GIB, 0.0, ((10.0, 10.0),) * 5) for name in "ab")
    big = Job("c", 8 * GIB, 0.0, ((10.0, 0.0),))
    return Mix(1, {"gpu0": CARD}, (*jobs, big), are_equals=False)


def test_on_known_cards_jobs_have_the_same_share_of_the_memory() -> None:
    any_cards, known = make_mix(5, Scene()), make_mix(5, Scene(card=PRESETS["t4"]))
    assert set(known.cards.values()) == {PRESETS["t4"]}
    for job, same in zip(any_cards.jobs, known.jobs, strict=True):
        share = job.memory / any_cards.cards[job.gpu].size
        assert same.memory / PRESETS["t4"].size == pytest.approx(share)


def test_bulk_moves_are_compared_with_page_faults_on_the_same_card() -> None:
    jobs = tuple(Job(name, 12 * GIB, 0.0, ((300.0, 0.0),)) for name in "ab")
    mix = Mix(1, {"gpu0": PRESETS["p100"]}, jobs, are_equals=False)
    in_bulk = mixes.run(mix, mixes.ADAPTIVE)
    by_faults = mixes.run(mix, mixes.by_faults(mixes.ADAPTIVE))
    assert in_bulk.makespan_s < by_faults.makespan_s


def test_a_plan_decides_on_pauses_with_perfect_knowledge() -> None:
    mix = two_that_pause()
    at_once = oracle.run_plan(mix, oracle.Plan((1000.0,) * 3, (0.0,) * 3, (0.0,) * 3))
    never = oracle.run_plan(mix, oracle.Plan((1000.0,) * 3, (1e9,) * 3, (0.0,) * 3))
    assert at_once.makespan_s < never.makespan_s


def test_the_oracle_is_at_least_as_good_as_every_contender() -> None:
    make = two_that_pause
    (one,) = mixes.compare([1], [mixes.FCFS_30, mixes.AUTO], make=lambda seed: make(), more=oracle.as_contender)
    assert one.outcomes[oracle.NAME].makespan_s <= min(outcome.makespan_s for outcome in one.outcomes.values())


def test_the_search_stops_when_no_neighbour_is_better_or_its_runs_are_used_up() -> None:
    runs: list[oracle.Plan] = []

    def run(mix: Mix, plan: oracle.Plan, until_s: float) -> Outcome:
        """Best with the order c, b, a, and with 300 s for a."""
        runs.append(plan)
        badness = sum(abs(have - want) for have, want in zip(plan.quanta_s, (300.0, 100.0, 100.0), strict=True))
        badness += sum(abs(have - want) for have, want in zip(plan.handicaps_s, (300.0, 30.0, 0.0), strict=True))
        return Outcome(1000 + badness, (), 0.0, 0, 0.0, (), 1.0)

    plan, outcome = oracle.best(two_that_pause(), 1000, run)
    assert (plan.quanta_s, plan.handicaps_s) == ((300.0, 100.0, 100.0), (300.0, 30.0, 0.0))
    assert (outcome.makespan_s, len(runs) < 1000) == (1000, True)
    runs.clear()
    oracle.best(two_that_pause(), 40, run)
    assert len(runs) == 40


def test_a_quantum_that_is_too_short_to_bring_memory_in_does_not_run_for_ever() -> None:
    jobs = tuple(Job(name, 8 * GIB, 0.0, ((10.0, 0.0),)) for name in "ab")
    mix = Mix(1, {"gpu0": CARD}, jobs, are_equals=False)
    outcome = oracle.run_plan(mix, oracle.Plan((3.0,) * 2, (0.0,) * 2, (0.0,) * 2), 100)
    assert outcome.makespan_s == pytest.approx(100, abs=3)
    assert [job.finished_s for job in outcome.jobs] == [outcome.makespan_s] * 2

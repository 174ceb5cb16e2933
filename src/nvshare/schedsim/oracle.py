"""How good a schedule could be: the best plan that a search with perfect knowledge finds for a few jobs.

A plan gives each job numbers that no scheduler can know:

    quantum     how long it keeps the card while others wait
    handicap    by how much it queues later than it arrived: the order
    patience    its lock is taken at once at the beginning of a pause that will last longer than patience * the time
                that it takes to bring the next job's memory in, and not during shorter ones: a plan knows how long each
                pause will be, and what is on the card

The plan runs in the core that the daemon runs, as a mode. The search takes the best of some uniform plans, and then
changes one number of one job at a time while that makes the makespan shorter. What it finds can be reached; whether
there is a better one is not known."""

from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import product
from math import inf

from msgspec.structs import replace

from nvshare.core.gpu import Gpu
from nvshare.core.model import SECOND, Settings
from nvshare.core.modes.mode import Left, Mode
from nvshare.core.turns.seat import Seat
from nvshare.record import Record
from nvshare.schedsim.machine import Machine, Outcome
from nvshare.schedsim.mixes import Mix, Outcomes

NAME = "oracle"
MOST_JOBS = 4
MOST_RUNS = 150
"""Simulations for one mix."""
QUANTA_S = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
PATIENCES = (0.0, 0.5, 1.0, 2.0, 1e9)
HANDICAPS_S = (0.0, 30.0, 300.0, 3000.0)
NEVER_NS = 1 << 62


class Plan(Record, frozen=True):
    """One number for each job."""

    quanta_s: tuple[float, ...]
    patiences: tuple[float, ...]
    handicaps_s: tuple[float, ...]


class Planned(Mode):
    """A plan as a mode of the core."""

    needs_early_reports = True

    def __init__(self, gpu: Gpu, settings: Settings, plan: Plan, machine: Machine) -> None:
        super().__init__(gpu.rule, settings, gpu.memory)
        self._plan = plan
        self._machine = machine

    @property
    def longest_quantum_ns(self) -> int:
        return round(max(self._plan.quanta_s) * SECOND)

    @property
    def longest_lag_ns(self) -> int:
        return round(max(self._plan.handicaps_s) * SECOND)

    def quantum_ns(self, running: Collection[Seat], head: Seat | None, newcomers: int) -> int:
        return round(max((self._plan.quanta_s[seat.client - 1] for seat in running), default=0.0) * SECOND)

    def lag_ns(self, seat: Seat) -> int:
        return round(self._plan.handicaps_s[seat.client - 1] * SECOND)

    def idle_preempt_times(self, now: int, head: Seat, idle: Iterable[Seat], left: Left) -> list[int]:
        load_s = self._load_s(head)
        return [self._preempt_time(seat, load_s) for seat in idle]

    def _load_s(self, head: Seat) -> float:
        """How long it takes to bring this client's memory in."""
        card = self._machine.cards[self._machine.programs[head.client].job.gpu]
        tenant = card.tenants[head.client]
        return (tenant.size - tenant.resident) / (card.model.link or card.model.bus)

    def _preempt_time(self, seat: Seat, load_s: float) -> int:
        assert seat.idle_since is not None
        pause_s = self._machine.programs[seat.client].pause_s
        return seat.idle_since if pause_s > self._plan.patiences[seat.client - 1] * load_s else NEVER_NS


Run = Callable[[Mix, Plan, float], Outcome]
"""A mix by a plan, until a time in seconds."""


def run_plan(mix: Mix, plan: Plan, until_s: float = inf) -> Outcome:
    """It ends soon after a time that is no longer better than what is known."""
    settings = Settings()
    machine = Machine(mix.cards, list(mix.jobs), settings, gate="nvshare")
    machine.talk()  # The node learns of its GPUs.
    for gpu in machine.node.gpus.values():
        gpu.turns.mode = Planned(gpu, settings, plan, machine)
    return replace(machine.run(until_s), stretches=())


def as_contender(mix: Mix, others: Outcomes) -> Outcomes:
    """For mixes.compare: the best of what the search finds and of what the others did."""
    return {NAME: min([best(mix)[1], *others.values()], key=lambda outcome: outcome.makespan_s)}


def best(mix: Mix, runs: int = MOST_RUNS, run: Run = run_plan) -> tuple[Plan, Outcome]:
    """The best plan that is found with so many simulations, and what comes of it."""
    assert len(mix.jobs) <= MOST_JOBS, "a search for more jobs finds little"
    plans = uniform_plans(mix)
    first = next(plans)
    found = first, run(mix, first, inf)
    runs -= 1
    for plan in plans:
        outcome = run(mix, plan, found[1].makespan_s)
        runs -= 1
        if outcome.makespan_s < found[1].makespan_s:
            found = plan, outcome
    is_better = True
    while is_better and runs > 0:
        is_better = False
        for plan in neighbours(found[0]):
            if runs <= 0:
                break
            if plan == found[0]:
                continue
            outcome = run(mix, plan, found[1].makespan_s)
            runs -= 1
            if outcome.makespan_s < found[1].makespan_s:
                found, is_better = (plan, outcome), True
                break
    return found


def uniform_plans(mix: Mix) -> Iterator[Plan]:
    """The same numbers for all jobs."""
    count = len(mix.jobs)
    for quantum_s, patience in product(reversed(QUANTA_S), PATIENCES):
        yield Plan((quantum_s,) * count, (patience,) * count, (0.0,) * count)


def neighbours(plan: Plan) -> Iterator[Plan]:
    """One number of one job is another."""
    for index in range(len(plan.quanta_s)):
        for handicap_s in HANDICAPS_S:
            yield replace(plan, handicaps_s=_with(plan.handicaps_s, index, handicap_s))
        for patience in PATIENCES:
            yield replace(plan, patiences=_with(plan.patiences, index, patience))
        for factor in (3.0, 1 / 3):
            yield replace(plan, quanta_s=_with(plan.quanta_s, index, plan.quanta_s[index] * factor))


def _with(values: tuple[float, ...], index: int, value: float) -> tuple[float, ...]:
    return (*values[:index], value, *values[index + 1 :])

"""Random mixes of jobs, for comparing ways to schedule: one seed, one mix, whatever the machine it runs on.

A mix has 1 to 4 cards and 2 to 12 jobs. Filling a card over its bus takes between 1.5 s and 20 s (the thesis'
card: 3 s). One mix in four consists of equals, which arrive together; fairness is judged on those."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import exp, log
from random import Random

from msgspec.structs import replace

from nvshare.core.model import GIB, SECOND, QuantumRule, Settings
from nvshare.record import Record
from nvshare.schedsim.card import CardModel
from nvshare.schedsim.gates import GateName
from nvshare.schedsim.jobs import Job
from nvshare.schedsim.machine import Machine, Outcome

CARD_SIZES = (16 * GIB, 24 * GIB, 40 * GIB, 80 * GIB)
Outcomes = dict[str, Outcome]
"""By the names of contenders."""
LIMIT = 10
"""A mix that takes so many times as long as all its jobs alone, one after the other, is ended."""
WORSE = 1.02
"""Beyond this ratio a mix is called worse."""


class Mix(Record, frozen=True):
    seed: int
    cards: dict[str, CardModel]
    jobs: tuple[Job, ...]
    are_equals: bool


class Contender(Record, frozen=True):
    """One way to schedule."""

    name: str
    gate: GateName
    settings: Settings
    late_s: float = 0.0
    """Every program starts up to this much later than its mix says."""
    is_by_faults: bool = False
    """Page faults alone move memory, also where the cards have a link."""


FCFS_30 = Contender(
    "fcfs-30s", "classic", Settings(quantum=QuantumRule(mode="fixed", fixed_ns=30 * SECOND), policy="fcfs")
)
"""nvshare as the thesis has it by default: an exclusive lock, 30 s, first come, first served."""
ADAPTIVE = Contender("adaptive", "nvshare", Settings(quantum=QuantumRule(mode="adaptive")))
BALANCED = Contender("balanced", "nvshare", Settings(quantum=QuantumRule(mode="balanced")))
AUTO = Contender("auto", "nvshare", Settings(quantum=QuantumRule(mode="auto")))


def random_mix(seed: int) -> Mix:
    chance = Random(f"mix {seed}")  # noqa: S311 - chance that can be repeated is what is wanted
    cards = {f"gpu{index}": random_card(chance) for index in range(chance.randint(1, 4))}
    are_equals = seed % 4 == 0
    count = chance.randint(2, 12)
    jobs = [random_job(chance, f"job{index}", cards) for index in range(count)]
    if are_equals:
        # All at one card, or cards of different speeds would make them unequal.
        jobs = [replace(jobs[0], name=job.name, arrives_s=0.0) for job in jobs]
    return Mix(seed, cards, tuple(jobs), are_equals)


def between(chance: Random, least: float, most: float) -> float:
    """Evenly in the logarithm: as many around 1 as around 10."""
    return exp(chance.uniform(log(least), log(most)))


def random_card(chance: Random) -> CardModel:
    size = chance.choice(CARD_SIZES)
    bus = size / between(chance, 1.5, 20)
    return CardModel(size, bus, gain=chance.uniform(1.0, 1.3), sweep_s=between(chance, 0.2, 2))


def random_job(chance: Random, name: str, cards: dict[str, CardModel]) -> Job:
    gpu = chance.choice(list(cards))
    memory = round(cards[gpu].size * chance.uniform(0.1, 0.95))
    gpu_s = between(chance, 200, 1500)
    share = chance.uniform(0.2, 0.98)
    phase_s = min(between(chance, 0.5, 30), gpu_s / 20)
    count = round(gpu_s / phase_s)
    think_s = phase_s * (1 - share) / share
    phases = tuple((jitter(chance, gpu_s / count), jitter(chance, think_s)) for _ in range(count))
    arrives_s = chance.choice([0.0, 0.0, chance.uniform(0, 300)])
    return Job(name, memory, between(chance, 2, 60), phases, gpu, arrives_s)


def jitter(chance: Random, seconds: float) -> float:
    return seconds * chance.uniform(0.7, 1.3)


def shaken(contender: Contender) -> Contender:
    """The same with every program up to 1 s late. How the two differ is how much a difference may mean nothing."""
    return replace(contender, name=f"{contender.name}-shaken", late_s=1.0)


def by_faults(contender: Contender) -> Contender:
    """The same without bulk moves."""
    return replace(contender, name=f"{contender.name}-by-faults", is_by_faults=True)


def run(mix: Mix, contender: Contender) -> Outcome:
    chance = Random(f"late {mix.seed}")  # noqa: S311 - as above
    jobs = [replace(job, arrives_s=job.arrives_s + contender.late_s * chance.random()) for job in mix.jobs]
    until_s = LIMIT * sum(job.alone_s + job.arrives_s for job in jobs)
    cards = mix.cards
    if contender.is_by_faults:
        cards = {name: replace(card, link=None) for name, card in cards.items()}
    return Machine(cards, jobs, contender.settings, gate=contender.gate).run(until_s)


def jain(values: Sequence[float]) -> float:
    """1: all alike; 1/n: one has everything."""
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


def fairness(outcome: Outcome) -> float:
    """Of the slowdowns."""
    return jain([job.slowdown for job in outcome.jobs])


def geometric_mean(values: Sequence[float]) -> float:
    return exp(sum(map(log, values)) / len(values))


class Comparison(Record, frozen=True):
    """One mix, each contender's outcome without its long list of stretches."""

    seed: int
    are_equals: bool
    outcomes: Outcomes


def compare(
    seeds: Sequence[int],
    contenders: Sequence[Contender],
    tell: Callable[[Comparison], None] | None = None,
    *,
    processes: int = 1,
    make: Callable[[int], Mix] = random_mix,
    more: Callable[[Mix, Outcomes], Outcomes] | None = None,
) -> list[Comparison]:
    """In the order of the seeds, however many processes share the work; `tell` is called for each in this order.
    `more` finds further outcomes of a mix."""
    found = []
    compare_one = partial(_compare_one, contenders=contenders, make=make, more=more)
    for one in _each(seeds, compare_one, min(processes, len(seeds))):
        found.append(one)
        if tell is not None:
            tell(one)
    return found


def _each(seeds: Sequence[int], one: Callable[[int], Comparison], processes: int) -> Iterator[Comparison]:
    if processes <= 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(one, seeds)


def _compare_one(
    seed: int,
    contenders: Sequence[Contender],
    make: Callable[[int], Mix],
    more: Callable[[Mix, Outcomes], Outcomes] | None,
) -> Comparison:
    mix = make(seed)
    outcomes = {contender.name: replace(run(mix, contender), stretches=()) for contender in contenders}
    if more is not None:
        outcomes |= more(mix, outcomes)
    return Comparison(seed, mix.are_equals, outcomes)


class Duel(Record, frozen=True):
    """One contender's makespans as parts of another's, over all mixes."""

    name: str
    against: str
    mean: float
    """Geometric."""
    worst: float
    worst_seed: int
    worse: tuple[int, ...]
    """The seeds beyond WORSE."""


def ratio(one: Comparison, name: str, against: str) -> float:
    return one.outcomes[name].makespan_s / one.outcomes[against].makespan_s


def duel(compared: Sequence[Comparison], name: str, against: str) -> Duel:
    ratios = [(ratio(one, name, against), one.seed) for one in compared]
    worst, worst_seed = max(ratios)
    worse = tuple(seed for value, seed in ratios if value > WORSE)
    return Duel(name, against, geometric_mean([value for value, _ in ratios]), worst, worst_seed, worse)

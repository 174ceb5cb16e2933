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


FCFS_30 = Contender("fcfs-30s", "classic", Settings(quantum=QuantumRule(mode="fixed", fixed_ns=30 * SECOND)))
"""nvshare as the thesis has it by default: an exclusive lock, 30 s, first come, first served."""
ADAPTIVE = Contender("adaptive", "nvshare", Settings(quantum=QuantumRule(mode="adaptive")))
AUTO = Contender("auto", "nvshare", Settings(quantum=QuantumRule(mode="auto")))


def random_mix(seed: int) -> Mix:
    chance = Random(f"mix {seed}")  # noqa: S311 - chance that can be repeated is what is wanted
    cards = {f"gpu{index}": _random_card(chance) for index in range(chance.randint(1, 4))}
    are_equals = seed % 4 == 0
    count = chance.randint(2, 12)
    jobs = [_random_job(chance, f"job{index}", cards) for index in range(count)]
    if are_equals:
        # All at one card, or cards of different speeds would make them unequal.
        jobs = [replace(jobs[0], name=job.name, arrives_s=0.0) for job in jobs]
    return Mix(seed, cards, tuple(jobs), are_equals)


class Moves(Record, frozen=True):
    """How memory moves on all cards of a mix: by faults, or in bulk over a link of so many bytes per second."""

    link: float | None = None
    is_duplex: bool = True


def with_moves(mix: Mix, moves: Moves) -> Mix:
    """A link is no slower than the card's faults."""
    if moves.link is None:
        return mix
    cards = {
        name: replace(card, link=max(card.bus, moves.link), is_duplex=moves.is_duplex)
        for name, card in mix.cards.items()
    }
    return replace(mix, cards=cards)


def _between(chance: Random, least: float, most: float) -> float:
    """Evenly in the logarithm: as many around 1 as around 10."""
    return exp(chance.uniform(log(least), log(most)))


def _random_card(chance: Random) -> CardModel:
    size = chance.choice(CARD_SIZES)
    bus = size / _between(chance, 1.5, 20)
    return CardModel(size, bus, gain=chance.uniform(1.0, 1.3), sweep_s=_between(chance, 0.2, 2))


def _random_job(chance: Random, name: str, cards: dict[str, CardModel]) -> Job:
    gpu = chance.choice(list(cards))
    memory = round(cards[gpu].size * chance.uniform(0.1, 0.95))
    gpu_s = _between(chance, 200, 1500)
    share = chance.uniform(0.2, 0.98)
    phase_s = min(_between(chance, 0.5, 30), gpu_s / 20)
    count = round(gpu_s / phase_s)
    think_s = phase_s * (1 - share) / share
    phases = tuple((_jitter(chance, gpu_s / count), _jitter(chance, think_s)) for _ in range(count))
    arrives_s = chance.choice([0.0, 0.0, chance.uniform(0, 300)])
    return Job(name, memory, _between(chance, 2, 60), phases, gpu, arrives_s)


def _jitter(chance: Random, seconds: float) -> float:
    return seconds * chance.uniform(0.7, 1.3)


def shaken(contender: Contender) -> Contender:
    """The same with every program up to 1 s late. How the two differ is how much a difference may mean nothing."""
    return replace(contender, name=f"{contender.name}-shaken", late_s=1.0)


def run(mix: Mix, contender: Contender) -> Outcome:
    chance = Random(f"late {mix.seed}")  # noqa: S311 - as above
    jobs = [replace(job, arrives_s=job.arrives_s + contender.late_s * chance.random()) for job in mix.jobs]
    return Machine(mix.cards, jobs, contender.settings, gate=contender.gate).run()


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
    outcomes: dict[str, Outcome]


def compare(
    seeds: Sequence[int],
    contenders: Sequence[Contender],
    tell: Callable[[Comparison], None] | None = None,
    *,
    processes: int = 1,
    moves: Moves | None = None,
) -> list[Comparison]:
    """In the order of the seeds, however many processes share the work; `tell` is called for each in this order."""
    found = []
    for one in _each(
        seeds, partial(_compare_one, contenders=contenders, moves=moves or Moves()), min(processes, len(seeds))
    ):
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


def _compare_one(seed: int, contenders: Sequence[Contender], moves: Moves) -> Comparison:
    mix = with_moves(random_mix(seed), moves)
    outcomes = {contender.name: replace(run(mix, contender), stretches=()) for contender in contenders}
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


class Manners(Record, frozen=True):
    """How one contender treats the jobs, over all mixes."""

    name: str
    longest_wait_s: float
    longest_wait_seed: int
    least_fairness: float | None
    """Among equals (Jain); None: no mix was of equals."""
    least_fairness_seed: int | None


def ratio(one: Comparison, name: str, against: str) -> float:
    return one.outcomes[name].makespan_s / one.outcomes[against].makespan_s


def duel(compared: Sequence[Comparison], name: str, against: str) -> Duel:
    ratios = [(ratio(one, name, against), one.seed) for one in compared]
    worst, worst_seed = max(ratios)
    worse = tuple(seed for value, seed in ratios if value > WORSE)
    return Duel(name, against, geometric_mean([value for value, _ in ratios]), worst, worst_seed, worse)


def manners(compared: Sequence[Comparison], name: str) -> Manners:
    wait_s, wait_seed = max((one.outcomes[name].longest_wait_s, one.seed) for one in compared)
    fair = [(fairness(one.outcomes[name]), one.seed) for one in compared if one.are_equals]
    least, least_seed = min(fair) if fair else (None, None)
    return Manners(name, wait_s, wait_seed, least, least_seed)

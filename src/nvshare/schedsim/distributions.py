"""Kinds of random mixes, and the cards on which they run.

mixes           2 to 12 jobs on 1 to 4 cards (schedsim.mixes)
interactive     on one card 1 or 2 batch jobs, and 1 to 3 jobs that somebody waits for: short bursts, long pauses
crowded         8 to 14 jobs on one card
small           2 to 4 jobs on one card, of which not all fit: few enough for schedsim.oracle
arenas          3 to 6 jobs on one card that allocate most of it, as frameworks do, and use a part of that"""

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from nvshare.core.model import GIB
from nvshare.record import Record
from nvshare.schedsim.card import CardModel
from nvshare.schedsim.jobs import Job
from nvshare.schedsim.mixes import Mix, between, jitter, random_card, random_job, random_mix


class Scene(Record, frozen=True):
    """Which kind of mixes, and how memory moves on all cards."""

    kind: str = "mixes"
    cost_s: float | None = None
    """Of moving a GiB by faults; None: as the mix has it."""
    link: float | None = None
    """Bytes per second of bulk moves; None: all moves are faults."""
    is_duplex: bool = True
    card: CardModel | None = None
    """All cards are this one, and jobs have the same share of its memory; None: as the mix has it."""


def make_mix(seed: int, scene: Scene) -> Mix:
    mix = DISTRIBUTIONS[scene.kind](seed)
    if scene.card is not None:
        mix = _on_known_cards(mix, scene.card)
    return replace(mix, cards={name: _with_moves(card, scene) for name, card in mix.cards.items()})


def _on_known_cards(mix: Mix, card: CardModel) -> Mix:
    jobs = (_scaled(job, card.size, mix.cards[job.gpu].size) for job in mix.jobs)
    return replace(mix, cards=dict.fromkeys(mix.cards, card), jobs=tuple(jobs))


def _scaled(job: Job, size: int, before: int) -> Job:
    working_set = None if job.working_set is None else job.working_set * size // before
    return replace(job, memory=job.memory * size // before, working_set=working_set)


def _with_moves(card: CardModel, scene: Scene) -> CardModel:
    """A link is no slower than the card's faults. A known card has a link of its own."""
    if scene.cost_s is not None:
        card = replace(card, bus=GIB / scene.cost_s)
    link = card.link if scene.link is None else max(card.bus, scene.link)
    return replace(card, link=link, is_duplex=scene.is_duplex)


def _interactive(seed: int) -> Mix:
    chance = Random(f"interactive {seed}")  # noqa: S311 - chance that can be repeated is what is wanted
    card = random_card(chance)
    batch = [_batch_job(chance, f"batch{index}", card) for index in range(chance.randint(1, 2))]
    bursts = [_burst_job(chance, f"bursts{index}", card) for index in range(chance.randint(1, 3))]
    return Mix(seed, {"gpu0": card}, (*batch, *bursts), are_equals=False)


def _batch_job(chance: Random, name: str, card: CardModel) -> Job:
    phase_s, share = between(chance, 2, 30), chance.uniform(0.8, 0.99)
    count = round(between(chance, 300, 1500) / phase_s)
    phases = tuple((jitter(chance, phase_s), jitter(chance, phase_s * (1 - share) / share)) for _ in range(count))
    return Job(name, round(card.size * chance.uniform(0.5, 0.95)), between(chance, 2, 20), phases)


def _burst_job(chance: Random, name: str, card: CardModel) -> Job:
    burst_s, pause_s = between(chance, 0.1, 4), between(chance, 5, 60)
    count = max(5, round(chance.uniform(400, 1200) / (burst_s + pause_s)))
    phases = tuple((jitter(chance, burst_s), jitter(chance, pause_s)) for _ in range(count))
    memory = round(card.size * chance.uniform(0.15, 0.7))
    return Job(name, memory, between(chance, 2, 60), phases, is_interactive=True)


def _crowded(seed: int) -> Mix:
    chance = Random(f"crowded {seed}")  # noqa: S311 - as above
    return _on_one_card(seed, chance, chance.randint(8, 14))


def _small(seed: int) -> Mix:
    chance = Random(f"small {seed}")  # noqa: S311 - as above
    while True:
        mix = _on_one_card(seed, chance, chance.randint(2, 4))
        if sum(job.memory for job in mix.jobs) > mix.cards["gpu0"].size:
            return mix


def _arenas(seed: int) -> Mix:
    chance = Random(f"arenas {seed}")  # noqa: S311 - as above
    mix = _on_one_card(seed, chance, chance.randint(3, 6))
    size = mix.cards["gpu0"].size
    arenas = ((round(size * chance.uniform(0.5, 0.9)), chance.uniform(0.1, 0.6)) for _ in mix.jobs)
    jobs = zip(mix.jobs, arenas, strict=True)
    return replace(
        mix, jobs=tuple(replace(job, memory=memory, working_set=round(memory * part)) for job, (memory, part) in jobs)
    )


def _on_one_card(seed: int, chance: Random, count: int) -> Mix:
    cards = {"gpu0": random_card(chance)}
    jobs = tuple(random_job(chance, f"job{index}", cards) for index in range(count))
    return Mix(seed, cards, jobs, are_equals=False)


DISTRIBUTIONS: dict[str, Callable[[int], Mix]] = {
    "mixes": random_mix,
    "interactive": _interactive,
    "crowded": _crowded,
    "small": _small,
    "arenas": _arenas,
}

"""The table of the thesis behind nvshare, simulated: two jobs on a Tesla P100, with and without the lock.

What is given: the card's size, each job's memory, its share of time on the GPU and how long it takes alone with plain
CUDA (the first row, which is therefore no evidence). What is fitted, five numbers for all the rest: see Parameters.
`calibrate` finds them again by coordinate descent on the squared logarithms of the errors."""

from collections.abc import Callable
from math import log

from msgspec.structs import replace

from nvshare.core.model import GIB, MIB, SECOND, QuantumRule, Settings
from nvshare.record import Record
from nvshare.schedsim.card import CardModel
from nvshare.schedsim.gates import GateName
from nvshare.schedsim.jobs import Job, even_job
from nvshare.schedsim.machine import Machine, Outcome

GB = 10**9
CARD_SIZE = 16_280 * MIB
TOLERANCE = 0.10


class Kind(Record, frozen=True):
    """A column of the table: a job as the thesis describes it."""

    name: str
    memory: int
    gpu_share: float
    alone_s: float


KINDS = (
    Kind("small_50", 7_200_000_000, 0.5, 1318),
    Kind("small_90", 7_200_000_000, 0.9, 692),
    Kind("big_50", 15_300_000_000, 0.5, 1383),
    Kind("big_90", 15_300_000_000, 0.9, 719),
)

MEASURED: dict[str, tuple[int, int, int, int]] = {
    "one alone, plain CUDA": (1318, 692, 1383, 719),
    "one alone, managed memory": (1332, 711, 1385, 724),
    "two, one after the other": (2636, 1384, 2766, 1438),
    "two at once, no lock": (1772, 1128, 11757, 11434),
    "lock, quantum 1000 s": (2053, 1361, 2043, 1380),
    "lock, quantum 100 s": (2010, 1351, 2100, 1435),
    "lock, quantum 30 s": (2017, 1366, 2170, 1521),
    "lock, quantum 10 s": (2009, 1360, 2465, 1821),
    "lock, quantum 5 s": (1982, 1334, 3496, 2788),
}
"""In seconds, as measured by the author of the thesis."""


class Parameters(Record, frozen=True):
    """All that is fitted."""

    startup_s: float = 101.0
    """How long a job takes until it first touches the GPU; at most all of its CPU time."""
    phase_s: float = 20.75
    """GPU time between two CPU phases."""
    gain: float = 1.19
    """How much two get done at once where one gets 1 done."""
    bus_gb_s: float = 5.2
    """Pages moved by faults, per second."""
    sweep_s: float = 0.387
    """GPU time until a job has touched all of its memory."""


FITTED = Parameters()


def card(parameters: Parameters = FITTED) -> CardModel:
    return CardModel(CARD_SIZE, parameters.bus_gb_s * GB, parameters.gain, parameters.sweep_s)


def job(kind: Kind, parameters: Parameters = FITTED) -> Job:
    gpu_s = kind.alone_s * kind.gpu_share
    return even_job(
        kind.name,
        kind.memory,
        gpu_s=gpu_s,
        cpu_s=kind.alone_s - gpu_s,
        phase_s=parameters.phase_s,
        startup_s=parameters.startup_s,
    )


def run(kind: Kind, row: str, parameters: Parameters = FITTED) -> Outcome:
    """One cell of the table."""
    one = job(kind, parameters)
    if row == "one alone, plain CUDA":
        return _run([one], parameters, "none", is_plain=True)
    if row == "one alone, managed memory":
        return _run([one], parameters, "none")
    if row == "two, one after the other":
        return _run([one, replace(one, arrives_s=one.alone_s)], parameters, "none", is_plain=True)
    if row == "two at once, no lock":
        return _run([one, one], parameters, "none")
    seconds = int(row.removeprefix("lock, quantum ").removesuffix(" s"))
    return _run([one, one], parameters, "classic", classic_settings(seconds))


def classic_settings(quantum_s: int) -> Settings:
    return Settings(quantum=QuantumRule(mode="fixed", fixed_ns=quantum_s * SECOND))


def default_settings(model: CardModel, settings: Settings | None = None) -> Settings:
    """Ours, for a card of this kind: what moving memory costs is known."""
    return replace(settings or Settings(), move_ns_per_gib=round(GIB / (model.link or model.bus) * SECOND))


def run_ours(kind: Kind, settings: Settings, parameters: Parameters = FITTED) -> Outcome:
    """Two jobs at once under our own gate."""
    one = job(kind, parameters)
    return _run([one, one], parameters, "nvshare", settings)


def _run(
    jobs: list[Job], parameters: Parameters, gate: GateName, settings: Settings | None = None, *, is_plain: bool = False
) -> Outcome:
    return Machine({"gpu0": card(parameters)}, jobs, settings or Settings(), gate=gate, is_plain=is_plain).run()


def table(parameters: Parameters = FITTED) -> dict[str, tuple[float, ...]]:
    """All cells, by row."""
    return {row: tuple(run(kind, row, parameters).makespan_s for kind in KINDS) for row in MEASURED}


def errors(simulated: dict[str, tuple[float, ...]]) -> dict[tuple[str, str], float]:
    """The relative error of each cell."""
    return {
        (row, kind.name): ours / theirs - 1
        for row, measured in MEASURED.items()
        for kind, ours, theirs in zip(KINDS, simulated[row], measured, strict=True)
    }


def misfit(parameters: Parameters) -> float:
    return sum(log(1 + error) ** 2 for error in errors(table(parameters)).values())


def calibrate(
    start: Parameters, *, rounds: int = 6, badness: Callable[[Parameters], float] = misfit
) -> tuple[Parameters, float]:
    """Coordinate descent: each number in turn is moved by a shrinking step while that helps."""
    best, least = start, badness(start)
    step = 1.15
    for _ in range(rounds):
        for name in Parameters.__struct_fields__:
            for factor in (step, 1 / step):
                trial = replace(best, **{name: getattr(best, name) * factor})
                while (found := badness(trial)) < least:
                    best, least = trial, found
                    trial = replace(best, **{name: getattr(best, name) * factor})
        step = 1 + (step - 1) / 2
    return best, least

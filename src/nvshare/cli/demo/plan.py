"""The programs and phases of the demonstration. Pure."""

from msgspec import structs

from nvshare.core.model import GIB, MIB
from nvshare.record import Record
from nvshare.simgpu.cards import CARDS, CardFigures

KERNEL = "nvshare_demo_pass"
PIECES = 8
"""Kernels per pass: the number of pieces of the worker's memory."""


CARD = "p100"
"""The simulated card."""
CONTEXT = 400 * MIB
"""Of each program on the simulated card: as the scheduler assumes, which cannot measure it."""
SLOW_FAULTS = "500M"
"""Bytes per second: about as slow as page faults were seen on a card with other programs."""
SLOW_QUANTA = 3
"""How many quanta the quantum has there."""


class Job(Record, frozen=True):
    """One program: its memory, bursts of passes over all of it, and pauses on the host in between."""

    name: str
    memory: int
    bursts: int
    passes: int
    pause_ms: int = 0

    def arguments(self, *, managed: bool) -> list[str]:
        """The arguments of the worker program."""
        made = [str(self.memory), str(self.bursts), str(self.passes), "1", str(self.pause_ms)]
        return [*made, "managed"] if managed else made


class Phase(Record, frozen=True):
    """One way to run the jobs."""

    key: str
    title: str
    jobs: tuple[Job, ...]
    is_at_once: bool = True
    is_shared: bool = False
    """Under nvshare."""
    moves_in_bulk: bool = True
    """Under nvshare, memory moves at a switch with prefetches, not with page faults alone."""
    is_managed: bool = False
    """The programs use unified memory by themselves."""
    has_slow_faults: bool = False
    """On a card with page faults of SLOW_FAULTS, and with a quantum in which they move all memory of a program."""
    stop_after_s: float | None = None
    stops_at_failure: bool = False


class Plan(Record, frozen=True):
    """The whole demonstration. real time = `scale` * time of the simulated card."""

    card: int
    scale: float
    kernel_ms: float
    quantum_s: int
    move_s_per_gib: float
    phases: tuple[Phase, ...]
    figures: CardFigures | None = None
    """Of the simulated card; None: a real one."""

    @property
    def link_s(self) -> float:
        """How long the link of the simulated card takes, one way, for what cannot be on it while both big programs
        have their memory and contexts."""
        assert self.figures is not None
        jobs = next(phase.jobs for phase in self.phases if phase.key == "steady-shared")
        return (sum(job.memory + CONTEXT for job in jobs) - self.card) / self.figures.link


def simulated(memory: int = 16 * GIB) -> Plan:
    """For the simulated card with its default speeds, 10 times as fast as real.

    The quantum is 10 s of the card, the shortest of mode `auto`; the default cost of moving memory is at that speed
    too. The big programs need several turns each."""
    scale, kernel_ms = 1 / 10, 12.5
    in_a_second = round(1000 / (kernel_ms * PIECES))
    big, small = memory * 9 // 16, memory * 3 // 16
    slow = tuple(Job(name, big, bursts=10, passes=5 * in_a_second) for name in ("slow A", "slow B"))
    return Plan(
        card=memory,
        scale=scale,
        figures=CARDS[CARD],
        kernel_ms=kernel_ms,
        quantum_s=round(10 * scale),
        move_s_per_gib=scale,
        phases=_phases(
            steady=tuple(Job(name, big, bursts=14, passes=5 * in_a_second) for name in ("train A", "train B")),
            bursty=tuple(
                Job(name, big, bursts=3, passes=10 * in_a_second, pause_ms=round(10_000 * scale))
                for name in ("mixed A", "mixed B")
            ),
            small=tuple(
                Job(f"small {letter}", small, bursts=4, passes=in_a_second, pause_ms=round(4_000 * scale))
                for letter in "ABCD"
            ),
            stop_after_s=5.0,
        )
        + _slow_phases(slow, stop_after_s=10.0),
    )


def real(memory: int) -> Plan:
    """For a real card of this size: sizes follow the card; work is short, because real time cannot be scaled."""
    big, small = memory * 9 // 16 // MIB * MIB, memory * 3 // 16 // MIB * MIB
    return Plan(
        card=memory,
        scale=1.0,
        kernel_ms=0.0,
        quantum_s=10,
        move_s_per_gib=1.0,
        phases=_phases(
            steady=tuple(Job(name, big, bursts=40, passes=10) for name in ("train A", "train B")),
            bursty=tuple(Job(name, big, bursts=3, passes=150, pause_ms=8000) for name in ("mixed A", "mixed B")),
            small=tuple(Job(f"small {letter}", small, bursts=6, passes=20, pause_ms=1500) for letter in "ABCD"),
            stop_after_s=60.0,
        ),
    )


def _phases(
    *, steady: tuple[Job, ...], bursty: tuple[Job, ...], small: tuple[Job, ...], stop_after_s: float
) -> tuple[Phase, ...]:
    return (
        Phase("steady-serial", "one after another", steady, is_at_once=False),
        Phase("steady-plain", "at the same time, plain CUDA", steady, stops_at_failure=True),
        Phase("steady-unified", "at the same time, unified memory", steady, is_managed=True, stop_after_s=stop_after_s),
        Phase("steady-faults", "with nvshare, by page faults alone", steady, is_shared=True, moves_in_bulk=False),
        Phase("steady-shared", "at the same time, with nvshare", steady, is_shared=True),
        Phase("bursty-serial", "one after another", bursty, is_at_once=False),
        Phase("bursty-shared", "at the same time, with nvshare", bursty, is_shared=True),
        Phase("small-serial", "one after another", small, is_at_once=False),
        Phase("small-shared", "at the same time, with nvshare", small, is_shared=True),
    )


def _slow_phases(jobs: tuple[Job, ...], stop_after_s: float) -> tuple[Phase, ...]:
    in_bulk = Phase("slow-shared", "at the same time, with nvshare", jobs, is_shared=True, has_slow_faults=True)
    title = "with nvshare, by page faults alone"
    by_faults = structs.replace(in_bulk, key="slow-faults", title=title, moves_in_bulk=False, stop_after_s=stop_after_s)
    return by_faults, in_bulk

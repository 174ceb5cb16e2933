"""The gate of a simulated program around libnvshare's client machine: its drains, one GPU beside another."""

from uuid import UUID

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND
from nvshare.schedsim.gates import DRAIN_NS, NvshareGate

GPUS = [f"GPU-{UUID(int=number)}" for number in (1, 2)]


class Surroundings:
    """A program with work on two GPUs, and the simulation that it is part of."""

    key, name, group = 1, "program", "run/1"
    gpus = GPUS
    memory = GIB
    working_set: int | None = None
    may_oversubscribe = True
    priority = weight = 0
    stands_at: int | None = None

    def __init__(self) -> None:
        self.now = 0
        self.card_sizes = [16 * GIB] * len(GPUS)
        self.calls: list[tuple[int, str]] = []
        self.releases: list[tuple[int, str]] = []
        self.gate = NvshareGate(self, self)
        self.gate.start()
        self.gate.hear(ac.AcceptClient(1, True))

    def post(self, event: ev.Event) -> None:
        if isinstance(event, ev.LockReleased):
            self.releases.append((self.now, event.gpu))

    def call_at(self, when: int, call: tuple[int, str]) -> None:
        self.calls.append((when, call[1]))

    def run(self, until: int) -> None:
        while self.calls and min(self.calls)[0] <= until:
            call = min(self.calls)
            self.calls.remove(call)
            self.now = max(self.now, call[0])
            getattr(self.gate, call[1])()
        self.now = until

    def give(self, gpu: str, lock: int) -> None:
        self.gate.hear(ac.GiveLock(1, gpu, lock, contended=False))

    def drop(self, gpu: str, lock: int) -> None:
        self.gate.hear(ac.DropLock(1, gpu, lock, "quantum"))

    def has_work(self, gpu: int) -> bool:
        return True

    def gate_opened(self, gpu: int) -> None: ...
    def gate_closed(self, gpu: int) -> None: ...

    def push_out(self, gpu: int, size: int) -> int | None:
        return None

    def pushed_out(self, gpu: int) -> tuple[int, int]:
        return 0, 0

    def left_on_card(self, gpu: int) -> int:
        return 0

    def hold_ns(self, gpu: int, size: int) -> int:
        return 0

    def hold(self, gpu: int, size: int) -> None: ...


@pytest.fixture
def program() -> Surroundings:
    program = Surroundings()
    for lock, gpu in enumerate(GPUS, 1):
        program.give(gpu, lock)
    return program


def test_each_drain_takes_its_own_time(program: Surroundings) -> None:
    program.drop(GPUS[0], 1)
    program.run(3 * MILLISECOND)
    program.drop(GPUS[1], 2)
    program.run(DRAIN_NS * 3)
    assert program.releases == [(DRAIN_NS, GPUS[0]), (3 * MILLISECOND + DRAIN_NS, GPUS[1])]


def test_a_drain_that_begins_after_one_was_given_up_takes_its_whole_time(program: Surroundings) -> None:
    program.drop(GPUS[0], 1)
    program.run(2 * MILLISECOND)
    program.give(GPUS[0], 3)
    program.drop(GPUS[0], 3)
    program.run(DRAIN_NS * 3)
    assert program.releases == [(2 * MILLISECOND + DRAIN_NS, GPUS[0])]

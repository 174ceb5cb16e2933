"""Weights and priorities of programs, in the simulator with the core and the client machine that ship."""

import pytest

from nvshare.core.model import GIB, ModeName, QuantumRule, Settings
from nvshare.core.modes import MODES
from nvshare.core.turns.seat import Seat
from nvshare.schedsim.card import CardModel
from nvshare.schedsim.jobs import Job
from nvshare.schedsim.machine import Machine

CARD = CardModel(10 * GIB, 20 * GIB, gain=1.0, sweep_s=1.0)


@pytest.mark.parametrize("mode", MODES)
def test_programs_that_take_turns_hold_the_gpu_in_proportion_to_their_weights(mode: ModeName) -> None:
    """1 : 2 : 5 within 5 %, over twenty rounds of at most 1000 s; the jobs have more work than that."""
    jobs = [Job(str(weight), 8 * GIB, 0.0, ((25_000.0, 0.0),), weight=weight) for weight in (100, 200, 500)]
    settings = Settings(quantum=QuantumRule(mode=mode), policy="fair")
    machine = Machine({"gpu0": CARD}, jobs, settings, gate="nvshare")
    machine.run(20_000)
    (gpu,) = machine.node.gpus.values()
    held = [_held(machine.now, seat) for seat in gpu.turns.seats.values()]
    assert [one / sum(held) for one in held] == pytest.approx([1 / 8, 2 / 8, 5 / 8], rel=0.05)


def _held(now: int, seat: Seat) -> int:
    return seat.held_total + (now - seat.held_since if seat.lock else 0)

"""What each mode promises: the longest quantum, the longest lag, and the bound on a wait that follows from them."""

import pytest

from nvshare.core.memory_planner import MemoryPlanner
from nvshare.core.model import GIB, SECOND, Memory, ModeName, QuantumRule, Settings
from nvshare.core.modes import MODES, make_mode
from nvshare.core.modes.mode import Mode
from nvshare.core.seat import Seat


def mode(name: ModeName, **parameters: int) -> Mode:
    return make_mode(QuantumRule(mode=name, **parameters), Settings(), MemoryPlanner(Settings()))


def seat(client: int, gib: int) -> Seat:
    one = Seat(client, 0, 100)
    one.memory = Memory(swappable=gib * GIB)
    one.need = one.memory.swappable
    return one


@pytest.mark.parametrize(
    ("name", "longest_s"),
    [
        ("fixed", 7 * (60 + 10)),
        ("auto", 7 * (300 + 10)),
        ("adaptive", 3 * 300 + 7 * (375 + 10)),
        ("balanced", 2 * 300 + 7 * (300 + 10)),
    ],
)
def test_the_longest_wait_is_the_horizon_the_longest_lag_and_one_turn_and_grace_for_each_client(
    name: ModeName, longest_s: int
) -> None:
    assert mode(name).longest_wait_ns(600 * SECOND, clients=7) == (600 + longest_s) * SECOND


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("least_s", [10, 500])
def test_no_turn_is_longer_than_the_longest(name: ModeName, least_s: int) -> None:
    rules, head = mode(name, least_ns=least_s * SECOND), seat(2, 1000)
    assert rules.quantum_ns([seat(1, 1000)], None, 0) <= rules.longest_quantum_ns
    assert rules.quantum_ns([seat(1, 1000)], head, 1) <= rules.longest_quantum_ns
    assert rules.quantum_ns([seat(1, 0)], head, 1) <= rules.longest_quantum_ns

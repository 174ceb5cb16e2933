"""What each mode promises: the longest quantum, the longest lag, and the bound on a wait that follows from them."""

import pytest

from nvshare.core import events as ev
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import GIB, SECOND, Claim, Memory, ModeName, QuantumRule, Settings
from nvshare.core.modes import MODES, make_mode
from nvshare.core.modes.mode import Mode
from nvshare.core.node import Node
from nvshare.core.turns.seat import Seat


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
        ("balanced", 300 + 7 * (300 + 10)),
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


LINK = 10 * GIB
"""Bytes per second: 0.1 s a GiB."""


def node_with_link(name: ModeName, *, moves: tuple[bool, ...]) -> Node:
    """A card whose link NVML reports, with one client of 4 GiB each that moves memory in bulk, or does not."""
    node = Node(Settings(quantum=QuantumRule(mode=name)), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g", 16 * GIB, link_bytes_per_s=LINK))
    for client, is_mover in enumerate(moves, 1):
        claim = Claim("g", 16 * GIB, memory=Memory(swappable=4 * GIB))
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (claim,), moves_memory=is_mover))
    return node


def move_s(node: Node) -> float:
    return node.gpus["g"].turns.mode.move_cost_ns / SECOND


@pytest.mark.parametrize("name", ["adaptive", "balanced"])
@pytest.mark.parametrize(("moves", "wanted_s"), [((), 0.1), ((True, True), 0.1), ((True, False), 0.2), ((False,), 0.2)])
def test_the_link_is_the_first_guess_if_all_clients_move_memory_in_bulk(
    name: ModeName, moves: tuple[bool, ...], wanted_s: float
) -> None:
    assert move_s(node_with_link(name, moves=moves)) == wanted_s


@pytest.mark.parametrize("name", ["auto", "fixed"])
def test_modes_that_do_not_learn_take_the_settings_for_the_first_guess(name: ModeName) -> None:
    assert move_s(node_with_link(name, moves=(True,))) == 1


def test_the_guess_depends_on_which_clients_move_memory_and_ends_with_the_first_measured_move() -> None:
    node = node_with_link("balanced", moves=(True, False))
    found = [move_s(node)]
    node.handle(1, ev.MoverReported(2, "g", ""))
    found.append(move_s(node))
    node.handle(2, ev.MoverReported(1, "g", "prefetches have no effect"))
    node.handle(2, ev.MoverReported(1, "g", "native memory"))
    found.append(move_s(node))
    node.handle(3, ev.ClientLeft(1))
    found.append(move_s(node))
    node.handle(4, ev.LockRequested(2, "g", Memory(GIB)))
    node.handle(SECOND, ev.MemoryMoved(2, "g", to_host=False, moved=GIB, took_ns=SECOND // 2))
    found.append(move_s(node))
    assert found == [0.2, 0.1, 0.2, 0.1, 0.5]


def test_the_guess_holds_in_a_mode_that_the_operator_sets_later() -> None:
    node = node_with_link("fixed", moves=(True,))
    node.handle(1, ev.ModeSet("balanced"))
    assert move_s(node) == 0.1


def test_a_client_without_a_mover_does_not_count_before_it_has_memory_to_move() -> None:
    """As one in native memory, which no switch moves."""
    node = node_with_link("balanced", moves=(True,))
    claim = Claim("g", 16 * GIB, memory=Memory(unswappable=GIB))
    node.handle(1, ev.ClientRegistered(2, "run/2", "", "", (claim,)))
    assert move_s(node) == 0.1
    node.handle(2, ev.LockRequested(2, "g", Memory(swappable=GIB)))
    assert move_s(node) == 0.2

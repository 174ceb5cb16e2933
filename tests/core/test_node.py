"""What no story tells well: clocks, bounds, and that checking changes nothing."""

import random

import pytest
from world import HAPPENINGS, World

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.limits import MOST_ASKS
from nvshare.core.model import GIB, SECOND, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.core.snapshot import snapshot

RECALL = Settings().recall_ns


def pod_of_two() -> Node:
    """Client 1 has the whole limit of 8 GiB and uses 1; client 2 has nothing of it."""
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.PodChanged("p", "team/p", limit=8 * GIB))
    for client, budget, used in ((1, 8 * GIB, GIB), (2, 0, 0)):
        claim = Claim("g0", 10 * GIB, memory=Memory(swappable=used), limit=8 * GIB, budget=budget)
        node.handle(0, ev.ClientRegistered(client, "pod/p", "p", "", (claim,)))
    return node


def test_a_clock_that_goes_back_stands_still() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(5 * SECOND, ev.GpuFound("g0", 10 * GIB))
    node.handle(5 * SECOND, ev.ClientRegistered(1, "run/1", "", "", (Claim("g0", 10 * GIB),)))
    node.handle(5 * SECOND, ev.LockRequested(1, "g0", Memory()))
    assert node.handle(1 * SECOND, ev.ClientLeft(1)) == [ac.EndTurn(1, "g0", (1 << 32) + 1, 0, "left")]


def test_a_client_registers_once() -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.ClientRegistered(1, "run/1", "", "", ()))
    with pytest.raises(AssertionError, match="a client registers once"):
        node.handle(0, ev.ClientRegistered(1, "run/1", "", "", ()))


def test_a_client_names_a_gpu_once() -> None:
    claim = Claim("g0", 10 * GIB)
    with pytest.raises(AssertionError, match="a client names a GPU once"):
        Node(Settings(), epoch=1).handle(0, ev.ClientRegistered(1, "run/1", "", "", (claim, claim)))


def test_questions_open_at_once_are_bounded() -> None:
    """Client 1 never answers its recall. One question too many, and the oldest is answered as things are."""
    node = pod_of_two()
    for ask in range(1, MOST_ASKS + 1):
        answers = [action for action in node.handle(0, ev.BudgetAsked(2, "g0", ask, GIB)) if _is_answer(action)]
        assert answers == []
    assert node.handle(0, ev.BudgetAsked(2, "g0", MOST_ASKS + 1, GIB)) == [ac.GiveBudget(2, "g0", 0, 1, 0, GIB)]


def _is_answer(action: ac.Action) -> bool:
    return isinstance(action, ac.GiveBudget) and bool(action.ask)


def test_the_earliest_of_many_deadlines_is_next() -> None:
    node = pod_of_two()
    node.handle(0, ev.PodChanged("q", "team/q", limit=8 * GIB))
    for client, budget in ((3, 8 * GIB), (4, 0)):
        claim = Claim("g0", 10 * GIB, limit=8 * GIB, budget=budget)
        node.handle(0, ev.ClientRegistered(client, "pod/q", "q", "", (claim,)))
    assert node.next_deadline() is None
    node.handle(10, ev.BudgetAsked(2, "g0", 1, GIB))
    node.handle(20, ev.BudgetAsked(4, "g0", 1, GIB))
    assert node.next_deadline() == 10 + RECALL
    node.handle(10 + RECALL, ev.AlarmRang())
    assert node.next_deadline() == 20 + RECALL
    node.handle(20 + RECALL, ev.AlarmRang())
    assert node.next_deadline() is None


@pytest.mark.parametrize("seed", range(3))
def test_a_replay_without_checks_ends_in_the_same_state(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance.choice)
    for what in chance.choices(list(HAPPENINGS), list(HAPPENINGS.values()), k=500):
        getattr(world, what)(chance.choice)
    assert snapshot(world.replay(), world.now) == snapshot(world.node, world.now)

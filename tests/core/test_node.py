"""What no story tells well: clocks, bounds, and that checking changes nothing."""

import random
from typing import NoReturn

import pytest

from core.happenings import HAPPENINGS
from core.world import World
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.client import Client
from nvshare.core.limits.budget_questions import MAX_QUESTIONS, MAX_QUESTIONS_OF_ONE
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot

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


@pytest.mark.parametrize(
    ("clients", "most"), [(1, MAX_QUESTIONS_OF_ONE), (MAX_QUESTIONS // MAX_QUESTIONS_OF_ONE, MAX_QUESTIONS)]
)
def test_questions_open_at_once_are_bounded(clients: int, most: int) -> None:
    """Client 1 never answers its recall. One question too many, of a member or of all, is refused at once."""
    node = pod_of_two()
    for client in range(3, clients + 2):
        claim = Claim("g0", 10 * GIB, limit=8 * GIB, budget=0)
        node.handle(0, ev.ClientRegistered(client, "pod/p", "p", "", (claim,)))
    for ask in range(1, most + 1):
        asked = node.handle(0, ev.BudgetAsked(2 + ask % clients, "g0", ask, GIB))
        assert [action for action in asked if _is_answer(action)] == []
    refused = node.handle(0, ev.BudgetAsked(2, "g0", most + 1, GIB))
    assert refused == [ac.GiveBudget(2, "g0", 0, most + 1, 0, GIB)]


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


def test_a_changed_limit_does_not_visit_the_clients_of_other_groups() -> None:
    class Visited(dict[int, Client]):
        asked: list[int]

        def __getitem__(self, client: int) -> Client:
            self.asked.append(client)
            return super().__getitem__(client)

        def values(self) -> NoReturn:
            raise AssertionError("all clients are visited")

    node = Node(Settings(), epoch=1)
    for client in range(1, 5):
        group = "run/a" if client < 3 else "run/b"
        node.handle(0, ev.ClientRegistered(client, group, "x", "x", (Claim("g", 16 * GIB),)))
    visited = Visited(node.clients)
    visited.asked = []
    node._limits._clients = visited
    node.handle(1, ev.LimitSet("run/a", GIB))
    assert set(visited.asked) == {1, 2}


@pytest.mark.parametrize("is_first", [True, False], ids=["client first", "GPU first"])
def test_where_nvml_does_not_tell_the_size_what_clients_state_counts(is_first: bool) -> None:
    """Until one states a size the machine's memory counts."""
    node = Node(Settings(), epoch=1, is_paranoid=True)
    found = ev.GpuFound("g0", 64 * GIB, is_assumed=True)
    silent = ev.ClientRegistered(1, "run/1", "", "", (Claim("g0", 0),))
    states = ev.ClientRegistered(2, "run/2", "", "", (Claim("g0", 10 * GIB),))
    sizes = []
    for event in (silent, states, found) if is_first else (found, silent, states):
        node.handle(0, event)
        sizes.append(snapshot(node, 0).gpus[0].total_memory)
    node.handle(0, ev.ClientLeft(2))
    sizes.append(snapshot(node, 0).gpus[0].total_memory)
    first = [0, 10, 10, 10] if is_first else [64, 64, 10, 10]
    assert sizes == [size * GIB for size in first]


def test_what_a_client_reports_of_its_gpu_time_is_counted_for_it() -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.ClientRegistered(1, "run/1", "x", "x", (Claim("g0", GIB),)))
    assert node.handle(1000 * MILLISECOND, ev.GpuTimeReported(1, "g0", first=900, count=100, busy=0b111)) == []
    node.gpus["g0"].turns.gpu_time.divide(2000 * MILLISECOND)
    assert node.clients[1].seats["g0"].gpu_ns == 3 * MILLISECOND


def test_a_client_that_has_said_that_it_moves_no_memory_is_not_asked_for_less() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", 10 * GIB))
    for client in (1, 2):
        node.handle(
            0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g0", 10 * GIB),), moves_memory=True)
        )
        node.handle(0, ev.LockRequested(client, "g0", Memory(swappable=8 * GIB)))
    now = 300 * SECOND
    out = node.handle(now, ev.AlarmRang())
    assert any(isinstance(action, ac.MoveOut) for action in out)
    node.handle(now, ev.MoverReported(1, "g0", "prefetches have no effect"))
    node.handle(now, ev.PauseSet(True, group="run/2"))
    out = node.handle(now, ev.MemoryChanged(1, "g0", Memory()))
    assert not any(isinstance(action, ac.MoveOut) for action in out)


def test_nothing_is_kept_of_clients_that_had_turns_and_left() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", 10 * GIB))
    for client in range(1, 4):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g0", 10 * GIB),)))
        node.handle(0, ev.LockRequested(client, "g0", Memory(swappable=8 * GIB)))
        lock = node.clients[client].seats["g0"].lock
        node.handle(0, ev.LockReleased(client, "g0", lock, again=False))
        assert list(node.gpus["g0"].turns.moves.card_room.ran) == [client]
        node.handle(0, ev.ClientLeft(client))
    assert node.gpus["g0"].turns.moves.card_room.ran == {}

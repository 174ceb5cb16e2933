"""Whom a lowered limit asks to keep memory on the host, and in how many steps."""

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.memory.live_shrink import MAX_PER_STEP
from nvshare.core.model import GIB, MIB, Claim, Memory, Settings
from nvshare.core.node import Node


def group_of(*swappable: int) -> Node:
    """One group on a card; clients 1, 2 … have so much memory."""
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g", 16 * GIB))
    for client, memory in enumerate(swappable, start=1):
        claim = Claim("g", 16 * GIB, memory=Memory(memory))
        node.handle(0, ev.ClientRegistered(client, "run/1", "x", "x", (claim,), holds_memory=True))
    return node


def asked(actions: list[ac.Action]) -> dict[int, int]:
    return {action.client: action.keep for action in actions if isinstance(action, ac.KeepOnHost)}


def test_a_step_asks_a_bounded_number_of_clients_and_the_rest_follows_at_once() -> None:
    node = group_of(*[GIB] * (MAX_PER_STEP + 8))
    first = asked(node.handle(5, ev.LimitSet("run/1", 1)))
    assert len(first) == MAX_PER_STEP
    assert node.next_deadline() == 5
    rest = asked(node.handle(5, ev.AlarmRang()))
    assert sum((first | rest).values()) == (MAX_PER_STEP + 8) * GIB - 1
    assert not first.keys() & rest.keys()
    assert asked(node.handle(5, ev.AlarmRang())) == {}


def test_a_client_that_keeps_memory_goes_on_keeping_it_when_another_has_more() -> None:
    node = group_of(4 * GIB, 3 * GIB)
    assert asked(node.handle(0, ev.LimitSet("run/1", 6 * GIB))) == {1: GIB}
    assert asked(node.handle(1, ev.MemoryChanged(2, "g", Memory(5 * GIB)))) == {2: 2 * GIB}
    assert asked(node.handle(2, ev.MemoryChanged(1, "g", Memory(4 * GIB + MIB)))) == {2: 2 * GIB + MIB}
    assert asked(node.handle(3, ev.MemoryChanged(2, "g", Memory(3 * GIB)))) == {2: MIB}


def test_nobody_is_asked_to_keep_more_than_it_has() -> None:
    node = group_of(4 * GIB, 3 * GIB)
    assert asked(node.handle(0, ev.LimitSet("run/1", 3 * GIB))) == {1: 4 * GIB}
    as_much = Memory(swappable=3 * GIB, unswappable=GIB)
    assert asked(node.handle(1, ev.MemoryChanged(1, "g", as_much))) == {1: 3 * GIB, 2: GIB}


def test_when_all_have_left_nobody_is_asked() -> None:
    node = group_of(4 * GIB)
    assert asked(node.handle(0, ev.LimitSet("run/1", 3 * GIB))) == {1: GIB}
    assert asked(node.handle(1, ev.ClientLeft(1))) == {}


def test_a_client_that_moves_no_memory_is_not_asked_and_the_others_are() -> None:
    node = group_of(4 * GIB, 3 * GIB)
    node.handle(0, ev.MoverReported(1, "g", "switched off"))
    assert asked(node.handle(0, ev.LimitSet("run/1", 6 * GIB))) == {2: GIB}


def test_a_client_that_moves_memory_no_more_keeps_what_it_holds_and_the_others_the_rest_until_it_does_again() -> None:
    node = group_of(4 * GIB, 2 * GIB)
    assert asked(node.handle(0, ev.LimitSet("run/1", 3 * GIB))) == {1: 3 * GIB}
    node.handle(1, ev.MemoryHeld(1, "g", GIB))
    assert asked(node.handle(2, ev.MoverReported(1, "g", "prefetches have no effect"))) == {1: GIB, 2: 2 * GIB}
    assert asked(node.handle(3, ev.LimitSet("run/1", 5 * GIB))) == {2: 0}
    assert asked(node.handle(4, ev.LimitSet("run/1", 2 * GIB))) == {2: 2 * GIB}
    assert asked(node.handle(5, ev.MoverReported(1, "g", ""))) == {1: 2 * GIB}

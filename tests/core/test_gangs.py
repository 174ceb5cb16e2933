"""What a story does not show of gangs."""

from core.priority_stories import BY_A_GANG, EPOCH, SETTINGS
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node

GPUS = ("g0", "g1", "g2")


def test_no_gang_is_left_when_scheduling_is_switched_off() -> None:
    """Not even one of three GPUs."""
    node = Node(Settings(), epoch=1, is_paranoid=True)
    for gpu in GPUS:
        node.handle(0, ev.GpuFound(gpu, 10 * GIB))
    node.handle(0, ev.ClientRegistered(1, "run/1", "x", "x", tuple(Claim(gpu, 10 * GIB) for gpu in GPUS)))
    node.handle(0, ev.ClientRegistered(2, "run/2", "x", "x", (Claim(GPUS[2], 10 * GIB),)))
    node.handle(0, ev.LockRequested(2, GPUS[2], Memory(6 * GIB)))
    for gpu in GPUS:
        node.handle(SECOND, ev.LockRequested(1, gpu, Memory(6 * GIB)))
    assert [list(gang.seats) for gang in node.gangs.all.values()] == [list(GPUS)]
    node.handle(SECOND, ev.SchedulingSwitched(False))
    assert node.gangs.all == {}
    assert {seat.gang for seat in node.clients[1].seats.values()} == {None}


def test_the_quantum_depends_on_who_comes_next_and_not_on_a_gang_that_is_not_ready() -> None:
    """In mode balanced it is short for a newcomer that needs little. P, of two GPUs, is before it in the queue, but not
    first at g1."""
    node = Node(Settings(quantum=QuantumRule(mode="balanced")), epoch=1, is_paranoid=True)
    for gpu in GPUS[:2]:
        node.handle(0, ev.GpuFound(gpu, 100 * GIB))
    for client, gpus, priority in ((1, GPUS[:2], 0), (2, GPUS[:1], 0), (3, GPUS[1:2], 0), (4, GPUS[1:2], 5)):
        claims = tuple(Claim(gpu, 100 * GIB) for gpu in gpus)
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "x", "x", claims, priority=priority))
    node.handle(0, ev.ClientRegistered(5, "run/5", "x", "x", (Claim("g0", 100 * GIB),)))
    node.handle(0, ev.LockRequested(1, "g0", Memory(80 * GIB)))
    node.handle(0, ev.LockRequested(3, "g1", Memory(80 * GIB)))
    node.handle(SECOND, ev.LockRequested(1, "g1", Memory(80 * GIB)))
    node.handle(2 * SECOND, ev.LockRequested(2, "g0", Memory(80 * GIB)))
    node.handle(3 * SECOND, ev.YieldAsked(1))
    node.handle(4 * SECOND, ev.LockReleased(1, "g0", (1 << 32) + 1, True))
    node.handle(5 * SECOND, ev.LockRequested(4, "g1", Memory(80 * GIB)))
    node.handle(6 * SECOND, ev.LockRequested(5, "g0", Memory(20 * GIB)))
    turns = node.gpus["g0"].turns
    assert ([seat.client for seat in turns.queue], list(turns.staying)) == ([1, 5], [2])
    member, newcomer = turns.queue
    expected, of_member = (turns.mode.quantum_ns([turns.seats[2]], seat, 1) for seat in (newcomer, member))
    assert turns.timer.quantum_ns == expected != of_member


def test_nobody_leaves_for_a_gang_where_it_is_held_back() -> None:
    """At g1 it has had enough of the GPU's time."""
    node = Node(SETTINGS, epoch=EPOCH, is_paranoid=True)
    *before, (now, request) = BY_A_GANG
    for at, event in before:
        node.handle(at, event)
    node.gpus["g1"].turns.no_turns.hold_group("run/3")
    drops = [action for action in node.handle(now, request) if isinstance(action, ac.DropLock)]
    assert [(drop.client, drop.gpu, drop.cause) for drop in drops] == [(1, "g0", "priority")]

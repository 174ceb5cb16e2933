"""What a step costs does not grow with the number of clients, but for those who may be blocked, nor with the number of
questions about budget that are open: counted in lines of Python, so that a busy machine gives the same result."""

import gc
from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from core.step_cost import GPUS, MAX_RATIO, calls_of, lines_of, registration
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.compute.look_bits import MOST_APART
from nvshare.core.limits.shared_limit import MAX_PER_STEP
from nvshare.core.model import GIB, MIB, MILLISECOND, SECOND, HostRoom, Memory, ModeName, QuantumRule, Settings
from nvshare.core.node import Node

FEW, MANY = 4 * MAX_PER_STEP, 1000
"""A step does at most MAX_PER_STEP things for a limit; with fewer members it does less."""
ASKERS, FEW_QUESTIONS, MANY_QUESTIONS = 16, 4 * MAX_PER_STEP, 4000
"""How many clients have asked for budget, and how many of their questions are open."""
MOST_CALLS = 45
"""Of Python functions in the core for a hand-over: 81 when parts that have nothing to decide were asked too."""


def do_all(node: Node) -> None:
    """What is due at once."""
    while (deadline := node.next_deadline()) is not None and deadline <= SECOND:
        node.handle(SECOND, ev.AlarmRang())


def crowd(
    members: int, *, gpus: int = 1, per_client: int = 1, limit: int = 0, mode: ModeName = "auto", fixed: int = 0
) -> Node:
    """Clients that each use some memory of some GPUs, and wait for the locks of the first ones."""
    node = Node(Settings(quantum=QuantumRule(mode=mode)), epoch=1)
    for gpu in GPUS[:gpus]:
        node.handle(0, ev.GpuFound(gpu, 16 * GIB))
    for client in range(1, members + 1):
        its = tuple(GPUS[(client + i) % gpus] for i in range(per_client))
        node.handle(SECOND, registration(client, its))
        for gpu in its:
            node.handle(SECOND, ev.LockRequested(client, gpu, Memory(15 * GIB, fixed, int(fixed > 0))))
    if limit:
        node.handle(SECOND, ev.LimitSet("run/1", limit))
    do_all(node)
    return node


def pinned_crowd(members: int, pinned: int) -> Node:
    """The same, and the host cannot take the memory of some that have had a turn."""
    node = crowd(members)
    node.handle(SECOND, ev.HostMemoryMeasured(tuple(HostRoom(client, "g0", 0) for client in range(1, pinned + 1))))
    do_all(node)
    return node


def asking_crowd(questions: int) -> Node:
    """Questions are open of clients that are not measured themselves, because nobody answers a recall."""
    node = crowd(FEW, limit=8 * GIB)
    for number in range(questions):
        node.handle(SECOND, ev.BudgetAsked(2 + number % ASKERS, "g0", number + 2, 5 * GIB))
        do_all(node)
    assert node.groups["run/1"].limits["g0"].questions.open == questions
    return node


CROWDS: dict[str, Callable[[int], Node]] = {
    "without a limit": lambda n: crowd(n),
    "under their limit": lambda n: crowd(n, limit=n * 16 * GIB),
    "a little over their limit": lambda n: crowd(n, limit=n * 15 * GIB - GIB),
    "far over their limit": lambda n: crowd(n, limit=8 * GIB),
    "with unswappable memory": lambda n: crowd(n, fixed=GIB),
    "in mode adaptive": lambda n: crowd(n, mode="adaptive"),
    "in mode balanced": lambda n: crowd(n, mode="balanced"),
    "of eight GPUs": lambda n: crowd(n, gpus=8, limit=8 * GIB),
    "in gangs of two GPUs": lambda n: crowd(n, gpus=2, per_client=2, limit=8 * GIB),
    "in gangs of many GPUs": lambda n: crowd(n, gpus=8, per_client=3),
}

PINNED_CROWDS: dict[str, Callable[[int], Node]] = {
    "blocked by the holder's memory": lambda n: pinned_crowd(n, 1),
    "whose memory the host cannot take": lambda n: pinned_crowd(n, n),
}
"""Each step asks of each client that waits whether it is blocked (core.queue.blocking)."""

STEPS: tuple[tuple[str, Callable[[int, str, int], ev.Event]], ...] = (
    ("is there", lambda client, gpu, lock: ev.ClientHeard(client)),
    ("reports more memory", lambda client, gpu, lock: ev.MemoryChanged(client, gpu, Memory(15 * GIB + MIB))),
    ("reports no memory", lambda client, gpu, lock: ev.MemoryChanged(client, gpu, Memory(0))),
    ("reports too much memory", lambda client, gpu, lock: ev.MemoryChanged(client, gpu, Memory(0, 200 * GIB, 1))),
    ("asks for a lock", lambda client, gpu, lock: ev.LockRequested(client, gpu, Memory(15 * GIB))),
    ("has finished its work", lambda client, gpu, lock: ev.WorkFinished(client, gpu)),
    ("works again", lambda client, gpu, lock: ev.WorkResumed(client, gpu)),
    ("has moved memory", lambda client, gpu, lock: ev.MemoryMoved(client, gpu, True, GIB, 1000)),
    ("has made room", lambda client, gpu, lock: ev.RoomMade(client, gpu, GIB)),
    ("says whether it moves memory", lambda client, gpu, lock: ev.MoverReported(client, gpu, "switched off")),
    ("keeps memory on the host", lambda client, gpu, lock: ev.MemoryHeld(client, gpu, GIB)),
    ("has a working set", lambda client, gpu, lock: ev.WorkingSetReported(client, gpu, GIB)),
    ("uses collectives", lambda client, gpu, lock: ev.CollectivesUsed(client)),
    ("has let one submission through", lambda client, gpu, lock: ev.LetFinished(client, gpu)),
    ("reports its GPU time", lambda client, gpu, lock: ev.GpuTimeReported(client, gpu, 900, 100, 7)),
    ("says what its memory is", lambda client, gpu, lock: ev.MemoryModeReported(client, "checkpoint")),
    ("wants a core limit", lambda client, gpu, lock: ev.CoreLimitWanted(client, 30)),
    ("has slow work", lambda client, gpu, lock: ev.WorkSlowed(client, gpu, 4)),
    ("asks for budget", lambda client, gpu, lock: ev.BudgetAsked(client, gpu, 1, 5 * GIB)),
    ("returns budget", lambda client, gpu, lock: ev.BudgetReturned(client, gpu, 1, 15 * GIB, 15 * GIB)),
    ("releases its lock and wants another", lambda client, gpu, lock: ev.LockReleased(client, gpu, lock, True)),
    ("is told to yield", lambda client, gpu, lock: ev.YieldAsked(client)),
    ("is silent", lambda client, gpu, lock: ev.ClientSilent(client)),
    ("ends", lambda client, gpu, lock: ev.ClientLeft(client)),
    ("comes back", lambda client, gpu, lock: registration(client, (gpu,))),
)


def costs_of(node: Node, client: int) -> dict[str, int]:
    """What each kind of step costs, one after the other; what it leads to at once is done after each."""
    costs = {}
    gpu, seat = next(iter(node.clients[client].seats.items()))
    for name, make in STEPS:
        event = make(client, gpu, seat.lock)
        costs[name] = lines_of(lambda it=event: (node.handle(SECOND, it), node.next_deadline()))  # type: ignore[misc]
        do_all(node)
    return costs


def test_every_event_of_a_client_is_measured() -> None:
    of_clients = {kind for kind in ev.Event.__subclasses__() if "client" in kind.__struct_fields__}
    assert {type(make(1, "g0", 0)) for _, make in STEPS} == of_clients


@pytest.mark.parametrize("client", [1, FEW], ids=["holder", "waiter"])
@pytest.mark.parametrize("which", CROWDS)
def test_a_step_costs_the_same_with_a_thousand_clients(which: str, client: int) -> None:
    few, many = (costs_of(CROWDS[which](members), client) for members in (FEW, MANY))
    assert {name: (few[name], many[name]) for name in few if many[name] > MAX_RATIO * few[name]} == {}


@pytest.mark.parametrize("client", [1, FEW], ids=["holder", "waiter"])
def test_a_step_costs_the_same_with_thousands_of_open_questions(client: int) -> None:
    few, many = (costs_of(asking_crowd(questions), client) for questions in (FEW_QUESTIONS, MANY_QUESTIONS))
    assert {name: (few[name], many[name]) for name in few if many[name] > MAX_RATIO * few[name]} == {}


def test_the_end_of_a_client_that_has_asked_costs_as_much_for_each_of_its_questions() -> None:
    nodes = asking_crowd(FEW_QUESTIONS), asking_crowd(MANY_QUESTIONS)
    few, many = (lines_of(lambda it=node: it.handle(SECOND, ev.ClientLeft(2))) for node in nodes)  # type: ignore[misc]
    assert many <= 1.25 * MANY_QUESTIONS / FEW_QUESTIONS * few


@pytest.mark.parametrize("client", [1, FEW], ids=["holder", "waiter"])
@pytest.mark.parametrize("which", PINNED_CROWDS)
def test_a_step_that_may_block_all_costs_as_much_for_each_of_them(which: str, client: int) -> None:
    few, many = (costs_of(PINNED_CROWDS[which](members), client) for members in (FEW, MANY))
    most = 1.25 * MANY / FEW
    assert {name: (few[name], many[name]) for name in few if many[name] > most * few[name]} == {}


def test_a_step_costs_the_same_after_a_day_without_a_message() -> None:
    def release_after(silence_ns: int) -> int:
        node = crowd(1)
        holder = next(iter(node.gpus["g0"].turns.staying.values()))
        release = ev.LockReleased(holder.client, "g0", holder.lock, True)
        return lines_of(lambda: node.handle(SECOND + silence_ns, release))

    assert release_after(86_400 * SECOND) <= MAX_RATIO * release_after(10 * SECOND)


def test_collections_of_garbage_are_not_counted() -> None:
    """They come in any step, and Hypothesis measures them with a Python function."""

    def make_many() -> None:
        [[] for _ in range(5000)]

    def note(phase: str, info: dict[str, int]) -> None:
        phases.append(phase)

    phases: list[str] = []
    usual = lines_of(make_many)
    gc.callbacks.append(note)
    try:
        assert lines_of(make_many) == usual
    finally:
        gc.callbacks.remove(note)


def test_a_step_that_looks_at_everybody_is_found() -> None:
    def look_at_all(members: int) -> None:
        for _ in range(members):
            pass

    few, many = (lines_of(lambda n=members: look_at_all(n)) for members in (FEW, MANY))  # type: ignore[misc]
    assert many > MAX_RATIO * few


def test_a_hand_over_calls_few_functions() -> None:
    node = crowd(FEW)
    holder = next(iter(node.gpus["g0"].turns.staying.values()))
    release = ev.LockReleased(holder.client, "g0", holder.lock, True)
    given: list[ac.Action] = []

    def hand_over() -> None:
        given.extend(node.handle(SECOND, release))
        node.next_deadline()

    calls = calls_of(hand_over)
    assert any(isinstance(action, ac.GiveLock) for action in given), "somebody else has the lock"
    assert calls <= MOST_CALLS, calls


def weighted(clients: int, changing: bool) -> Node:
    """Side by side with policy fair, each of another weight; busy at random looks, or always."""
    node, chance = Node(Settings(policy="fair"), epoch=1), Random(1)
    node.handle(0, ev.GpuFound("g0", 16 * GIB))
    for client in range(1, clients + 1):
        node.handle(0, replace(registration(client, ("g0",)), weight=client))
        node.handle(0, ev.LockRequested(client, "g0", Memory(0)))
    for client in range(1, clients + 1):
        busy = chance.getrandbits(250) if changing else (1 << 250) - 1
        node.handle(SECOND // 4, ev.GpuTimeReported(client, "g0", 0, 250, busy))
    return node


def test_weights_cost_the_same_however_often_clients_change() -> None:
    nodes = weighted(MOST_APART, False), weighted(MOST_APART, True)
    steady, changing = (lines_of(lambda it=node: it.handle(SECOND // 2, ev.AlarmRang())) for node in nodes)  # type: ignore[misc]
    assert changing <= 1.5 * steady


def test_leads_are_not_looked_at_for_every_event() -> None:
    """One client pauses and goes on every millisecond, while nothing else changes."""
    node = weighted(MOST_APART, True)

    def toggle(look: int) -> None:
        event = ev.WorkFinished if look % 2 else ev.WorkResumed
        node.handle(SECOND // 2 + look * MILLISECOND, event(1, "g0"))

    costs = [lines_of(lambda it=look: toggle(it)) for look in range(40)]  # type: ignore[misc]
    assert sum(costs) / len(costs) < max(costs) / 4

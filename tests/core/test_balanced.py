"""Mode balanced: its rules, and what a node does by them."""

import pytest

from nvshare.core import events as ev
from nvshare.core.actions import DropLock, GiveLock
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import GIB, MIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.modes.balanced import Balanced
from nvshare.core.node import Node
from nvshare.core.turns.seat import Seat

CAPACITY = 16 * GIB
EARLIER_NS = 3600 * SECOND
"""For how long clients have held the GPU before the turn of a test."""


def seat(client: int, gib: float) -> Seat:
    one = Seat(client, 0, 100)
    one.memory = Memory(swappable=int(gib * GIB))
    one.need = one.memory.swappable
    return one


def mode(move_s: float | None = 0.2) -> Balanced:
    """On a card of 16 GiB whose cost of a move is known, or (None) is not."""
    memory = MemoryPlanner(Settings())
    memory.set_size(CAPACITY, measured=True)
    rules = Balanced(QuantumRule(mode="balanced"), Settings(), memory)
    if move_s is not None:
        rules.habits.cost.set_measured(round(move_s * SECOND))
    return rules


def known(
    rules: Balanced, client: int, gib: float, *, turn_s: int = 50, duty: float = 0.6, releases: bool = False
) -> Seat:
    """A client that had a turn, and brings nothing in at present."""
    one = seat(client, gib)
    rules.turn_began(0, one)
    one.turn_ended(turn_s * SECOND)
    one.held_total += EARLIER_NS
    rules.turn_ended(turn_s * SECOND, one)
    if releases:
        rules.released_without_work(one)
    habit = rules.habits.of(one)
    assert habit is not None
    habit.loaded = habit.turn_loaded = 0
    habit.worked, habit.paused = duty * 1000 * SECOND, (1 - duty) * 1000 * SECOND
    return one


def quantum_s(rules: Balanced, running: Seat, head: Seat) -> float:
    return rules.quantum_ns([running], head, 0) / SECOND


@pytest.mark.parametrize(
    ("gib", "move_s", "wanted_s"),
    [
        (8, 0.02, 40),  # 5 s for a GiB, as in mode auto
        (8, 0.2, 40),
        (8, 1.0, 200),  # 25 times what moving it costs
        (8, 3.0, 300),
        (0.1, 0.02, 5),
    ],
)
def test_a_turn_is_in_proportion_to_memory_and_longer_where_moving_is_slow(
    gib: float, move_s: float, wanted_s: float
) -> None:
    rules = mode(move_s)
    head = known(rules, 1, 12)
    assert quantum_s(rules, known(rules, 2, gib), head) == wanted_s


def test_a_newcomer_waits_12_times_as_long_as_its_switch_takes() -> None:
    rules = mode()
    assert quantum_s(rules, known(rules, 2, 12), seat(1, 8)) == pytest.approx(12 * 4 * 0.2)


@pytest.mark.parametrize(
    ("pause_s", "wanted_s"),
    [
        (0, 12 * 1.6),  # two switches of 0.8 s each
        (1, 12 * 0.6),
        (10, 2),  # its pause is longer than both: at once
    ],
)
def test_a_client_that_releases_without_work_is_admitted_the_sooner_the_longer_it_pauses(
    pause_s: int, wanted_s: float
) -> None:
    rules = mode()
    head = known(rules, 1, 8, turn_s=1, releases=True)
    running = known(rules, 2, 12)
    if pause_s:
        head.pause_ended(pause_s * SECOND)
    assert quantum_s(rules, running, head) == pytest.approx(wanted_s)


def test_a_client_that_works_for_long_is_not_admitted_sooner_than_that() -> None:
    """Two programs that work for 20 s and pause for 20 s would otherwise interrupt each other all the time."""
    rules = mode()
    head = known(rules, 1, 8, turn_s=20, releases=True)
    head.pause_ended(20 * SECOND)
    assert quantum_s(rules, known(rules, 2, 12), head) == 20


@pytest.mark.parametrize(
    ("visit_s", "releases", "wanted_s"),
    [
        (15, True, 30),  # as long as it worked in its last turn, and as long again
        (25, True, 50),
        (40, True, 60),  # but no longer than any turn of 12 GiB
        (41, True, 20),  # more than twice as long as the other works: it is interrupted
        (15, False, 20),  # it always has work
    ],
)
def test_a_visitor_that_runs_finishes_its_work_before_another_one_comes(
    visit_s: int, releases: bool, wanted_s: float
) -> None:
    rules = mode()
    head = known(rules, 1, 8, turn_s=20, releases=True)
    head.pause_ended(20 * SECOND)
    running = known(rules, 2, 12, turn_s=visit_s, releases=releases)
    rules.turn_began(200 * SECOND, running)
    running.lock = 7
    habit = rules.habits.of(running)
    assert habit is not None
    habit.loaded = habit.turn_loaded = 0
    assert quantum_s(rules, running, head) == wanted_s


def test_a_client_that_always_has_work_does_not_wait_longer_for_a_visitor() -> None:
    rules = mode()
    running = known(rules, 2, 1, turn_s=100, releases=True)
    rules.turn_began(200 * SECOND, running)
    running.lock = 7
    assert quantum_s(rules, running, known(rules, 1, 8)) == 5


def test_half_of_a_turn_is_work() -> None:
    """The running client had to bring in 12 GiB."""
    rules = mode(1.0)
    head = known(rules, 1, 8, turn_s=1, releases=True)
    head.pause_ended(100 * SECOND)
    running = seat(2, 12)
    rules.turn_began(0, running)
    assert quantum_s(rules, running, head) == 2 * 12
    rules.pause_began(20 * SECOND, running)
    assert quantum_s(rules, running, head) == 2, "the stretch with the load is over"


def test_a_program_that_never_pauses_has_turns_as_long_as_its_present_load_needs() -> None:
    """What it loaded in earlier turns does not count, although they belong to the same stretch of work."""
    rules = mode(1.0)
    head = known(rules, 1, 8, turn_s=1, releases=True)
    head.pause_ended(100 * SECOND)
    running = seat(2, 12)
    for turn in range(20):
        rules.turn_began(turn * 100 * SECOND, running)
        assert quantum_s(rules, running, head) == (2 * 12 if not turn else 2 * 4)
        rules.turn_ended((turn * 100 + 50) * SECOND, running)
        rules.turn_began((turn * 100 + 50) * SECOND, head)  # 4 GiB of the other go
        head.held_since = (turn * 100 + 50) * SECOND
        rules.turn_ended((turn * 100 + 51) * SECOND, head)
        rules.released_without_work(head)


def test_until_the_cost_is_known_newcomers_come_soon_and_turns_are_otherwise_as_long_as_for_the_slowest_card() -> None:
    rules = mode(None)
    assert quantum_s(rules, known(rules, 2, 1), seat(1, 1)) == 2
    assert quantum_s(rules, known(rules, 2, 12), known(rules, 1, 12)) == 300  # 25 * 5 s * 12, at most 300 s
    assert quantum_s(rules, known(rules, 2, 12), seat(3, 12)) == pytest.approx(12 * 9 * 0.2)  # 9 GiB of others go
    assert rules.quantum_ns([seat(2, 1)], None, 0) == 10 * SECOND


def test_what_nobody_has_seen_work_counts_as_loaded() -> None:
    assert mode().habits.loaded(seat(1, 4)) == 0


def test_long_turns_and_much_work_come_later() -> None:
    rules = mode()
    assert rules.lag_ns(seat(9, 1)) == 0
    lags = [
        rules.lag_ns(known(rules, 1, 8, turn_s=turn_s, duty=duty)) / SECOND
        for turn_s, duty in [(10, 0.6), (20, 0.6), (10, 0.3), (300, 0.9)]
    ]
    assert lags == pytest.approx([120, 240, 60, 300], rel=0.01)
    assert rules.longest_lag_ns == 300 * SECOND


@pytest.mark.parametrize(("held_s", "wanted_s"), [(10, 40), (20, 80), (1000, 300)])
def test_a_client_that_had_little_in_all_is_admitted_soon_although_it_always_computes(
    held_s: int, wanted_s: float
) -> None:
    rules = mode()
    one = known(rules, 1, 8, turn_s=1000, duty=0.95)
    one.held_total = held_s * SECOND
    assert rules.lag_ns(one) == wanted_s * SECOND


@pytest.mark.parametrize(
    ("pauses_s", "pays_s"),
    [
        ((), 100.8),  # nothing known: when it has been idle for as long as the switch takes
        ((0.5, 0.5), 100.8),
        ((5, 5, 5), 100),  # it will be away for longer than that
    ],
)
def test_an_idle_holder_goes_if_its_pause_is_longer_than_the_switch_and_otherwise_after_it(
    pauses_s: tuple[float, ...], pays_s: float
) -> None:
    rules = mode()
    idle = known(rules, 1, 12)
    idle.idle_since = 100 * SECOND
    for pause_s in pauses_s:
        idle.pause_ended(int(pause_s * SECOND))
    assert times(rules, idle, 1.0) == [pytest.approx(pays_s * SECOND)]


@pytest.mark.parametrize(
    ("left", "pays_s"),
    [
        (1.0, 100.8),
        (0.5, 100),  # its pause of half a second is longer than what is left to lose
        (0.75, 100.6),
        (0.0, 100),  # the turn is over anyway
    ],
)
def test_an_idle_holder_goes_the_sooner_the_less_is_left_of_its_turn(left: float, pays_s: float) -> None:
    rules = mode()
    idle = known(rules, 1, 12)
    idle.idle_since = 100 * SECOND
    idle.pause_ended(SECOND // 2)
    assert times(rules, idle, left) == [pytest.approx(pays_s * SECOND)]


def test_until_a_cost_is_known_an_idle_holder_keeps_its_lock_late_in_its_turn_too() -> None:
    """Otherwise every stretch of work brings memory in, and the cost is never learned."""
    rules = mode(None)
    idle = known(rules, 1, 12)
    idle.idle_since = 100 * SECOND
    assert times(rules, idle, 0.0) == times(rules, idle, 1.0) == [120 * SECOND]  # 4 GiB, at most 5 s each


def times(rules: Balanced, idle: Seat, left: float) -> list[int]:
    """When it loses its lock for a client of 8 GiB, if this part of its turn was left when it paused."""
    return rules.idle_preempt_times(100 * SECOND, seat(2, 8), [idle], lambda at: left * (at == 100 * SECOND))


def test_a_node_in_this_mode_hands_over_to_a_client_that_visits() -> None:
    node = Node(Settings(quantum=QuantumRule(mode="balanced"), reserve_percent=0), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g", 10 * GIB))
    for client in (1, 2):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g", 10 * GIB),)))
    turns = node.gpus["g"].turns
    assert turns.timer.left(0) == 0, "nobody runs"
    node.handle(0, ev.LockRequested(1, "g", Memory(swappable=8 * GIB)))
    node.handle(SECOND, ev.MemoryMoved(1, "g", to_host=False, moved=512 * MIB, took_ns=SECOND // 10))
    node.handle(SECOND, ev.LockRequested(2, "g", Memory(swappable=4 * GIB)))
    assert turns.timer.quantum_ns == pytest.approx(12 * 2 * 0.2 * SECOND)  # 2 GiB go for the newcomer
    assert turns.timer.left(0) == 1
    assert turns.timer.left(turns.timer.quantum_ns // 4) == pytest.approx(0.75)
    assert turns.timer.left(2 * turns.timer.quantum_ns) == 0
    out = node.handle(turns.timer.quantum_ns, ev.AlarmRang())
    assert [action.client for action in out if isinstance(action, DropLock)] == [1]


def test_two_that_fit_together_come_in_together_when_a_third_leaves() -> None:
    node = Node(Settings(quantum=QuantumRule(mode="balanced"), reserve_percent=0), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g", 20 * GIB))
    for client, gib in ((1, 18), (2, 14), (3, 4)):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g", 20 * GIB),)))
        node.handle(client, ev.LockRequested(client, "g", Memory(swappable=gib * GIB)))
    assert list(node.gpus["g"].turns.staying) == [1]
    out = node.handle(SECOND, ev.ClientLeft(1))
    assert [action.client for action in out if isinstance(action, GiveLock)] == [2, 3]


def test_with_the_speed_of_the_link_a_cost_is_known_before_any_move() -> None:
    """A newcomer waits by the speed of the link, and an idle holder loses the lock early near its turn's end."""
    memory = MemoryPlanner(Settings())
    memory.set_size(CAPACITY, measured=True)
    memory.link_bytes_per_s = 10 * GIB
    rules = Balanced(QuantumRule(mode="balanced"), Settings(), memory)
    assert quantum_s(rules, known(rules, 2, 12), seat(1, 8)) == pytest.approx(12 * 4 * 0.1)
    idle = known(rules, 3, 12)
    idle.idle_since = 100 * SECOND
    assert times(rules, idle, left=0.5) == [100 * SECOND + 4 * SECOND // 10]

"""Mode adaptive: its rules, and what a node does by them."""

import pytest

from nvshare.core import events as ev
from nvshare.core.actions import Action, DropLock, GiveLock, TellContended
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.modes.adaptive import Adaptive
from nvshare.core.node import Node
from nvshare.core.turns.seat import Seat

CAPACITY = 10 * GIB
RULE = QuantumRule(mode="adaptive")


def seat(client: int, gib: float) -> Seat:
    one = Seat(client, 0, 100)
    one.memory = Memory(swappable=int(gib * GIB))
    one.need = one.memory.swappable
    return one


def mode() -> Adaptive:
    return Adaptive(RULE, Settings(), MemoryPlanner(Settings()))


def quantum_s(rules: Adaptive, head: Seat, running: list[Seat], *, switch_s: float, newcomers: int = 0) -> float:
    quantum = rules.quantum_before(head, running, switch_ns=int(switch_s * SECOND), newcomers=newcomers)
    return quantum / SECOND


def veteran(
    rules: Adaptive, client: int, gib: float, *, turn_s: int, duty: float, releases_without_work: bool = False
) -> Seat:
    """A client that is known well."""
    one = seat(client, gib)
    rules.habits.turn_began(0, one, CAPACITY)
    rules.turn_ended(turn_s * SECOND, one)
    if releases_without_work:
        rules.released_without_work(one)
    habit = rules.habits.of(one)
    assert habit is not None
    habit.worked, habit.paused = duty * 1000 * SECOND, (1 - duty) * 1000 * SECOND
    return one


@pytest.mark.parametrize(("gib", "wanted_s"), [(1, 25), (4, 100), (10, 250), (40, 375)])
def test_a_turn_lasts_125_times_as_long_as_moving_the_running_memory(gib: int, wanted_s: float) -> None:
    """At the first guess of 0.2 s a GiB; at most five quarters of the longest quantum."""
    rules = mode()
    head = veteran(rules, 1, 8, turn_s=50, duty=0.9)
    assert quantum_s(rules, head, [seat(2, gib)], switch_s=1) == wanted_s


def test_a_turn_is_no_shorter_than_in_mode_auto() -> None:
    rules = mode()
    head = veteran(rules, 1, 8, turn_s=50, duty=0.9)
    rules.habits.cost.set_measured(SECOND // 100)
    assert quantum_s(rules, head, [seat(2, 10)], switch_s=1) == 50
    assert quantum_s(rules, head, [seat(2, 0.1)], switch_s=1) == 10


@pytest.mark.parametrize(
    ("switch_s", "newcomers", "wanted_s"),
    [
        (2, 1, 80),  # forty times what the switch costs
        (20, 4, 250),  # but all newcomers together wait for 1000 s only
        (20, 100, 160),  # unless switching then cost more than an eighth
        (100, 1, 250),  # and never longer than a known one waits
        (0, 1, 10),
    ],
)
def test_a_newcomer_waits_less_than_one_that_is_known(switch_s: int, newcomers: int, wanted_s: int) -> None:
    assert quantum_s(mode(), seat(1, 8), [seat(2, 10)], switch_s=switch_s, newcomers=newcomers) == wanted_s


@pytest.mark.parametrize(
    ("pause_s", "wanted_s"),
    [
        (0, 132),  # two switches of 2 s are 3 % of this
        (3, 33),  # a pause of 3 s pays for most of them
        (10, 20),  # for all of them: twice as long as its own turn
    ],
)
def test_a_client_that_releases_without_work_is_admitted_as_soon_as_its_visit_pays(pause_s: int, wanted_s: int) -> None:
    rules = mode()
    head = veteran(rules, 1, 8, turn_s=10, duty=0.6, releases_without_work=True)
    if pause_s:
        head.pause_ended(pause_s * SECOND)
    assert quantum_s(rules, head, [seat(2, 10)], switch_s=2) == wanted_s


@pytest.mark.parametrize(("duty", "wanted_s"), [(0.2, 125), (0.8, 250), (0.9, 250)])
def test_a_client_of_little_duty_waits_less_for_those_of_more(duty: float, wanted_s: float) -> None:
    rules = mode()
    running = veteran(rules, 2, 10, turn_s=50, duty=0.8)
    head = veteran(rules, 1, 8, turn_s=50, duty=duty)
    assert quantum_s(rules, head, [running], switch_s=2) == pytest.approx(wanted_s, rel=0.01)


def test_long_turns_and_much_work_come_later() -> None:
    rules = mode()
    assert rules.lag_ns(seat(9, 1)) == 0
    lags = [
        rules.lag_ns(veteran(rules, 1, 8, turn_s=turn_s, duty=duty)) / SECOND
        for turn_s, duty in [(10, 0.6), (20, 0.6), (10, 0.3), (300, 0.9)]
    ]
    assert lags == pytest.approx([120, 240, 30, 900], rel=0.01)
    assert rules.longest_lag_ns == 900 * SECOND


def idler(*pauses_s: float) -> Seat:
    one = seat(1, 8)
    one.idle_since = 100 * SECOND
    for pause_s in pauses_s:
        one.pause_ended(int(pause_s * SECOND))
    return one


@pytest.mark.parametrize(
    ("pauses_s", "now_s", "pays_s"),
    [
        ((), 100, 102),  # nothing known: as long as the switch costs
        ((5, 5, 5), 100, 100),  # it will be away for longer than that
        ((5, 5, 5), 104, 107),  # it will be back soon, unless it is away longer than ever, and as long as it costs
        ((1, 1, 3), 100, 105),
    ],
)
def test_an_idle_holder_goes_if_the_rest_of_its_pause_pays(
    pauses_s: tuple[float, ...], now_s: int, pays_s: int
) -> None:
    assert mode().idle_preempt_time(now_s * SECOND, idler(*pauses_s), 2 * SECOND) == pays_s * SECOND


def test_a_cheap_switch_is_made_at_once() -> None:
    assert mode().idle_preempt_time(100 * SECOND, idler(0.01), Settings().cheap_switch_ns) == 100 * SECOND


def test_as_long_as_nothing_is_known_a_switch_is_taken_to_be_expensive() -> None:
    rules, one = mode(), seat(1, 8)
    assert rules.switch_ns(one, 5 * GIB) == 5 * SECOND
    rules.habits.turn_began(0, one, CAPACITY)
    rules.pause_began(SECOND, one)
    assert rules.switch_ns(one, 5 * GIB) == 5 * SECOND  # it brought its memory in: not usual
    rules.work_resumed(2 * SECOND, one)
    rules.pause_began(3 * SECOND, one)
    assert rules.switch_ns(one, 5 * GIB) == SECOND
    rules.habits.cost.note(6 * GIB, 3 * SECOND, SECOND // 10)
    assert rules.switch_ns(seat(2, 8), 5 * GIB) == pytest.approx(2.5 * SECOND, rel=0.02)


def test_a_client_that_has_worked_longest_in_its_turn_leaves_first() -> None:
    rules, one, two = mode(), seat(1, 4), seat(2, 4)
    rules.habits.turn_began(0, one, CAPACITY)
    rules.habits.turn_began(SECOND, two, CAPACITY)
    assert rules.leaving_order(2 * SECOND, [one, two]) == [one, two]
    rules.pause_began(2 * SECOND, one)
    assert rules.leaving_order(9 * SECOND, [one, two]) == [two, one]


class Story:
    """A node of one 10 GiB card without context cost, and clients that ask for 8 GiB."""

    def __init__(self, *, mode: str = "adaptive") -> None:
        rule = QuantumRule(mode=mode)  # type: ignore[arg-type]
        self.node = Node(Settings(quantum=rule, reserve_percent=0), epoch=1, is_paranoid=True)
        self.tell(0, ev.GpuFound("g", 10 * GIB))

    def tell(self, now_s: float, event: ev.Event) -> list[Action]:
        return self.node.handle(int(now_s * SECOND), event)

    def join(self, client: int) -> None:
        self.tell(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g", 10 * GIB),)))

    def ask(self, now_s: float, client: int, gib: int = 8) -> int:
        """The lock it got at once; 0 if it waits."""
        actions = self.tell(now_s, ev.LockRequested(client, "g", Memory(swappable=gib * GIB)))
        return next((action.lock for action in actions if isinstance(action, GiveLock)), 0)


def drops(actions: list[Action]) -> list[int]:
    return [action.client for action in actions if isinstance(action, DropLock)]


def test_a_holder_known_for_short_pauses_goes_when_one_is_long() -> None:
    story = Story()
    story.join(1)
    story.join(2)
    story.ask(0, 1)
    assert story.ask(1, 2) == 0
    for begin in (2, 4, 6):
        assert drops(story.tell(begin, ev.WorkFinished(1, "g"))) == []
        story.tell(begin + 0.5, ev.WorkResumed(1, "g"))
    assert drops(story.tell(8, ev.WorkFinished(1, "g"))) == []
    deadline = story.node.next_deadline()
    assert deadline is not None
    assert deadline == pytest.approx(9.7 * SECOND, abs=SECOND // 100)  # its usual half second, and 1.2 s for 6 GiB
    assert drops(story.tell(9.8, ev.AlarmRang())) == [1]


def test_a_holder_known_for_long_pauses_goes_at_once() -> None:
    story = Story()
    story.join(1)
    story.join(2)
    story.ask(0, 1)
    story.ask(1, 2)
    assert drops(story.tell(2, ev.WorkFinished(1, "g"))) == []
    story.tell(7.9, ev.WorkResumed(1, "g"))
    assert drops(story.tell(9, ev.WorkFinished(1, "g"))) == [1]


def test_holders_report_their_pauses_as_soon_as_not_all_fit_although_nobody_waits() -> None:
    story = Story()
    story.join(1)
    story.join(2)
    lock = story.ask(0, 1, gib=6)
    story.ask(1, 2, gib=6)
    told = story.tell(20, ev.LockReleased(1, "g", lock, again=False))
    assert [(action.client, action.contended) for action in told if isinstance(action, GiveLock)] == [(2, True)]
    assert not story.node.gpus["g"].turns.queue.order
    told = story.tell(21, ev.ClientLeft(1))
    assert [(action.client, action.contended) for action in told if isinstance(action, TellContended)] == [(2, False)]


def test_the_quantum_follows_the_queue() -> None:
    story = Story()
    for client in (1, 2, 3):
        story.join(client)
    lock = story.ask(0, 1)
    gpu = story.node.gpus["g"].turns
    assert gpu.timer.quantum_ns == 10 * SECOND  # nobody waits: the least
    story.ask(1, 2)
    assert gpu.queue.newcomers == 1
    assert gpu.timer.quantum_ns == 48 * SECOND  # forty times 1.2 s for a newcomer
    story.ask(2, 3)
    assert gpu.queue.newcomers == 2
    assert drops(story.tell(49, ev.AlarmRang())) == [1]
    story.tell(49, ev.LockReleased(1, "g", lock, again=True))
    assert gpu.queue.newcomers == 1


def test_long_turns_go_behind_short_ones() -> None:
    story = Story()
    for client in (1, 2, 3):
        story.join(client)
    lock = story.ask(0, 1)
    story.ask(1, 2)
    story.tell(100, ev.LockReleased(1, "g", lock, again=True))  # a turn of 100 s: its place counts from 1000 s
    story.ask(200, 3)
    given = story.tell(210, ev.LockReleased(2, "g", lock + 1, again=False))
    assert [action.client for action in given if isinstance(action, GiveLock)] == [3]
    story.tell(211, ev.ClientLeft(3))
    assert [seat.client for seat in story.node.gpus["g"].turns.staying.values()] == [1]


def test_the_mode_may_change_while_programs_run() -> None:
    story = Story(mode="auto")
    story.join(1)
    story.join(2)
    lock = story.ask(0, 1)
    story.ask(1, 2)
    turns = story.node.gpus["g"].turns
    story.tell(2, ev.ModeSet("adaptive"))
    learned = turns.mode
    story.tell(3, ev.WorkFinished(1, "g"))
    story.tell(4, ev.WorkResumed(1, "g"))
    story.tell(5, ev.ModeSet("adaptive"))
    assert turns.mode is learned, "a mode that stays in force keeps what it has learned"
    story.tell(6, ev.LockReleased(1, "g", lock, again=True))
    story.tell(7, ev.ModeSet("auto"))
    assert turns.mode.rule.mode == "auto"
    assert turns.timer.quantum_ns == 40 * SECOND

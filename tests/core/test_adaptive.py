"""Mode adaptive: what is known of the card, what is learned of the bus, and the rules that follow."""

import pytest

from nvshare.core import events as ev
from nvshare.core.actions import Action, DropLock, GiveLock
from nvshare.core.habits import FIRST_GUESS_NS_PER_GIB, LEAST_NS_PER_GIB, Habits
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Seat, Settings
from nvshare.core.node import Node

CAPACITY = 10 * GIB
CAPS = {"least_ns": 10 * SECOND, "most_ns": 300 * SECOND}


def seat(client: int, gib: float) -> Seat:
    one = Seat(client, 0, 100)
    one.memory = Memory(swappable=int(gib * GIB))
    return one


def test_a_newcomer_brings_all_its_memory_and_pushes_out_only_what_finds_no_room() -> None:
    habits, one, two = Habits(), seat(1, 6), seat(2, 6)
    assert habits.missing(one, CAPACITY) == 6 * GIB
    assert habits.switch_ns(one, CAPACITY) == 0
    habits.note_came(0, one, CAPACITY)
    assert habits.missing(one, CAPACITY) == 0
    assert habits.missing(two, CAPACITY) == 6 * GIB
    assert habits.switch_ns(two, CAPACITY) == 2 * FIRST_GUESS_NS_PER_GIB


def test_who_ran_since_has_pushed_out_who_ran_before() -> None:
    habits, seats = Habits(), [seat(client, 4) for client in range(4)]
    for now, one in enumerate(seats):
        habits.note_came(now, one, CAPACITY)
    assert [habits.missing(one, CAPACITY) // GIB for one in seats] == [4, 2, 0, 0]
    habits.note_left(seats[3])
    habits.note_left(seats[3])
    assert [habits.missing(one, CAPACITY) // GIB for one in seats[:3]] == [2, 0, 0]


def work(habits: Habits, one: Seat, begin_s: float, end_s: float) -> None:
    habits.note_resumed(int(begin_s * SECOND), one)
    habits.note_paused(int(end_s * SECOND), one)


def test_what_moving_costs_is_learned_from_stretches_that_took_longer() -> None:
    """8 GiB twice on 10 GiB: 6 GiB come back with each turn. A stretch of 2 s takes 5 s then: half a second a GiB."""
    habits, one, two = Habits(), seat(1, 8), seat(2, 8)
    habits.note_came(0, one, CAPACITY)
    habits.note_paused(1 * SECOND, one)  # its beginning was not seen
    work(habits, one, 2, 4)
    work(habits, one, 5, 7)
    assert habits.ns_per_gib == FIRST_GUESS_NS_PER_GIB
    habits.note_went(8 * SECOND, one)
    habits.note_came(8 * SECOND, two, CAPACITY)
    habits.note_went(9 * SECOND, two)
    habits.note_came(10 * SECOND, one, CAPACITY)
    habits.note_paused(15 * SECOND, one)
    assert habits.ns_per_gib == SECOND // 2


def test_a_stretch_in_two_turns_is_one_stretch() -> None:
    habits, one, two = Habits(), seat(1, 8), seat(2, 8)
    habits.note_came(0, one, CAPACITY)
    habits.note_paused(0, one)
    work(habits, one, 2, 6)
    habits.note_resumed(10 * SECOND, one)
    habits.note_went(13 * SECOND, one)
    habits.note_came(13 * SECOND, two, CAPACITY)
    habits.note_went(14 * SECOND, two)
    habits.note_came(20 * SECOND, one, CAPACITY)
    habits.note_paused(27 * SECOND, one)  # 3 s and 7 s instead of 4 s: six seconds for 6 GiB
    assert habits.ns_per_gib == SECOND


def test_a_stretch_that_took_less_than_usual_cost_nothing_and_the_figure_has_a_floor() -> None:
    habits, one, two = Habits(), seat(1, 8), seat(2, 8)
    habits.note_came(0, one, CAPACITY)
    habits.note_paused(0, one)
    work(habits, one, 2, 6)
    habits.note_went(7 * SECOND, one)
    habits.note_came(7 * SECOND, two, CAPACITY)
    habits.note_went(8 * SECOND, two)
    habits.note_came(8 * SECOND, one, CAPACITY)
    habits.note_paused(9 * SECOND, one)
    assert habits.ns_per_gib == LEAST_NS_PER_GIB


def test_without_a_usual_stretch_a_longer_one_says_nothing() -> None:
    habits, one, two = Habits(), seat(1, 8), seat(2, 8)
    habits.note_came(0, one, CAPACITY)
    habits.note_paused(0, one)
    habits.note_went(1 * SECOND, one)
    habits.note_came(1 * SECOND, two, CAPACITY)
    habits.note_went(2 * SECOND, two)
    habits.note_came(2 * SECOND, one, CAPACITY)
    habits.note_paused(9 * SECOND, one)
    assert habits.ns_per_gib == FIRST_GUESS_NS_PER_GIB


def test_nothing_is_learned_from_a_stretch_whose_beginning_was_not_told() -> None:
    habits, one = Habits(), seat(1, 8)
    habits.note_came(0, one, CAPACITY)
    habits.note_paused(0, one)
    habits.note_resumed(SECOND, one)
    habits.note_contention()
    habits.note_paused(9 * SECOND, one)
    assert habits._recent[1].usual_stretch is None


def test_words_of_a_client_whose_turn_was_not_seen_to_begin_are_no_harm() -> None:
    habits, one = Habits(), seat(1, 8)
    habits.note_paused(1, one)
    habits.note_resumed(2, one)
    assert habits.lag(one, 300 * SECOND) == 0
    habits.note_went(3 * SECOND, one)
    assert habits.lag(one, 300 * SECOND) == 12 * SECOND


@pytest.mark.parametrize(
    ("switch_s", "waiting", "wanted_s"),
    [
        (0, 1, 10),  # a switch that costs nothing: the least
        (1, 1, 200),  # 200 times the cost
        (10, 1, 600),  # but nobody waits longer than two longest quanta
        (1, 10, 60),  # for all who are before it
        (4, 10, 132),  # unless switching then cost more than 3 %
        (20, 10, 300),  # and never longer than one longest quantum for that
    ],
)
def test_the_quantum_follows_what_a_switch_costs_and_who_waits(switch_s: int, waiting: int, wanted_s: int) -> None:
    habits = Habits()
    assert habits.quantum(seat(1, 1), switch_s * SECOND, waiting, **CAPS) == wanted_s * SECOND


def test_who_gives_the_lock_back_by_itself_waits_for_twice_its_own_turn() -> None:
    habits, one = Habits(), seat(1, 8)
    habits.note_came(0, one, CAPACITY)
    habits.note_went(20 * SECOND, one)
    habits.note_gave_up(one)
    assert habits.quantum(one, 2 * SECOND, 1, **CAPS) == 40 * SECOND
    assert habits.quantum(one, 10 * SECOND, 1, **CAPS) == 60 * SECOND
    habits.note_came(30 * SECOND, one, CAPACITY)
    habits.note_went(50 * SECOND, one)
    assert habits.quantum(one, 2 * SECOND, 1, **CAPS) == 400 * SECOND


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

    def ask(self, now_s: float, client: int) -> int:
        """The lock it got at once; 0 if it waits."""
        actions = self.tell(now_s, ev.LockRequested(client, "g", Memory(swappable=8 * GIB)))
        return next((action.lock for action in actions if isinstance(action, GiveLock)), 0)


def drops(actions: list[Action]) -> list[int]:
    return [action.client for action in actions if isinstance(action, DropLock)]


def test_a_holder_known_for_short_pauses_goes_when_one_is_long() -> None:
    story = Story()
    story.join(1)
    story.join(2)
    story.ask(0, 1)
    assert story.ask(1, 2) == 0
    assert drops(story.tell(2, ev.WorkFinished(1, "g"))) == []
    story.tell(2.5, ev.WorkResumed(1, "g"))  # half a second; 6 GiB move in 1.2 s
    assert drops(story.tell(4, ev.WorkFinished(1, "g"))) == []
    deadline = story.node.next_deadline()
    assert deadline is not None
    assert deadline == pytest.approx(5.44 * SECOND, abs=SECOND // 100)
    assert drops(story.tell(5.5, ev.AlarmRang())) == [1]


def test_a_holder_known_for_long_pauses_goes_at_once() -> None:
    story = Story()
    story.join(1)
    story.join(2)
    lock = story.ask(0, 1)
    story.ask(1, 2)
    for _ in range(3):
        now = story.node._now / SECOND
        story.tell(now + 1, ev.WorkFinished(1, "g"))
        actions = story.tell(now + 3, ev.AlarmRang())
        story.tell(now + 3, ev.LockReleased(1, "g", lock, again=False))
        story.ask(now + 30, 1)
        story.tell(now + 31, ev.LockReleased(2, "g", lock + 1, again=False))
        lock += 2
        story.ask(now + 32, 2)
    assert drops(actions) == []
    assert drops(story.tell(200, ev.WorkFinished(1, "g"))) == [1]


def test_the_quantum_follows_the_queue() -> None:
    story = Story()
    for client in (1, 2, 3):
        story.join(client)
    story.ask(0, 1)
    story.ask(1, 2)
    gpu = story.node.gpus["g"]
    assert gpu.quantum_ns == 240 * SECOND  # 200 times 1.2 s
    story.ask(2, 3)
    assert gpu.quantum_ns == 240 * SECOND
    assert drops(story.tell(241, ev.AlarmRang())) == [1]


def test_long_turns_go_behind_short_ones() -> None:
    story = Story()
    for client in (1, 2, 3):
        story.join(client)
    lock = story.ask(0, 1)
    story.ask(1, 2)
    story.tell(100, ev.LockReleased(1, "g", lock, again=True))  # a turn of 100 s: its place counts from 500 s
    story.ask(200, 3)
    given = story.tell(210, ev.LockReleased(2, "g", lock + 1, again=False))
    assert [action.client for action in given if isinstance(action, GiveLock)] == [3]
    story.tell(211, ev.ClientLeft(3))
    assert [seat.client for seat in story.node.gpus["g"].staying.values()] == [1]


def test_the_mode_may_change_while_programs_run() -> None:
    story = Story(mode="auto")
    story.join(1)
    story.join(2)
    lock = story.ask(0, 1)
    story.ask(1, 2)
    story.tell(2, ev.ModeSet("adaptive"))
    story.tell(3, ev.WorkFinished(1, "g"))
    story.tell(4, ev.WorkResumed(1, "g"))
    story.tell(5, ev.ModeSet("adaptive"))
    story.tell(6, ev.LockReleased(1, "g", lock, again=True))
    story.tell(7, ev.ModeSet("auto"))
    assert story.node.gpus["g"].habits is None
    assert story.node.gpus["g"].quantum_ns == 40 * SECOND


def test_stretches_in_which_two_worked_at_once_teach_nothing() -> None:
    habits, one, two = Habits(), seat(1, 4), seat(2, 4)
    for each in (one, two):
        habits.note_came(0, each, CAPACITY)
    for each in (one, two):
        habits.note_paused(SECOND, each)
    work(habits, one, 2, 4)
    assert habits._recent[1].usual_stretch == 2 * SECOND
    habits.note_resumed(5 * SECOND, one)
    habits.note_resumed(6 * SECOND, two)
    habits.note_paused(9 * SECOND, one)
    habits.note_paused(9 * SECOND, two)
    assert habits._recent[1].usual_stretch == 2 * SECOND
    assert habits._recent[2].usual_stretch is None

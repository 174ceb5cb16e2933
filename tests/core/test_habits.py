"""Mode adaptive's knowledge: which clients are on the card, how long each works and pauses, what moving memory in
cost."""

import pytest

from nvshare.core.model import GIB, SECOND, Memory
from nvshare.core.modes.habits import FIRST_GUESS_DUTY, Habit, Habits
from nvshare.core.turns.seat import Seat

CAPACITY = 10 * GIB


def seat(client: int, gib: float) -> Seat:
    one = Seat(client, 0, 100)
    one.memory = Memory(swappable=int(gib * GIB))
    one.need = one.memory.swappable
    return one


def came(habits: Habits, now_s: float, one: Seat) -> None:
    habits.turn_began(int(now_s * SECOND), one, CAPACITY)
    one.held_since = int(now_s * SECOND)


def went(habits: Habits, now_s: float, one: Seat) -> None:
    habits.turn_ended(int(now_s * SECOND), one)


def work(habits: Habits, one: Seat, begin_s: float, end_s: float) -> None:
    habits.work_resumed(int(begin_s * SECOND), one)
    habits.pause_began(int(end_s * SECOND), one)


def known(habits: Habits, one: Seat) -> Habit:
    habit = habits.of(one)
    assert habit is not None
    return habit


def test_a_newcomer_brings_all_its_memory_and_pushes_out_only_what_finds_no_room() -> None:
    habits, one, two = Habits(), seat(1, 6), seat(2, 6)
    assert habits.missing(one, CAPACITY) == 6 * GIB
    assert habits.evicted_bytes(one, CAPACITY) == 0
    came(habits, 0, one)
    assert habits.missing(one, CAPACITY) == 0
    assert habits.missing(two, CAPACITY) == 6 * GIB
    assert habits.evicted_bytes(two, CAPACITY) == 2 * GIB


def test_clients_that_ran_since_have_pushed_out_those_that_ran_before() -> None:
    habits, seats = Habits(), [seat(client, 4) for client in range(4)]
    for now, one in enumerate(seats):
        came(habits, now, one)
    assert [habits.missing(one, CAPACITY) // GIB for one in seats] == [4, 2, 0, 0]
    habits.client_left(5, seats[3])
    habits.client_left(5, seats[3])
    assert [habits.missing(one, CAPACITY) // GIB for one in seats[:3]] == [2, 0, 0]


def test_a_client_that_runs_has_its_memory_on_the_card_no_matter_which_one_ran_later() -> None:
    """The first two fit together. The third ran beside the first one; to let it run again evicts memory of the second,
    which runs although its turn began earlier."""
    habits, seats = Habits(), [seat(client, 4) for client in range(3)]
    for now, one in enumerate(seats):
        came(habits, now, one)
        one.lock = now + 1
    seats[2].lock = 0
    went(habits, 5, seats[2])
    assert [habits.missing(one, CAPACITY) // GIB for one in seats] == [0, 0, 2]
    assert habits.evicted_bytes(seats[2], CAPACITY) == 2 * GIB


def test_what_moving_costs_is_learned_from_stretches_that_took_longer() -> None:
    """8 GiB twice on 10 GiB: 6 GiB come back with each turn. A stretch of 2 s takes 5 s then: half a second a GiB."""
    habits, one, two = Habits(), seat(1, 8), seat(2, 8)
    came(habits, 0, one)
    habits.pause_began(1 * SECOND, one)
    work(habits, one, 2, 4)
    work(habits, one, 5, 7)
    assert habits.cost.samples == 0
    went(habits, 8, one)
    came(habits, 8, two)
    went(habits, 9, two)
    came(habits, 10, one)
    habits.pause_began(15 * SECOND, one)
    assert habits.cost.samples == 1
    assert habits.cost.ns_per_gib == pytest.approx(0.5 * SECOND, rel=0.05)


def test_a_stretch_with_moves_says_what_a_move_costs_at_most() -> None:
    """4 s with 8 GiB: at most half a second a GiB. A longer stretch with as much says nothing new."""
    habits, one, two = Habits(), seat(1, 8), seat(2, 8)
    assert habits.cost.most_ns_per_gib == 5 * SECOND
    came(habits, 0, one)
    habits.pause_began(4 * SECOND, one)
    assert habits.cost.most_ns_per_gib == SECOND // 2
    came(habits, 10, two)
    habits.pause_began(18 * SECOND, two)
    assert habits.cost.most_ns_per_gib == SECOND // 2
    habits.cost.set_measured(SECOND)
    assert habits.cost.most_ns_per_gib == SECOND, "what is known counts"


def test_a_stretch_that_was_too_short_to_bring_its_memory_in_does_not_say_what_a_move_costs() -> None:
    """Only what the work used has come, and not 8 GiB in a few ms. Otherwise idle holders would
    lose their locks at once, memory would come in during each stretch, and no cost would be learned."""
    habits, one = Habits(), seat(1, 8)
    came(habits, 0, one)
    habits.pause_began(SECOND // 50, one)
    assert habits.cost.most_ns_per_gib == 5 * SECOND
    went(habits, 1, one)
    came(habits, 2, seat(2, 8))
    came(habits, 3, one)
    habits.pause_began(7 * SECOND, one)
    assert habits.cost.most_ns_per_gib == pytest.approx(SECOND * 4 / 6)


def test_a_stretch_goes_on_in_the_next_turn() -> None:
    habits, one, two = Habits(), seat(1, 8), seat(2, 8)
    came(habits, 0, one)
    habits.pause_began(0, one)
    work(habits, one, 2, 6)
    habits.work_resumed(10 * SECOND, one)
    went(habits, 13, one)
    came(habits, 13, two)
    went(habits, 14, two)
    came(habits, 20, one)
    habits.pause_began(27 * SECOND, one)  # 3 s and 7 s instead of 4 s: six seconds for 6 GiB
    assert habits.cost.ns_per_gib == pytest.approx(SECOND, rel=0.15)


def test_the_load_is_told_from_what_others_take_of_the_gpu() -> None:
    """One's stretch of 2 s takes 4 s beside another's work; with 4 GiB to bring in at 1 s each it takes 8 s."""
    habits, one, two, three = Habits(), seat(1, 4), seat(2, 4), seat(3, 10)
    for each in (one, two):
        came(habits, 0, each)
    work(habits, one, 0, 4)  # both brought memory: not usual
    for begin in (10, 20, 30):
        work(habits, one, begin, begin + 4)
    assert known(habits, one).usual_service == 2 * SECOND
    for each in (one, two):
        went(habits, 40, each)
    came(habits, 40, three)
    went(habits, 50, three)
    came(habits, 50, one)
    came(habits, 50, two)
    habits.pause_began(58 * SECOND, one)
    assert habits.cost.samples == 1
    assert habits.cost.ns_per_gib == pytest.approx(SECOND, rel=0.5)


@pytest.mark.parametrize(("begins_s", "samples"), [(1, 0), (41, 1)])
def test_a_stretch_that_begins_while_another_client_loads_teaches_nothing(begins_s: int, samples: int) -> None:
    """The other one brings 8 GiB in, which may take 40 s. Until it has, memory may still be there that it will evict:
    nobody knows how much moves in."""
    habits, one, two = Habits(compares_first=True), seat(1, 4), seat(2, 8)
    came(habits, 0, two)
    two.lock = 7
    came(habits, begins_s, one)
    habits.pause_began((begins_s + 2) * SECOND, one)
    assert habits.cost.most_ns_per_gib == (SECOND // 2 if samples else 5 * SECOND)
    work(habits, one, 100, 101)
    assert habits.cost.samples == samples
    assert habits.duty(one) > FIRST_GUESS_DUTY, "its work counts"


def test_a_stretch_whose_beginning_was_not_seen_teaches_nothing() -> None:
    habits, one = Habits(), seat(1, 8)
    came(habits, 0, one)
    habits.pause_began(0, one)
    habits.work_resumed(SECOND, one)
    habits.reports_changed()
    habits.pause_began(9 * SECOND, one)
    assert known(habits, one).usual_service is None


def test_a_stretch_without_a_usual_one_to_compare_teaches_nothing() -> None:
    habits, one, two = Habits(), seat(1, 8), seat(2, 8)
    came(habits, 0, one)
    habits.pause_began(0, one)
    went(habits, 1, one)
    came(habits, 1, two)
    went(habits, 2, two)
    came(habits, 2, one)
    habits.pause_began(9 * SECOND, one)
    assert habits.cost.samples == 0


@pytest.mark.parametrize(("compares_first", "samples"), [(True, 1), (False, 0)])
def test_the_first_load_is_judged_as_soon_as_a_usual_stretch_is_known(compares_first: bool, samples: int) -> None:
    """6 s with 8 GiB, then 2 s without: half a second a GiB, before anybody else had a turn."""
    habits, one = Habits(compares_first=compares_first), seat(1, 8)
    came(habits, 0, one)
    habits.pause_began(6 * SECOND, one)
    assert habits.cost.samples == 0
    work(habits, one, 7, 9)
    assert habits.cost.samples == samples
    work(habits, one, 10, 12)
    assert habits.cost.samples == samples, "each stretch counts once"
    if samples:
        assert habits.cost.ns_per_gib == pytest.approx(0.5 * SECOND, rel=0.05)


def test_duty_is_what_a_client_would_use_of_a_gpu_of_its_own() -> None:
    habits, one, two = Habits(), seat(1, 4), seat(2, 4)
    assert habits.duty(one) == FIRST_GUESS_DUTY
    came(habits, 0, one)
    habits.pause_began(0, one)
    for begin in range(10, 1000, 10):
        work(habits, one, begin, begin + 2)
        habits.pause_ended(one, 8 * SECOND)
    assert habits.duty(one) == pytest.approx(0.2, abs=0.02)
    came(habits, 1000, two)
    for begin in range(1010, 2000, 10):  # shared with the other, the same work takes twice as long
        work(habits, one, begin, begin + 4)
        habits.pause_ended(one, 8 * SECOND)
    assert habits.duty(one) == pytest.approx(0.2, abs=0.02)


def test_work_of_a_turn_counts_the_stretch_under_way_too() -> None:
    habits, one = Habits(), seat(1, 4)
    assert habits.busy_in_turn(0, one) == 0
    came(habits, 0, one)
    assert habits.busy_in_turn(3 * SECOND, one) == 3 * SECOND
    habits.pause_began(4 * SECOND, one)
    assert habits.busy_in_turn(9 * SECOND, one) == 4 * SECOND
    went(habits, 10, one)
    came(habits, 20, one)
    assert habits.busy_in_turn(21 * SECOND, one) == SECOND


def test_of_an_unknown_client_nothing_is_noted() -> None:
    habits, one = Habits(), seat(1, 8)
    habits.pause_began(1, one)
    habits.work_resumed(2, one)
    habits.pause_ended(one, SECOND)
    habits.client_left(2, one)
    assert habits.of(one) is None
    went(habits, 3, one)
    assert known(habits, one).last_turn == 3 * SECOND


def test_a_client_that_leaves_in_the_middle_of_its_work_takes_nothing_from_the_others_any_more() -> None:
    habits, one, two = Habits(), seat(1, 4), seat(2, 4)
    came(habits, 0, one)
    came(habits, 0, two)
    habits.pause_began(0, one)
    habits.client_left(10 * SECOND, two)
    work(habits, one, 20, 25)
    assert known(habits, one).usual_service == 5 * SECOND

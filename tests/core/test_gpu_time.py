"""The account of GPU time: which clients were busy at which look, and which are charged for it."""

from nvshare.core.compute.gpu_time import MOST_LOOKS, REPORT_LOOKS, GpuTime
from nvshare.core.compute.look_bits import LOOK_NS, MOST_APART
from nvshare.core.turns.seat import Seat

LATER = 10 * REPORT_LOOKS


def seat(client: int) -> Seat:
    return Seat(client, 0, 100)


def at(look: float) -> int:
    return int(look * LOOK_NS)


def ones(first: int, last: int) -> int:
    """Bits `first` to `last`."""
    return (1 << last + 1) - (1 << first)


def looks_of(*seats: Seat) -> list[int]:
    return [round(seat.gpu_ns / LOOK_NS) for seat in seats]


def test_a_holder_that_reports_nothing_is_charged_for_the_time_in_which_it_holds_the_lock() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.turn_ended(at(1300), a)
    time.divide(at(LATER))
    assert looks_of(a) == [300]
    assert a.looks is None


def test_a_holder_is_charged_for_the_looks_at_which_it_was_busy() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.reported(at(1100), a, 1000, 100, ones(10, 29))
    time.turn_ended(at(1100), a)
    time.divide(at(LATER))
    assert looks_of(a) == [20]
    assert time.busy_ns == 20 * LOOK_NS


def test_clients_that_were_busy_at_the_same_time_share_it() -> None:
    time, a, b, c = GpuTime(), seat(1), seat(2), seat(3)
    for client in (a, b, c):
        time.turn_began(at(1000), client)
    time.reported(at(1120), a, 1000, 120, ones(0, 119))
    time.reported(at(1120), b, 1000, 120, ones(60, 119))
    time.reported(at(1120), c, 1000, 120, ones(90, 119))
    for client in (a, b, c):
        time.turn_ended(at(1120), client)
    time.divide(at(LATER))
    assert looks_of(a, b, c) == [60 + 15 + 10, 15 + 10, 10]
    assert time.busy_ns == 120 * LOOK_NS


def test_a_day_is_divided_up_as_its_seconds_are() -> None:
    day = 86_400_000
    sums = []
    for step in (day, 5000):
        time, a, b, c = GpuTime(), seat(1), seat(2), seat(3)
        time.turn_began(at(1000), a)
        time.turn_began(at(2500), b)
        time.turn_began(at(2600), c)
        time.reported(at(3000), a, 2000, 250, ones(0, 100))
        time.reported(at(3000), c, 3000, 0, 0)
        for look in range(3000, day + 3000, step):
            time.divide(at(look))
        time.divide(at(day))
        sums.append([a.gpu_ns, b.gpu_ns, c.gpu_ns, time.busy_ns])
    assert sums[0] == sums[1]
    assert sums[0][3] > day * LOOK_NS * 0.99


def test_more_clients_than_are_told_apart_share_by_the_looks_of_each() -> None:
    time, seats = GpuTime(), [seat(client) for client in range(1, MOST_APART + 2)]
    for client in seats:
        time.turn_began(at(1000), client)
        time.reported(at(1100), client, 1000, 100, ones(0, 99 if client is seats[0] else 49))
        time.turn_ended(at(1100), client)
    time.divide(at(LATER))
    assert looks_of(*seats) == [11] + [6] * MOST_APART
    assert time.busy_ns == 100 * LOOK_NS


def test_two_turns_one_after_the_other_never_count_one_look_twice() -> None:
    time, a, b = GpuTime(), seat(1), seat(2)
    for i in range(100):
        time.turn_began(at(1000 + 7.3 * i), a)
        time.turn_ended(at(1000 + 7.3 * i + 3.1), a)
        time.turn_began(at(1000 + 7.3 * i + 3.1), b)
        time.turn_ended(at(1000 + 7.3 * (i + 1)), b)
    time.divide(at(LATER))
    assert sum(looks_of(a, b)) == 730
    assert abs(a.gpu_ns / LOOK_NS - 310) <= 5


def test_a_turn_without_a_look_costs_nothing() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000.2), a)
    time.turn_ended(at(1000.8), a)
    time.divide(at(LATER))
    assert looks_of(a) == [0]


def test_a_report_of_looks_that_are_divided_up_or_still_to_come_does_not_count() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.reported(at(2000), a, 1000, 256, 0)  # too late: it counts as busy by now
    time.reported(at(2000), a, 1900, 200, 0)  # the second half is the future
    time.reported(at(2000), a, 5000, 200, 0)
    time.turn_ended(at(2100), a)
    time.divide(at(LATER))
    assert looks_of(a) == [1100 - 101]


def test_a_report_that_begins_before_what_is_divided_up_counts_for_the_rest() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.divide(at(1100 + REPORT_LOOKS))
    time.reported(at(1101 + REPORT_LOOKS), a, 1000, 200, 0)
    time.turn_ended(at(1200), a)
    time.divide(at(LATER))
    assert looks_of(a) == [100]


def test_a_second_report_of_the_same_looks_changes_nothing() -> None:
    time, a = GpuTime(), seat(1)
    time.reported(at(1100), a, 1000, 100, ones(0, 9))
    time.reported(at(1100), a, 1000, 100, ones(0, 99))
    time.divide(at(LATER))
    assert looks_of(a) == [10]


def test_work_without_a_lock_counts_if_it_is_reported() -> None:
    time, a = GpuTime(), seat(1)
    time.reported(at(1100), a, 1000, 100, ones(50, 59))
    time.divide(at(LATER))
    assert looks_of(a) == [10]


def test_a_lock_that_is_held_for_hours_is_divided_up_in_parts() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.divide(at(1000 + 3 * MOST_LOOKS + REPORT_LOOKS))
    assert looks_of(a) == [3 * MOST_LOOKS]
    time.turn_ended(at(1000 + 4 * MOST_LOOKS), a)
    time.divide(at(LATER + 4 * MOST_LOOKS))
    assert looks_of(a) == [4 * MOST_LOOKS]


def test_the_estimate_counts_what_is_not_reported_yet_as_busy_and_shared_with_the_holders() -> None:
    time, a, b = GpuTime(), seat(1), seat(2)
    assert time.estimate_ns(at(900), a) == 0
    time.turn_began(at(1000), a)
    time.turn_began(at(1000), b)
    time.reported(at(1100), a, 1000, 100, ones(0, 49))
    assert time.estimate_ns(at(1200), a) == (50 + 100) * LOOK_NS // 2
    time.turn_ended(at(1200), b)
    assert time.estimate_ns(at(1200), a) == (50 + 100) * LOOK_NS


def test_a_client_that_leaves_is_charged_at_once_and_still_shares_its_last_looks() -> None:
    time, a, b = GpuTime(), seat(1), seat(2)
    time.turn_began(at(1000), a)
    time.turn_began(at(1000), b)
    time.turn_ended(at(1100), a)
    time.left(at(1100), a)
    time.left(at(1100), seat(3))
    assert looks_of(a) == [100]
    time.turn_ended(at(1100), b)
    time.divide(at(LATER))
    assert looks_of(a, b) == [100, 50]
    assert time.busy_ns == 100 * LOOK_NS


def test_the_estimate_of_a_client_all_of_whose_looks_are_divided_up_is_its_sum() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.turn_ended(at(1100), a)
    assert time.estimate_ns(at(LATER), a) == 100 * LOOK_NS


def test_many_turns_without_reports_are_divided_up_as_they_end() -> None:
    time, a = GpuTime(), seat(1)
    for i in range(10):
        time.turn_began(at(1000 * (i + 1)), a)
        time.turn_ended(at(1000 * (i + 1) + 500), a)
    assert a.looks is not None
    assert a.looks.held.bit_length() <= 3 * REPORT_LOOKS
    time.divide(at(100 * LATER))
    assert looks_of(a) == [5000]


def test_a_holder_that_rests_is_not_busy_until_it_reports_again() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.reported(at(1100), a, 1000, 100, ones(0, 99))
    time.reported(at(1100), a, 1100, 0, 0)
    assert time.estimate_ns(at(1200), a) == 100 * LOOK_NS
    time.divide(at(9000))
    assert looks_of(a) == [100]
    time.reported(at(9100), a, 9000, 100, ones(0, 9))
    time.turn_ended(at(9200), a)
    time.divide(at(9000 + LATER))
    assert looks_of(a) == [100 + 10 + 100]


def test_a_rest_that_would_begin_in_the_future_begins_now() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.reported(at(1100), a, 1 << 63, 0, 0)
    time.divide(at(LATER))
    assert looks_of(a) == [101]


def test_it_makes_no_difference_to_the_sums_of_few_clients_when_looks_are_divided_up() -> None:
    seldom, often = GpuTime(), GpuTime()
    many, few = [seat(1), seat(2), seat(3)], [seat(1), seat(2), seat(3)]
    for time, seats in ((seldom, few), (often, many)):
        for client in seats:
            time.turn_began(at(1000), client)
        for first in range(1000, 4000, 200):
            for number, client in enumerate(seats):
                time.reported(at(first + 200 + number), client, first, 200, ones(7 * number, 100 + 31 * number))
            if time is often:
                time.divide(at(first + 263))
        for client in seats:
            time.turn_ended(at(4000), client)
        time.divide(at(4000 + LATER))
    assert [client.gpu_ns for client in few] == [client.gpu_ns for client in many]


def test_how_busy_a_gpu_was_lately_counts_all_clients() -> None:
    time, a, b = GpuTime(), seat(1), seat(2)
    assert time.busy_percent(at(1000)) == 0
    time.turn_began(at(1000), a)
    time.turn_began(at(1000), b)
    for first in range(1000, 31_000, 200):
        time.reported(at(first + 200), a, first, 200, ones(0, 99))
        time.reported(at(first + 200), b, first, 200, ones(50, 149))
    assert round(time.busy_percent(at(31_000 + REPORT_LOOKS))) == 75
    time.turn_ended(at(31_000), a)
    time.turn_ended(at(31_000), b)
    time.divide(at(200_000))
    assert round(time.busy_percent(at(200_000))) == 0


def test_an_estimate_for_an_earlier_time_is_what_is_divided_up() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(5000), a)
    assert time.estimate_ns(at(1000), a) == 0


def test_what_a_client_said_about_a_turn_still_counts_when_its_next_turn_begins() -> None:
    """It had no work from look 1100 on, and got the lock again before these looks were divided."""
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.reported(at(1100), a, 1100, 0, 0)
    time.turn_ended(at(1300), a)
    time.turn_began(at(1400), a)
    time.turn_ended(at(1450), a)
    time.divide(at(LATER))
    assert looks_of(a) == [100 + 50]


def test_a_client_that_says_twice_that_it_has_no_work_has_none_from_the_first_time_on() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.reported(at(1100), a, 1100, 0, 0)
    time.reported(at(1300), a, 1300, 0, 0)
    time.turn_ended(at(1400), a)
    time.divide(at(LATER))
    assert looks_of(a) == [100]


def test_work_that_is_reported_counts_although_the_client_had_said_that_it_has_none() -> None:
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.reported(at(1100), a, 1100, 0, 0)
    time.reported(at(1300), a, 1290, 10, ones(0, 9))
    time.reported(at(1300), a, 1200, 50, ones(0, 49))
    time.turn_ended(at(1300), a)
    time.divide(at(LATER))
    assert looks_of(a) == [100 + 10 + 50]


def test_a_short_report_of_the_last_looks_counts() -> None:
    """However many looks are not divided yet: they are divided many at once."""
    time, a = GpuTime(), seat(1)
    time.turn_began(at(1000), a)
    time.reported(at(1000), a, 1000, 0, 0)
    now = 1000 + REPORT_LOOKS + 60
    time.reported(at(now), a, now - 20, 20, ones(0, 19))
    time.turn_ended(at(now), a)
    time.divide(at(LATER))
    assert looks_of(a) == [20]

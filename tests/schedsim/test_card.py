"""The fluid card: sharing, loading, thrashing."""

import pytest
from msgspec.structs import replace

from nvshare.core.model import SECOND
from nvshare.schedsim.card import Card, CardModel

MODEL = CardModel(size=100, bus=10.0, gain=1.2, sweep_s=0.5)


def finish(card: Card) -> dict[int, float]:
    """When each tenant's work ends, if nothing else happens."""
    ends: dict[int, float] = {}
    while (when := card.next_change()) is not None:
        card.advance(when)
        for key in card.finished():
            card.pause(when, key)
            ends[key] = when / SECOND
    return ends


def loaded(*sizes: int) -> Card:
    card = Card(MODEL)
    for key, size in enumerate(sizes):
        card.add(key, size, is_loaded=True)
    return card


def test_one_alone_takes_as_long_as_its_work() -> None:
    card = loaded(50)
    card.begin(0, 0, 7.0)
    assert finish(card) == {0: pytest.approx(7.0)}


def test_two_that_fit_get_a_little_more_done_than_one() -> None:
    card = loaded(50, 50)
    card.begin(0, 0, 6.0)
    card.begin(0, 1, 6.0)
    assert finish(card) == {0: pytest.approx(10.0), 1: pytest.approx(10.0)}


def test_pages_come_over_the_bus_before_work_goes_on() -> None:
    card, took = switched(MODEL)
    assert took == pytest.approx(60 / 10 + 1)
    assert card.moved_bytes == pytest.approx(60)


@pytest.mark.parametrize("model", [MODEL, replace(MODEL, first_touch=5.0, evict=20.0, link=40.0)])
def test_the_first_touch_of_a_page_takes_time_and_is_no_transfer(model: CardModel) -> None:
    card = Card(model)
    card.add(0, 80)
    card.begin(0, 0, 1.0)
    assert card.is_loading(0)
    assert finish(card) == {0: pytest.approx(80 / (model.first_touch or model.bus) + 1)}
    assert card.moved_bytes == 0


def test_pages_that_come_back_and_pages_that_are_created_are_told_apart() -> None:
    """Half of the memory was touched, all of that has gone to the host, and then all of it is used."""
    card = Card(MODEL)
    card.add(0, 80)
    card.begin(0, 0, 1.0)
    card.advance(4 * SECOND)
    card.pause(4 * SECOND, 0)
    card.add(1, 100)
    card.begin(4 * SECOND, 1, 1.0)
    finish(card)
    assert card.moved_bytes == 0
    card.begin(card.now, 0, 1.0)
    finish(card)
    assert card.moved_bytes == pytest.approx(40)


def test_memory_that_is_pushed_out_is_host_memory_of_its_owner_and_not_of_the_program_that_pushed_it() -> None:
    card = Card(MODEL)
    card.add(0, 80, host=59)
    card.begin(0, 0, 1.0)
    finish(card)
    assert card.beyond_host() == [], "all of it is on the card"
    card.add(1, 80, host=0)
    card.begin(card.now, 1, 1.0)
    finish(card)
    assert card.beyond_host() == [0], "60 of it are on the host"
    card.tenants[0].host = 60
    assert card.beyond_host() == []


def test_the_program_that_was_quiet_longest_loses_its_pages_first() -> None:
    card = loaded(40, 40)
    card.begin(0, 0, 1.0)
    card.advance(SECOND)
    card.pause(SECOND, 0)
    card.add(2, 50)
    card.begin(SECOND, 2, 1.0)
    finish(card)
    assert [tenant.resident for tenant in card.tenants.values()] == [40, pytest.approx(10), 50]


def test_two_that_do_not_fit_move_every_page_of_every_sweep() -> None:
    card = loaded(80, 80)
    card.begin(0, 0, 1.0)
    card.begin(0, 1, 1.0)
    sweeps = 2 / MODEL.sweep_s
    assert finish(card)[1] == pytest.approx(2 / 1.2 + sweeps * 80 / 10)


def test_a_program_that_stays_after_a_crowd_loads_what_it_lost() -> None:
    card = loaded(80, 80)
    card.begin(0, 0, 5.0)
    card.begin(0, 1, 5.0)
    card.advance(SECOND)
    card.pause(SECOND, 1)
    assert card.is_loading(0)


BULK = replace(MODEL, first_touch=5.0, link=40.0)


def test_a_program_that_was_told_to_move_its_memory_out_makes_the_room_and_not_the_one_that_was_quiet_longest() -> None:
    card = Card(BULK)
    for key in range(2):
        card.add(key, 40, is_loaded=True)
    card.begin(0, 1, 1.0)
    finish(card)
    until = card.push_out(card.now, 1, 30)
    assert until is not None
    card.add(2, 50)
    card.begin(card.now, 2, 20.0)
    for when in iter(card.next_change, None):
        if when >= until:
            break
        card.advance(when)
    assert card.pushed_out(until, 1) == 30
    assert card.tenants[1].resident == 10, "also what nobody needed yet"
    finish(card)
    assert [tenant.resident for tenant in card.tenants.values()] == [40, 10, 50]


def switched(model: CardModel, *, first: int = 80, second: int = 80) -> tuple[Card, float]:
    """Two that have been on the card take turns: how long the first one's next second of work takes."""
    card = Card(model)
    for key, size in enumerate((first, second)):
        card.add(key, size)
        card.begin(card.now, key, 1.0)
        finish(card)
    began = card.now
    card.begin(began, 0, 1.0)
    return card, finish(card)[0] - began / SECOND


def test_pages_that_never_existed_are_created_by_faults_even_if_moves_are_bulk() -> None:
    card = Card(BULK)
    card.add(0, 80)
    card.begin(0, 0, 1.0)
    assert finish(card) == {0: pytest.approx(80 / 5 + 1)}


def test_bulk_moves_both_ways_at_once() -> None:
    _, took = switched(BULK)
    missing = 60  # of 80: the second one pushed out what was more than the card
    assert took == pytest.approx(missing / 40 + 1)


def test_a_link_without_duplex_takes_twice_as_long_on_a_full_card() -> None:
    _, took = switched(replace(BULK, is_duplex=False))
    assert took == pytest.approx(60 / 20 + 1)


def test_on_a_full_card_a_fault_waits_for_a_page_to_go_out() -> None:
    _, took = switched(replace(MODEL, evict=10.0))
    assert took == pytest.approx(60 / 5 + 1)
    _, took = switched(replace(MODEL, evict=10.0), first=40, second=40)
    assert took == pytest.approx(1), "both are there"


def test_a_card_that_becomes_full_gets_slower_from_then_on() -> None:
    card = Card(replace(MODEL, evict=10.0))
    card.add(0, 40)
    card.begin(0, 0, 1.0)
    finish(card)
    began = card.now
    card.add(1, 80)
    card.begin(began, 1, 1.0)
    assert finish(card)[1] - began / SECOND == pytest.approx(60 / 10 + 20 / 5 + 1)


def crowd(model: CardModel, size: int) -> float:
    """How long a second of work takes two of this size, both resident before as far as the card goes."""
    card = Card(model)
    for key in range(2):
        card.add(key, size, is_loaded=True)
        card.begin(0, key, 1.0)
    return finish(card)[1]


def test_a_little_too_much_costs_a_little() -> None:
    ramp = replace(MODEL, ramp=0.2)
    fit, little, full = crowd(ramp, 50), crowd(ramp, 51), crowd(ramp, 60)
    assert fit == pytest.approx(2 / 1.2)
    assert little == pytest.approx(2 / 1.2 + 0.1 * 2 * 51 / 0.5 / 10)
    assert full == crowd(MODEL, 60), "by a fifth of the card, everything misses"


def test_how_fast_memory_is_touched_may_be_the_cards() -> None:
    assert crowd(replace(MODEL, touch=30.0), 60) == pytest.approx(2 / 1.2 + 2 * 30 / 10)


def test_two_may_get_less_done_than_one() -> None:
    assert crowd(replace(MODEL, gain=0.9), 50) == pytest.approx(2 / 0.9)

"""The fluid card: sharing, loading, thrashing."""

import pytest

from nvshare.core.model import SECOND
from nvshare.sim.card import Card, CardModel

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
    card = Card(MODEL)
    card.add(0, 80)
    card.begin(0, 0, 1.0)
    assert card.is_loading(0)
    assert finish(card) == {0: pytest.approx(9.0)}
    assert card.moved_bytes == pytest.approx(80)


def test_who_was_quiet_longest_loses_its_pages_first() -> None:
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


def test_whoever_stays_after_a_crowd_loads_what_it_lost() -> None:
    card = loaded(80, 80)
    card.begin(0, 0, 5.0)
    card.begin(0, 1, 5.0)
    card.advance(SECOND)
    card.pause(SECOND, 1)
    assert card.is_loading(0)

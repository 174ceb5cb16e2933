"""The table of a seat's states: every transition in it happens, and it has no state without a way out."""

import random
from typing import get_args

import pytest

from core.happenings import HAPPENINGS
from core.world import World
from nvshare.core.turns import turns
from nvshare.core.turns.seat import TRANSITIONS, Cause, Seat, State

STATES: set[State] = set(get_args(State))


class Watched(dict[State, State]):
    """One row of the table that notes which of its transitions were made."""

    def __init__(self, cause: Cause, seen: set[tuple[Cause, State]]) -> None:
        super().__init__(TRANSITIONS[cause])
        self.cause = cause
        self.seen = seen

    def __getitem__(self, state: State) -> State:
        self.seen.add((self.cause, state))
        return super().__getitem__(state)


def test_every_transition_of_the_table_happens_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[Cause, State]] = set()
    monkeypatch.setattr(turns, "TRANSITIONS", {cause: Watched(cause, seen) for cause in TRANSITIONS})
    for seed in range(3):
        chance = random.Random(seed)
        world = World(chance.choice)
        for what in chance.choices(list(HAPPENINGS), list(HAPPENINGS.values()), k=1000):
            getattr(world, what)(chance.choice)
    assert seen == {(cause, state) for cause, row in TRANSITIONS.items() for state in row}


def test_the_table_names_every_state_and_every_cause() -> None:
    assert set(TRANSITIONS) == set(get_args(Cause))
    assert {state for row in TRANSITIONS.values() for pair in row.items() for state in pair} == STATES


def test_every_state_can_be_reached_from_rest_and_leads_back_to_it() -> None:
    for start in STATES:
        reached, rest = {start}, [start]
        while rest:
            state = rest.pop()
            targets = {row[state] for row in TRANSITIONS.values() if state in row} - reached
            reached |= targets
            rest += targets
        assert reached == STATES
    assert Seat(1, 0, 100).state == "rest"

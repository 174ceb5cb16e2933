"""The core against a naive account of the rules, under any interleaving of honest, stopped and muddled clients."""

import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from core.happenings import HAPPENINGS
from core.world import World
from core.world_orders import Pick
from nvshare.core import actions as ac


class Turns(RuleBasedStateMachine):
    """Hypothesis chooses what happens."""

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.world = World(_picker(data))

    @rule(data=st.data(), what=st.sampled_from(list(HAPPENINGS)))
    def happen(self, data: st.DataObject, what: str) -> None:
        getattr(self.world, what)(_picker(data))

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.end()


def _picker(data: st.DataObject) -> Pick:
    return lambda options: data.draw(st.sampled_from(options))


TestTurns = Turns.TestCase
TestTurns.settings = settings(max_examples=60, stateful_step_count=50)


def walk(seed: int, steps: int) -> Counter[str]:
    """A long random walk; returns how often each kind of thing was done, so that a test can see it was no idle one."""
    chance = random.Random(seed)
    world = World(chance.choice)
    done: Counter[str] = Counter()
    handle = world.node.handle

    def count(now: int, event: object) -> list[ac.Action]:
        actions = handle(now, event)  # type: ignore[arg-type]
        done.update(_kind(action) for action in actions)
        return actions

    world.node.handle = count  # type: ignore[method-assign]
    for what in chance.choices(list(HAPPENINGS), list(HAPPENINGS.values()), k=steps):
        getattr(world, what)(chance.choice)
    world.end()
    return done


def _kind(action: ac.Action) -> str:
    return f"{type(action).__name__} {getattr(action, 'cause', '')}{getattr(action, 'end', '')}".strip()


@pytest.mark.parametrize("seed", range(8))
def test_every_rule_holds_on_a_long_random_walk(seed: int) -> None:
    done = walk(seed, steps=4000)
    wanted = [
        "GiveLock", "AnnounceRoom", "QueueClient", "TellContended", "DropLock quantum", "DropLock growth",
        "DropLock idle", "EndTurn released", "EndTurn revoked", "EndTurn left", "EndTurn off", "ReportLongWait",
    ]  # fmt: skip
    assert [kind for kind in wanted if not done[kind]] == []

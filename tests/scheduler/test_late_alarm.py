"""A scheduler that did not run for a while reads what has arrived before it calls a client silent."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.journal import Step
from nvshare.scheduler.engine import Engine

LIMIT = 8 * GIB


class Loop:
    """An event loop whose timers run when the test says so."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.delay = 0.0
        """Of the last timer, in seconds."""

    def call_later(self, delay: float, call: Callable[[], None]) -> Any:
        self.timers.append(call)
        self.delay = delay
        return self

    def cancel(self) -> None:
        self.timers.pop()

    def ring(self) -> None:
        self.timers.pop(0)()


def test_answers_that_wait_to_be_read_count_although_the_alarm_is_late() -> None:
    now = 0
    loop = Loop()
    node = Node(Settings(), epoch=1)
    engine = Engine(node, cast("asyncio.AbstractEventLoop", loop), clock=lambda: now)
    steps: list[Step] = []
    engine.observers.append(steps.append)
    for client, budget, used in ((1, LIMIT, GIB), (2, 0, 0)):
        claim = Claim("g0", 10 * GIB, memory=Memory(swappable=used), limit=LIMIT, budget=budget)
        engine.post(ev.ClientRegistered(client, "run/1", "", "", (claim,), own_limit=LIMIT))
    asked = engine.post(ev.BudgetAsked(2, "g0", 1, 2 * GIB))
    (recall,) = [action for action in asked.actions if isinstance(action, ac.RecallBudget)]
    now = 900 * MILLISECOND  # the process did not run; client 1 answered long ago
    loop.ring()
    engine.post(ev.MemoryChanged(2, "g0", Memory(contexts=1)))  # read before the answer
    answered = engine.post(ev.BudgetReturned(1, "g0", recall.serial, GIB, GIB))
    (grant,) = [action for action in answered.actions if isinstance(action, ac.GiveBudget)]
    assert grant.ask == 1
    assert grant.budget >= 2 * GIB
    assert not any(isinstance(step.event, ev.AlarmRang) for step in steps)


class SlowNode(Node):
    """Something is always due, and each alarm takes a time."""

    used_ns = 0

    def handle(self, now: int, event: ev.Event) -> list[ac.Action]:
        if isinstance(event, ev.AlarmRang):
            self.used_ns += 20 * MILLISECOND
        return super().handle(now, event)

    def next_deadline(self) -> int | None:
        return 0


def test_alarms_that_take_long_leave_most_of_the_time_to_others() -> None:
    loop = Loop()
    node = SlowNode(Settings(), epoch=1)
    engine = Engine(
        node, cast("asyncio.AbstractEventLoop", loop), clock=lambda: node.used_ns, work_clock=lambda: node.used_ns
    )
    assert loop.delay == 0
    loop.ring()
    assert len(loop.timers) == 1
    assert loop.delay == 0.06, "three times as long as the alarm took"
    engine.post(ev.SchedulingSwitched(True))
    assert len(loop.timers) == 1
    assert loop.delay == 0.06, "what others post does not end the pause"


def test_a_short_alarm_is_followed_by_no_pause() -> None:
    loop = Loop()
    node = SlowNode(Settings(), epoch=1)
    Engine(node, cast("asyncio.AbstractEventLoop", loop), clock=lambda: node.used_ns, work_clock=lambda: 0)
    loop.ring()
    assert loop.delay == 0

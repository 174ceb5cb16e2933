"""What one step of the core costs in a group that shares a limit: 10 to 1,000 members, each with 0 or 20 open
questions.

The questions stay open because nobody answers its recall; beyond the group's bound they are refused. Measured and
compared as in core_step. The bound is the same for all sizes: a step costs the same however many members and questions
there are."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from bench import python_floor
from bench.core_step import BATCH, BATCHES, GPU, figures
from nvshare.core import events as ev
from nvshare.core.model import GIB, MIB, Claim, Memory, Settings
from nvshare.core.node import Node

MEMBERS = (10, 100, 1000)
QUESTIONS = (0, 20)
WANTED_US = 20.0
GROUP = "run/1"
LIMIT = 8 * GIB


class Group:
    """Members that each use 2 of their 4 MiB. A question for nearly all of the limit stays open."""

    def __init__(self, members: int, questions: int) -> None:
        self.node = Node(Settings(context_bytes=0), epoch=1)
        self.members = members
        self.questions = questions
        self.now = 0
        self._asks = 0
        self._turn = 0
        self.do(ev.GpuFound(GPU, 80 * GIB))
        for client in range(1, members + 1):
            self._join(client)
        for _ in range(questions):
            for client in range(1, members + 1):
                self._ask(client)

    def do(self, event: ev.Event) -> None:
        """One step, and those that it leaves for later."""
        self.now += 1
        self.node.handle(self.now, event)
        while (deadline := self.node.next_deadline()) is not None and deadline <= self.now:
            self.node.handle(self.now, ev.AlarmRang())

    def _join(self, client: int) -> None:
        claim = Claim(GPU, 80 * GIB, memory=Memory(swappable=2 * MIB), limit=LIMIT, budget=4 * MIB)
        self.do(ev.ClientRegistered(client, GROUP, "", "", (claim,), own_limit=LIMIT))

    def _ask(self, client: int) -> None:
        self._asks += 1
        self.do(ev.BudgetAsked(client, GPU, self._asks, LIMIT - MIB))

    def _next(self) -> int:
        self._turn = self._turn % self.members + 1
        return self._turn

    def change(self) -> None:
        """A member says how much memory it has now."""
        self._asks += 1
        self.do(ev.MemoryChanged(self._next(), GPU, Memory(swappable=2 * MIB + self._asks % 2)))

    def ask(self) -> None:
        """A member asks for what it is given at once, or must wait in line for."""
        self._asks += 1
        self.do(ev.BudgetAsked(self._next(), GPU, self._asks, 4 * MIB + 1))

    def answer(self) -> None:
        """A member answers a recall, not the last one."""
        self.do(ev.BudgetReturned(self._next(), GPU, 0, 4 * MIB, 2 * MIB))

    def come_and_go(self) -> None:
        """A member leaves with its questions, and another comes with as many."""
        client = self._next()
        self.do(ev.ClientLeft(client))
        self._join(client)
        for _ in range(self.questions):
            self._ask(client)


STEPS: dict[str, tuple[Callable[[Group], None], float]] = {
    "memory changed": (Group.change, 4),
    "question": (Group.ask, 10),
    "answer": (Group.answer, 5.5),
    "come and go": (Group.come_and_go, 36),
}
"""What is timed, and the bound in multiples of the floor."""


def rows() -> list[dict[str, Any]]:
    """One row for each kind of step, number of members and of questions."""
    found = []
    for questions in QUESTIONS:
        for members in MEMBERS:
            for name, (call, max_ratio) in STEPS.items():
                group = Group(members, questions)
                gc.collect()
                steps = 2 + questions if call is Group.come_and_go else 1
                times = python_floor.time_us(partial(call, group), steps=steps, batch=BATCH, batches=BATCHES)
                row = {"bench": "budget step", "step": name, "members": members, "questions_each": questions}
                found.append(row | figures(times, WANTED_US, max_ratio))
    return found


if __name__ == "__main__":
    json.dump(rows(), sys.stdout, indent=1)

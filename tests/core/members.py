"""Processes that share a limit, as docs/protocol.md and the library have them: budget, keep, frees, questions."""

from collections import deque
from dataclasses import dataclass

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import UNLIMITED, Memory

MOST_ASKS = 100
GPU = "g0"


@dataclass
class Question:
    """An allocation that waits for an answer."""

    size: int
    need: int
    asked: int = 0


@dataclass
class Account:
    """What a process may have, by what it was told so far."""

    used: int = 0
    limit: int = 0
    budget: int = UNLIMITED
    keep: int | None = None

    @property
    def belief(self) -> int:
        """How much it takes itself to be allowed."""
        return min(self.budget, self.limit) if self.limit else UNLIMITED

    def hear(self, message: ac.Action) -> None:
        match message:
            case ac.UpdateLimit(limit=limit):
                self.limit = limit
            case ac.GiveBudget(serial=serial, budget=budget) if serial:
                self.budget, self.keep = budget, None
            case ac.RecallBudget(keep=keep) if keep < self.budget:
                self.keep = keep
                self.fall_back()
            case _:
                pass

    def reserve(self, size: int) -> str:
        """What becomes of an allocation: there is room (and it is charged), ask for more, or no."""
        need = self.used + size
        if need <= self.belief:
            self.used = need
            return "room"
        return "refuse" if need > self.limit else "ask"

    def free(self, size: int) -> None:
        self.used -= min(size, self.used)
        self.fall_back()

    def fall_back(self) -> None:
        if self.keep is not None:
            self.budget = min(self.budget, max(self.used, self.keep))


class Member:
    """One process. `said` and `told` are messages on their way, each in order."""

    def __init__(self, client: int, own_limit: int) -> None:
        self.id = client
        self.own_limit = own_limit
        self.account = Account(limit=own_limit)
        self.reported = 0
        self.told: deque[ac.Action] = deque()
        self.said: deque[ev.Event] = deque()
        self.questions: dict[int, Question] = {}
        self.refused: list[int] = []
        self.last_ask = 0
        self.is_stopped = False

    @property
    def used(self) -> int:
        return self.account.used

    def allocate(self, size: int) -> None:
        self._try(Question(size, 0))

    def free(self, size: int) -> None:
        """At once for us, and for the scheduler with the next report."""
        self.account.free(size)

    def report(self) -> None:
        if self.reported != self.used:
            self.reported = self.used
            self.said.append(ev.MemoryChanged(self.id, GPU, Memory(swappable=self.used)))

    def hear(self) -> None:
        message = self.told.popleft()
        self.account.hear(message)
        if isinstance(message, ac.RecallBudget):
            self.said.append(ev.BudgetReturned(self.id, GPU, message.serial, self.account.budget, self.used))
        elif isinstance(message, ac.GiveBudget) and message.ask:
            question = self.questions.pop(message.ask)
            if message.budget < question.need:
                self.refused.append(question.size)
            else:
                self._try(question)

    def lose_scheduler(self) -> None:
        """The daemon has gone: what is on its way is lost, and whoever waits for an answer has it: no."""
        self.told.clear()
        self.said.clear()
        self.refused += [question.size for question in self.questions.values()]
        self.questions.clear()

    def _try(self, question: Question) -> None:
        question.need = self.used + question.size
        verdict = self.account.reserve(question.size)
        if verdict == "refuse":
            self.refused.append(question.size)
        elif verdict == "ask":
            question.asked += 1
            assert question.asked < MOST_ASKS, "a yes that is not one, for ever"
            self.last_ask += 1
            self.questions[self.last_ask] = question
            self.said.append(ev.BudgetAsked(self.id, GPU, self.last_ask, question.need))

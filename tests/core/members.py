"""Processes that share a limit, with the library's own account: budget, keep, frees, questions.

What is allowed is decided by the shipped account. Messages are events and actions without a connection, so that each
can be late by itself. The simulated worlds (schedsim/worlds) send them through the client machine."""

from collections import deque
from dataclasses import dataclass

from nvshare.client_machine.library import Account, Verdict
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, UNLIMITED, Memory

MAX_ASKS = 100
GPU = "g0"


@dataclass
class Question:
    """An allocation that waits for an answer, and what an onlooker saw meanwhile."""

    size: int
    need: int
    asked: int = 0
    peak: int = 0
    """The most that all members had or were about to have, this allocation included."""
    own_peak: int = 0
    least_limit: int = UNLIMITED
    least_own_limit: int = UNLIMITED
    is_excused: bool = False
    """When it was answered, some member had left a recall unanswered for the recall time."""


class BudgetAccount(Account):
    """The library's own account, told what the core says."""

    @property
    def belief(self) -> int:
        """How much it takes itself to be allowed."""
        return min(self.budget, self.limit) if self.limit else UNLIMITED

    def hear(self, message: ac.Action) -> None:
        match message:
            case ac.UpdateLimit(limit=limit):
                self.set_limit(limit)
            case ac.GiveBudget(serial=serial, budget=budget, others=others) if serial:
                self.set_budget(budget, others)
            case ac.RecallBudget(keep=keep):
                self.recall(keep)
            case _:
                pass


class Member:
    """One process. `said` and `told` are messages on their way, each in order."""

    def __init__(self, client: int, own_limit: int) -> None:
        self.id = client
        self.own_limit = own_limit
        self.account = BudgetAccount.of(80 * GIB, own_limit)
        self.reported = 0
        self.told: deque[ac.Action] = deque()
        self.said: deque[ev.Event] = deque()
        self.questions: dict[int, Question] = {}
        self.refused: list[Question] = []
        self.last_ask = 0
        self.is_stopped = False
        self.recalled: deque[int] = deque()
        """When the recalls were sent that it has not answered."""

    @property
    def used(self) -> int:
        return self.account.used

    @property
    def wanted(self) -> int:
        """What it has, and what its threads are just asking for."""
        return self.used + sum(question.size for question in self.questions.values())

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
            if message.budget < question.need <= self.used + question.size:
                self.refused.append(question)
            else:  # Granted, or another thread has freed memory since: what is needed now is less than was refused.
                self._try(question)

    def hear_all(self) -> None:
        while self.told:
            self.hear()

    def lose_scheduler(self) -> None:
        """The daemon has gone: what is on its way is lost, and so are the questions."""
        self.told.clear()
        self.said.clear()
        self.recalled.clear()
        self.questions.clear()

    def _try(self, question: Question) -> None:
        question.need = self.used + question.size
        verdict = self.account.reserve(question.size)
        if verdict is Verdict.REFUSE:
            question.own_peak = question.need
            question.least_own_limit = self.account.limit
            self.refused.append(question)
        elif verdict is Verdict.ASK:
            question.asked += 1
            assert question.asked < MAX_ASKS, "a yes that is not one, for ever"
            self.last_ask += 1
            self.questions[self.last_ask] = question
            self.said.append(ev.BudgetAsked(self.id, GPU, self.last_ask, question.need))

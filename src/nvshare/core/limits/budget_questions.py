"""Questions about budget that wait for an answer: first come, first served, and bounded in number."""

from collections import deque

from nvshare.core.limits.limit_members import Share

MAX_QUESTIONS = 4096
"""Questions of one group that may be open at once on one GPU; one more is refused at once."""
MAX_QUESTIONS_OF_ONE = 256
"""The same for one member. A process with more threads than this in allocations counts as a flood."""


class Question:
    """A member waits for an answer."""

    __slots__ = ("ask", "deadline", "is_open", "need", "round", "share")

    def __init__(self, share: Share, ask: int, need: int, deadline: int, current_round: int) -> None:
        self.share = share
        self.ask = ask
        self.need = need
        self.deadline = deadline
        self.round = current_round
        """The last round that had begun when it came: a later one's proof holds for it."""
        self.is_open = True


class Questions:
    """Those of one group on one GPU. A closed one stays in its queue until it comes up, and is skipped."""

    def __init__(self) -> None:
        self.open = 0
        self._arrived: deque[Question] = deque()
        self._waiting: deque[Question] = deque()
        self._of: dict[int, set[Question]] = {}

    def add(self, question: Question) -> None:
        self._arrived.append(question)
        self._of.setdefault(question.share.client, set()).add(question)
        self.open += 1

    def next_arrived(self) -> Question | None:
        """One that has not been decided yet; `wait` or `close` it."""
        while self._arrived:
            question = self._arrived.popleft()
            if question.is_open:
                return question
        return None

    def wait(self, question: Question) -> None:
        self._waiting.append(question)

    @property
    def first(self) -> Question | None:
        while self._waiting and not self._waiting[0].is_open:
            self._waiting.popleft()
        return self._waiting[0] if self._waiting else None

    def is_too_many(self, question: Question) -> bool:
        return self.open > MAX_QUESTIONS or len(self._of[question.share.client]) > MAX_QUESTIONS_OF_ONE

    def close(self, question: Question) -> None:
        question.is_open = False
        own = self._of[question.share.client]
        own.remove(question)
        if not own:
            del self._of[question.share.client]
        self.open -= 1

    def close_all_of(self, client: int) -> None:
        for question in list(self._of.get(client, ())):
            self.close(question)

    def take_over(self, other: "Questions", current_round: int) -> None:
        """The members of another group join, with their questions. All are looked at again, in the order of asking."""
        ours, theirs = self._all_open(), other._all_open()
        for question in theirs:
            question.round = current_round
        self._arrived = deque(sorted([*ours, *theirs], key=lambda question: question.deadline))
        self._waiting.clear()
        self._of.update(other._of)
        self.open += other.open

    def _all_open(self) -> list[Question]:
        return [question for question in (*self._waiting, *self._arrived) if question.is_open]

    def check(self, shares: dict[int, Share]) -> None:
        """What must hold, in full; for tests."""
        waiting = self._all_open()
        assert len(waiting) == self.open == sum(len(own) for own in self._of.values())
        assert all(question.share is shares[question.share.client] for question in waiting)

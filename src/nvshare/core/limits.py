"""Memory limits: one group (a pod, a container, one `nvshare run`) on one GPU, shared exactly by its processes.

Theory of operation. The limit is handed out as budgets, whose sum never exceeds it. A process alone has all of it. With
several, each allocates within its budget without a word to us, and asks when it needs more. If what is not handed out
is too little, the others' unused budgets are recalled first; the answer waits for theirs, 200 ms at most, because a
stopped process must not stop its neighbours for longer.

What we count for a member is an upper bound of what it believes to have. A grant raises the bound before it is sent; a
recall lowers it only when the member has answered. `keep` tells a member what its budget should fall to; while it uses
more, every free lowers the budget, and so does its every report here. Serials pair a return with its recall: a return
that crossed a later grant is ignored, and the bound stays high, which is safe. An answer that changes nothing has
serial 0 and leaves recalls and `keep` as they are.

A lowered limit takes nothing that is in use. While the budgets together exceed the limit nobody's grows."""

from collections import deque
from collections.abc import Iterable

from nvshare.core.actions import Action, GiveBudget, RecallBudget, UpdateLimit
from nvshare.core.model import UNLIMITED


class Share:
    """What one member has of the limit."""

    __slots__ = ("budget", "cap", "client", "keep", "limit_told", "recall", "recall_sent", "serial", "used")

    def __init__(self, client: int, *, budget: int, used: int, limit_told: int, cap: int) -> None:
        self.client = client
        self.budget = budget
        self.used = used
        self.limit_told = limit_told
        self.cap = cap
        """What the process says of itself: its own lower limit; 0 is none."""
        self.serial = 0
        self.keep: int | None = None
        self.recall: int | None = None
        """The serial of a recall that has not been answered."""
        self.recall_sent = 0

    @property
    def foreseen(self) -> int:
        """The budget once an unanswered recall is answered, as far as we know."""
        return self.budget if self.keep is None else max(self.used, min(self.budget, self.keep))


class Ask:
    """A member waits for an answer."""

    __slots__ = ("ask", "deadline", "need", "recalled", "share")

    def __init__(self, share: Share, ask: int, need: int, deadline: int) -> None:
        self.share = share
        self.ask = ask
        self.need = need
        self.deadline = deadline
        self.recalled: set[int] | None = None
        """Who was recalled for this and has not answered; None while nobody was."""


class SharedLimit:
    """The limit of one group on one GPU and its members' budgets."""

    def __init__(self, gpu: str, recall_ns: int) -> None:
        self.gpu = gpu
        self.limit = 0
        self.shares: dict[int, Share] = {}
        self.asks: deque[Ask] = deque()
        self._recall_ns = recall_ns

    @property
    def deadline(self) -> int | None:
        return min((ask.deadline for ask in self.asks), default=None)

    @property
    def used(self) -> int:
        return sum(share.used for share in self.shares.values())

    # Facts noted.

    def join(self, share: Share) -> None:
        self.shares[share.client] = share

    def leave(self, client: int) -> None:
        del self.shares[client]
        self.asks = deque(ask for ask in self.asks if ask.share.client != client)
        for ask in self.asks:
            if ask.recalled:
                ask.recalled.discard(client)

    def note_used(self, client: int, used: int) -> None:
        share = self.shares[client]
        share.used = used
        if share.keep is not None and share.recall is None:
            share.budget = min(share.budget, max(share.keep, used))

    def note_ask(self, now: int, client: int, ask: int, need: int) -> None:
        self.asks.append(Ask(self.shares[client], ask, need, now + self._recall_ns))

    def note_return(self, client: int, serial: int, budget: int, used: int) -> None:
        share = self.shares[client]
        if share.recall != serial:
            return
        share.recall = None
        share.used = used
        share.budget = min(share.budget, max(budget, used))
        for ask in self.asks:
            if ask.recalled:
                ask.recalled.discard(client)

    def check(self) -> None:
        """What must hold, in full; for tests."""
        for share in self.shares.values():
            assert share.recall is None or share.keep is not None
            assert share.recall is None or 0 < share.recall <= share.serial
        for ask in self.asks:
            assert ask.share is self.shares[ask.share.client]

    # What follows.

    def settle(self, now: int, out: list[Action], *, frozen: bool) -> None:
        """Tell limits, bring budgets within them, answer who asks. Frozen: nobody gets more than it has."""
        for share in self.shares.values():
            self._tell_limit(share, out)
        if not frozen:
            if self.limit == 0:
                self._lift(out)
            elif len(self.shares) == 1:
                self._give_all(now, next(iter(self.shares.values())), out)
            else:
                self._reduce(now, out)
        self._answer(now, out, frozen)

    def _tell_limit(self, share: Share, out: list[Action]) -> None:
        limit = self._limit_of(share)
        if limit != share.limit_told:
            share.limit_told = limit
            out.append(UpdateLimit(share.client, self.gpu, limit))

    def _limit_of(self, share: Share) -> int:
        """The group's limit, or what the process says of itself if that is lower."""
        return min(filter(None, (self.limit, share.cap)), default=0)

    def _lift(self, out: list[Action]) -> None:
        for share in self.shares.values():
            budget = self._limit_of(share) or UNLIMITED
            if share.budget != budget:
                self._give(share, budget, 0, out)

    def _give_all(self, now: int, share: Share, out: list[Action]) -> None:
        limit = self._limit_of(share)
        if share.budget < limit:
            self._give(share, limit, 0, out)
        elif share.budget > limit and share.keep != limit:
            self._recall(now, share, limit, out)

    def _reduce(self, now: int, out: list[Action]) -> None:
        """Recall from the newest on until the budgets will fit the limit."""
        excess = sum(share.foreseen for share in self.shares.values()) - self.limit
        for share in reversed(self.shares.values()):
            if excess <= 0:
                return
            if share.keep != 0:
                excess -= share.foreseen
                self._recall(now, share, 0, out)
                excess += share.foreseen

    def _answer(self, now: int, out: list[Action], frozen: bool) -> None:
        waiting: deque[Ask] = deque()
        for ask in self.asks:
            if not self._answered(now, ask, is_first=not waiting, frozen=frozen, out=out):
                waiting.append(ask)
        self.asks = waiting

    def _answered(self, now: int, ask: Ask, *, is_first: bool, frozen: bool, out: list[Action]) -> bool:
        share = ask.share
        most = self._limit_of(share) or UNLIMITED
        more = min(ask.need, most) - share.budget
        if more <= 0 or ask.need > most:
            self._keep_as_is(share, ask.ask, out)
            return True
        spare = self.limit - self._handed_out()
        if not frozen and share.recall is None and spare >= more:
            slack = (spare - more) // len(self.shares)
            self._give(share, min(most, share.budget + more + slack), ask.ask, out)
            return True
        if is_first and not frozen and ask.recalled is None:
            ask.recalled = self._recall_for(now, share, out)
        is_final = ask.recalled is not None and not ask.recalled and share.recall is None
        if is_final or now >= ask.deadline:
            self._keep_as_is(share, ask.ask, out)
            return True
        return False

    def _recall_for(self, now: int, asker: Share, out: list[Action]) -> set[int]:
        """Recall what the others do not use; who has left an earlier recall unanswered for long is not waited for."""
        awaited: set[int] = set()
        for share in self.shares.values():
            if share is asker or not share.budget:
                continue
            if share.recall is None:
                self._recall(now, share, 0, out)
            if now - share.recall_sent < self._recall_ns:
                awaited.add(share.client)
        return awaited

    def _handed_out(self) -> int:
        return sum(share.budget for share in self.shares.values())

    def _give(self, share: Share, budget: int, ask: int, out: list[Action]) -> None:
        share.serial += 1
        share.budget, share.keep, share.recall = budget, None, None
        out.append(GiveBudget(share.client, self.gpu, share.serial, ask, budget, self.used - share.used))

    def _keep_as_is(self, share: Share, ask: int, out: list[Action]) -> None:
        out.append(GiveBudget(share.client, self.gpu, 0, ask, share.budget, self.used - share.used))

    def _recall(self, now: int, share: Share, keep: int, out: list[Action]) -> None:
        share.serial += 1
        share.keep, share.recall, share.recall_sent = keep, share.serial, now
        out.append(RecallBudget(share.client, self.gpu, share.serial, keep))


class Group:
    """Who shares a limit, and what each authority says it is. The first that speaks, in this order, counts."""

    __slots__ = (
        "annotation", "environment", "is_listed", "is_pod", "key", "label", "limits", "operator", "priority",
        "provisional", "weight",
    )  # fmt: skip

    def __init__(self, key: str, label: str, *, is_pod: bool) -> None:
        self.key = key
        self.label = label
        self.is_pod = is_pod
        self.is_listed = False
        """Kubernetes has this pod."""
        self.priority: int | None = None
        self.weight: int | None = None
        self.annotation: int | None = None
        self.operator: int | None = None
        self.provisional: int | None = None
        """What its clients say they were told before a restart, until the pods are listed."""
        self.environment: int | None = None
        self.limits: dict[str, SharedLimit] = {}

    @property
    def limit(self) -> int:
        for limit in (self.annotation, self.operator, self.provisional, self.environment):
            if limit is not None:
                return limit
        return 0

    def apply(self) -> Iterable[SharedLimit]:
        """Hand the limit to every GPU that the group is on; they need settling."""
        for shared in self.limits.values():
            shared.limit = self.limit
        return self.limits.values()

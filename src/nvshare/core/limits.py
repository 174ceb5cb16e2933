"""Memory limits: one group (a pod, a container, one `nvshare run`) on one GPU, shared exactly by its processes.

Theory of operation. The limit is handed out as budgets, whose sum never exceeds it. A process alone has all of it. With
several, each allocates within its budget without a word to us, and asks when it needs more. If what is not handed out
is too little, the others' unused budgets are recalled first; the answer waits for theirs, 200 ms at most, because a
stopped process must not stop its neighbours for longer.

What we count for a member is an upper bound of what it believes to have. A grant raises the bound before it is sent
and never lowers it; a recall lowers it only when the member has answered. `keep` tells a member what its budget should
fall to; while it uses more, every free lowers the budget, and so does its every report here. Serials pair a return with
its recall: a return that crossed a later grant is ignored, and the bound stays high, which is safe. An answer that
changes nothing has serial 0 and leaves recalls and `keep` as they are.

Because a member's frees run ahead of its reports, one with a `keep` may ask for less than we count for it. As long as
everything is within the limit it is told its budget again. Otherwise it is asked, by a recall of its own, what it has.

A lowered limit takes nothing that is in use. While the budgets together exceed the limit nobody's grows.
docs/decisions/0002 says why it is done this way."""

from collections import deque

from nvshare.core.actions import Action, GiveBudget, RecallBudget, UpdateLimit
from nvshare.core.model import MIB, UNLIMITED

MOST_ASKS = 64
"""Questions of one member that may be open at once; one more, and the oldest is answered as things are."""


class Share:
    """What one member has of the limit."""

    __slots__ = ("budget", "cap", "client", "keep", "limit_told", "recall", "recall_sent", "reported", "serial", "used")

    def __init__(self, client: int, *, budget: int, used: int, limit_told: int, cap: int) -> None:
        self.client = client
        self.budget = budget
        self.used = self.reported = used
        """What it uses as far as we can tell, and what it last said of it of its own accord."""
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
        return self.bound if self.keep is None else max(self.used, min(self.budget, self.keep))

    @property
    def is_exact(self) -> bool:
        """True if the member has this very budget, or will when it has read what is on its way. With a `keep`, ours or
        one of an earlier daemon, it may have less: each free lowers it before we hear of it."""
        return self.keep is None and self.serial > 0

    @property
    def bound(self) -> int:
        """What must be set aside for this member: more than its budget if it uses more, however that came to be."""
        return max(self.budget, self.used)


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

    def note_used(self, client: int, used: int) -> bool:
        """False if that is nothing new."""
        share = self.shares[client]
        if share.used == share.reported == used:
            return False
        share.used = share.reported = used
        if share.keep is not None and share.recall is None:
            share.budget = min(share.budget, max(share.keep, used))
        return True

    def note_ask(self, now: int, client: int, ask: int, need: int) -> None:
        share = self.shares[client]
        open_asks = [other for other in self.asks if other.share is share]
        if len(open_asks) >= MOST_ASKS:
            open_asks[0].deadline = now
        self.asks.append(Ask(share, ask, need, now + self._recall_ns))

    def note_return(self, client: int, serial: int, budget: int, used: int) -> None:
        share = self.shares[client]
        if share.recall != serial:
            return
        share.recall = None
        share.budget = min(share.budget, max(budget, used))
        # What it gave back it does not use. Otherwise its last report stays in force: it sends another when that has
        # become wrong, and what it uses just now may have changed back before then.
        share.used = min(share.reported, max(share.budget, used))
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
        """Tell limits, bring budgets within them, answer who asks. Frozen: nobody gets more of a limit than it has."""
        for share in self.shares.values():
            self._tell_limit(share, out)
        if self.limit == 0:
            self._lift(out)
        elif not frozen:
            if len(self.shares) == 1:
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
            budget = max(share.budget, share.cap or UNLIMITED)
            if share.budget < budget or share.keep is not None or (share.cap and not share.is_exact):
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
        if ask.need == 0 or (share.is_exact and ask.need <= share.budget):
            self._answer_as_is(ask, share.budget, out)
            return True
        if ask.need > most:
            self._refuse(ask, out)
            return True
        if frozen:
            return self._answered_late(now, ask, out)
        room = self.limit - sum(other.bound for other in self.shares.values() if other is not share)
        wanted = max(ask.need, share.bound)
        if share.recall is None and wanted <= room:
            # Some of what is left over goes with it, but not what an earlier question may still need.
            slack = (room - wanted) // len(self.shares) // MIB * MIB if is_first else 0
            self._give(share, max(wanted, min(most, wanted + slack)), ask.ask, out)
            return True
        if is_first and ask.recalled is None:
            ask.recalled = self._recall_for(now, ask, out)
        if ask.recalled is not None and not ask.recalled and share.recall is None:
            self._answer_finally(ask, out)
            return True
        return self._answered_late(now, ask, out)

    def _answered_late(self, now: int, ask: Ask, out: list[Action]) -> bool:
        if now >= ask.deadline:
            self._refuse(ask, out)
        return now >= ask.deadline

    def _answer_finally(self, ask: Ask, out: list[Action]) -> None:
        """All have given back what they do not use, and it is too little; unless the asker itself turns out to have
        what it asked for, because an answer to another of its questions overtook this one. It then looks again."""
        if ask.need <= ask.share.budget:
            self._answer_as_is(ask, ask.share.budget, out)
        else:
            self._refuse(ask, out)

    def _recall_for(self, now: int, ask: Ask, out: list[Action]) -> set[int]:
        """Recall what the others do not use, and the asker's too if it asks for less than we count for it: only its
        answer tells what it has. Who has left an earlier recall unanswered for long is not waited for."""
        awaited: set[int] = set()
        for share in self.shares.values():
            if not share.budget or (share is ask.share and ask.need > share.budget):
                continue
            if share.recall is None:
                self._recall(now, share, 0, out)
            if now - share.recall_sent < self._recall_ns:
                awaited.add(share.client)
        return awaited

    def _give(self, share: Share, budget: int, ask: int, out: list[Action]) -> None:
        share.serial += 1
        share.budget, share.keep, share.recall = budget, None, None
        share.used = max(share.used, min(share.reported, budget))
        out.append(GiveBudget(share.client, self.gpu, share.serial, ask, budget, self.used - share.used))

    def _refuse(self, ask: Ask, out: list[Action]) -> None:
        """A no must look like one: what we count may be more than the member has, and more than it asked for."""
        self._answer_as_is(ask, min(ask.share.budget, ask.need - 1), out)

    def _answer_as_is(self, ask: Ask, budget: int, out: list[Action]) -> None:
        share = ask.share
        out.append(GiveBudget(share.client, self.gpu, 0, ask.ask, budget, self.used - share.used))

    def _recall(self, now: int, share: Share, keep: int, out: list[Action]) -> None:
        share.serial += 1
        share.keep, share.recall, share.recall_sent = keep, share.serial, now
        out.append(RecallBudget(share.client, self.gpu, share.serial, keep))

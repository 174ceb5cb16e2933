"""Memory limits: one group (a pod, a container, one `nvshare run`) on one GPU, shared exactly by its processes.

Theory of operation. The limit is divided into budgets, whose sum never exceeds it. A single process has all of it. With
several processes, each allocates within its budget without a message, and asks when it needs more. If the part that is
not granted is too small, the unused budgets of the others are recalled first.

Upper bounds. For each member we count an upper bound of the budget that it believes to have. A grant raises the bound
before it is sent and never lowers it; a recall lowers it only when the member has answered. `keep` tells a member to
which value its budget should fall; while it uses more, every free lowers the budget, and every report lowers the bound
here. Serials pair a return with its recall: a return that crossed a later grant is ignored, and the bound stays high,
which is safe. An answer that changes nothing has serial 0 and leaves recalls and `keep` as they are.

Refusals. A refusal is right if there was a moment, after the question, when the allocation did not fit. Bounds alone do
not show this: they belong to different moments, and memory that one member freed may be counted again for the member
that took it. So a refusal needs a proof, in two rounds. First every member is made tight: it answers a recall with keep
0, and cannot grow from then on without a grant. Then all members that have a budget are asked again. During this round
members only shrink, so at its beginning they used at least what they answer. A request that does not fit beside these
answers did not fit at that moment. The proof holds for every question that came before the second round began. A grant
or a new member ends the round, and it begins again. Only the asking process knows what its other threads freed
meanwhile; it asks again, for less.

Questions are answered in the order of their arrival: a later one that passed would end the round that the first waits
for. A process that sends nothing for the recall time (200 ms) is silent: a stopped process must not stop the others.
Its budget is counted, because it may be in use, and no question waits for it until it answers. A process that sends
other messages is waited for, but no question waits longer than four recall times. After a restart of the daemon
nothing is granted until all have had time to register; the recall time begins then. Memory in use is not taken here;
memory.live_shrink moves it to the host. While the sum of the budgets exceeds the limit, no budget grows.

Cost. A step does at most MAX_PER_STEP things (recalls, limits told, answers); the rest is done in the next step, which
`deadline` requests at once. docs/decisions/0002 gives the reasons."""

from collections import deque

from nvshare.core.actions import Action, GiveBudget, RecallBudget, UpdateLimit
from nvshare.core.limits.budget_questions import Question, Questions
from nvshare.core.limits.limit_members import LimitMembers, Share
from nvshare.core.model import MIB, UNLIMITED

LONGEST = 4  # In recall times: a question waits at most this long, also for members that send messages.
MAX_PER_STEP = 32


class SharedLimit:
    """The limit of one group on one GPU and its members' budgets."""

    def __init__(self, gpu: str, recall_ns: int) -> None:
        self.gpu = gpu
        self.limit = 0
        self.members = LimitMembers(recall_ns)
        self.shares = self.members.by_client
        self._recall_ns = recall_ns
        self._now = self._settled_at = 0
        self._is_settling = False
        self.has_rung = False  # Only then may a member count as silent: before, answers may not have been read yet.
        self._left, self.round, self._is_round_on = MAX_PER_STEP, 0, False
        self._to_visit: dict[int, Share] = {}  # members that may have to be told another limit
        self.questions = Questions()
        self._to_confirm: deque[Share] = deque()
        self._proof_round = self._proof_spare = 0  # the last proof: which round, and what was free when it began

    @property
    def deadline(self) -> int | None:
        """When to call `decide` again; None: not before something happens."""
        if self._left <= 0:
            return self._now
        first = None if self._is_settling else self.questions.first
        return None if first is None else min(self._deadline_of(first), self.members.next_silence or UNLIMITED)

    # Facts noted.

    def set_limit(self, limit: int) -> None:
        if limit != self.limit:
            self.limit = limit
            self._to_visit = dict(self.members.by_client)
            self._is_round_on = False
            self._proof_round = 0

    def set_cap(self, client: int, cap: int) -> None:
        share = self.shares[client]
        if share.cap != cap:
            share.cap = cap
            self._to_visit[client] = share

    def join(self, share: Share) -> None:
        self.members.join(share)
        self._to_visit[share.client] = share
        self._is_round_on = False

    def leave(self, client: int) -> None:
        self.members.leave(client)
        self._to_visit.pop(client, None)
        self.questions.close_all_of(client)

    def note_used(self, now: int, client: int, used: int) -> bool:
        """False if that is nothing new."""
        share = self.shares[client]
        self.members.note_life(now, share)
        if share.used == share.reported == used:
            return False
        share.reported = used
        budget = share.budget
        if share.keep is not None and (share.recall is None or share.home is self.members.confirming):
            budget = min(budget, max(share.keep, used))
        self.members.change(share, budget=budget, used=used, keep=share.keep)
        return True

    def note_ask(self, now: int, client: int, ask: int, need: int) -> None:
        share = self.shares[client]
        self.members.note_life(now, share)
        self.questions.add(Question(share, ask, need, now + LONGEST * self._recall_ns, self.round))

    def note_return(self, now: int, client: int, serial: int, budget: int, used: int) -> None:
        share = self.shares[client]
        if share.recall is None:
            return
        if share.recall != serial:
            self.members.note_life(now, share)
            return
        share.recall = None
        budget = min(share.budget, max(budget, used))
        # What it gave back it does not use. Otherwise its last report stays in force: it sends another when that has
        # become wrong, and what it uses just now may have changed back before then.
        self.members.change(share, budget=budget, used=min(share.reported, max(budget, used)), keep=share.keep)
        if share.keep == 0:
            self.members.move(share, self.members.tight)

    def check(self) -> None:
        """What must hold, in full; for tests."""
        self.members.check()
        self.questions.check(self.shares)

    # What follows.

    def decide(self, now: int, out: list[Action], *, is_settling: bool) -> None:
        """Tell limits, bring budgets within them, answer questions. While settling no budget grows."""
        if self._is_settling and not is_settling:
            self._settled_at = now
        self._now, self._is_settling, self._left = now, is_settling, MAX_PER_STEP
        if self.has_rung:
            self.members.note_silence(now)
        while self._to_visit and self._left > 0:
            self._visit(self._to_visit.popitem()[1], out)
            self._left -= 1
        if self.limit and len(self.members) == 1:
            self._give_all(next(iter(self.members)), out)
        elif self.limit:
            self._reduce(out)
        self._receive(out)
        self._answer(out)
        self.has_rung = False

    def _visit(self, share: Share, out: list[Action]) -> None:
        """Tell a member its limit, and lift its budget if the group has none."""
        limit = self._limit_of(share)
        if limit != share.limit_told:
            share.limit_told = limit
            out.append(UpdateLimit(share.client, self.gpu, limit))
        if self.limit == 0:
            budget = max(share.budget, share.cap or UNLIMITED)
            if share.budget < budget or share.keep is not None or (share.cap and not share.is_exact):
                self._give(share, budget, 0, out)

    def _limit_of(self, share: Share) -> int:
        """The group's limit, or what the process says of itself if that is lower."""
        return min(self.limit, share.cap) if self.limit and share.cap else self.limit or share.cap

    def _give_all(self, share: Share, out: list[Action]) -> None:
        limit = self._limit_of(share)
        most = 0 if self._is_settling else limit  # Others who have part of it may not have registered yet.
        if share.budget < most:
            self._give(share, most, 0, out)
        elif share.budget > limit and (share.keep is None or share.keep > most):
            self._recall(share, most, out)

    def _reduce(self, out: list[Action]) -> None:
        """Recall, beginning with the member that got budget last, until the budgets will fit the limit."""
        members = self.members
        while members.foreseen > self.limit and members.loose and self._left > 0:
            self._recall(members.loose[next(reversed(members.loose))], 0, out)

    # Questions.

    def _receive(self, out: list[Action]) -> None:
        """Answer what needs no waiting; the rest queues up."""
        while (question := self.questions.next_arrived()) is not None:
            if self._is_plain(question, out):
                continue
            if self.questions.is_too_many(question):
                self._refuse(question, out)
            else:
                self.questions.wait(question)

    def _answer(self, out: list[Action]) -> None:
        while self._left > 0 and (question := self.questions.first) is not None:
            is_decided = self._is_decided(question, out)
            if not is_decided and not (self._has_proof(question, out) and self._is_decided(question, out)):
                return
            self._left -= 1

    def _deadline_of(self, question: Question) -> int:
        return max(question.deadline, self._settled_at + LONGEST * self._recall_ns)

    def _is_plain(self, question: Question, out: list[Action]) -> bool:
        """Answered, because it changes nothing or can never be granted."""
        share, need = question.share, question.need
        if self._to_visit.pop(share.client, None) is not None:
            self._visit(share, out)
        if need == 0 or self.limit == 0 or (share.is_exact and need <= share.budget):
            self._answer_as_is(question, share.budget, out)
        elif need > self._limit_of(share):
            self._refuse(question, out)
        else:
            return False
        return True

    def _is_decided(self, question: Question, out: list[Action]) -> bool:
        if self._is_plain(question, out):
            return True
        if self._is_settling:
            return False
        share, members = question.share, self.members
        spare = self.limit - members.bound
        wanted = max(question.need, share.bound)
        # A member that asks for less than is counted for it is answered after its own answer, which shows what it has.
        is_known = share.recall is None or share.home is members.silent or question.need > share.bound
        if is_known and wanted - share.bound <= spare:
            # Some of what is left over goes with it, but not what another question may need.
            slack = (spare - wanted + share.bound) // len(members) // MIB * MIB if self.questions.open == 1 else 0
            budget = max(wanted, min(self._limit_of(share), wanted + slack))
            self.questions.close(question)
            self._give(share, budget, question.ask, out)
        elif question.round < self._proof_round and wanted - share.bound > self._proof_spare:
            # Usually a no; but an answer to another of the asker's questions may have overtaken this one.
            has_it = question.need <= share.budget and share.home is not members.silent
            self._answer_as_is(question, share.budget if has_it else min(share.budget, question.need - 1), out)
        elif self.has_rung and self._now >= self._deadline_of(question):
            self._refuse(question, out)
        else:
            return False
        return True

    def _has_proof(self, question: Question, out: list[Action]) -> bool:
        """Learn what all members use. True if a round that began after the question has just ended."""
        if self._is_settling:
            return False
        members = self.members
        while members.loose and self._left > 0:
            self._recall(members.loose[next(reversed(members.loose))], 0, out)
        if members.loose or members.awaited:
            self._is_round_on = False
            return False
        if question.round == self.round:
            self._is_round_on = False  # It began before the first question came, and so before all of them.
        if not self._is_round_on:
            self._is_round_on = True
            self.round += 1
            self._to_confirm = deque((*members.tight.values(), *members.confirming.values()))
        while self._to_confirm and self._left > 0:
            share = self._to_confirm.popleft()
            self._left -= 1
            if share.bound and self.shares.get(share.client) is share and share.home is not members.silent:
                self._recall(share, 0, out)
        if self._to_confirm or members.confirming:
            return False
        self._is_round_on = False
        self._proof_round, self._proof_spare = self.round, self.limit - members.bound
        return True

    # What is said.

    def _give(self, share: Share, budget: int, ask: int, out: list[Action]) -> None:
        share.serial += 1
        share.recall = None
        self.members.change(share, budget=budget, used=max(share.used, min(share.reported, budget)), keep=None)
        self.members.move(share, self.members.loose)
        self._is_round_on = False
        out.append(GiveBudget(share.client, self.gpu, share.serial, ask, budget, self.members.used - share.used))

    def _refuse(self, question: Question, out: list[Action]) -> None:
        """The answer must be less than the request: the budget that we count may be more than the member asked for."""
        self._answer_as_is(question, min(question.share.budget, question.need - 1), out)

    def _answer_as_is(self, question: Question, budget: int, out: list[Action]) -> None:
        share = question.share
        self.questions.close(question)
        out.append(GiveBudget(share.client, self.gpu, 0, question.ask, budget, self.members.used - share.used))

    def _recall(self, share: Share, keep: int, out: list[Action]) -> None:
        """A member must know its limit before a recall; otherwise it would take a lower budget for none. So a step
        recalls only when it has told all limits that are due."""
        assert share.client not in self._to_visit
        members = self.members
        members.change(share, budget=share.budget, used=share.used, keep=keep)
        if keep == 0 and share.home is not members.confirming:
            members.move(share, members.confirming if share.home is members.tight else members.awaited)
            share.asked_at = self._now
        share.serial += 1
        share.recall = share.serial
        self._left -= 1
        out.append(RecallBudget(share.client, self.gpu, share.serial, keep))

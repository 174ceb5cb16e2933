"""Budgets of a pod-wide limit against processes that follow the protocol to the letter, in every order of messages."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from core.members import GPU, Member
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.limits.shared_limit import LONGEST, SharedLimit
from nvshare.core.model import GIB, MIB, MILLISECOND, SECOND, UNLIMITED, Claim, Memory, Settings
from nvshare.core.node import Node

Pick = Callable[[Sequence[Any]], Any]

SIZES = [MIB, 512 * MIB, GIB, GIB + 1, 2 * GIB, 5 * GIB]
LIMITS = [None, 0, GIB, 4 * GIB, 4 * GIB, 8 * GIB, 8 * GIB]
MAX_MEMBERS = 5
RECALL = Settings().recall_ns


class Pod:
    """One pod on one GPU: its processes, the daemon, and what travels between them."""

    def __init__(self, pick: Pick) -> None:
        self.now = 0
        self.epoch = 1
        self.settles_at = 0
        self.members: dict[int, Member] = {}
        self.asked: dict[tuple[int, int], int] = {}
        self.annotation: int | None = None
        self.node = Node(Settings(), epoch=self.epoch, expects_pods=True, is_paranoid=True)
        self._step(ev.PodsListed())
        self.annotate(pick)
        for _ in range(3):
            self.join(pick)

    @property
    def _shared(self) -> SharedLimit | None:
        group = self.node.groups.get("pod/p")
        return group.limits.get(GPU) if group else None

    def _step(self, event: ev.Event) -> None:
        bound = self._total_bound()
        if isinstance(event, ev.BudgetAsked):
            self.asked[event.client, event.ask] = self.now
        elif isinstance(event, ev.BudgetReturned):
            self.members[event.client].recalled.popleft()
        for action in self.node.handle(self.now, event):
            client = getattr(action, "client", None)
            if client in self.members:
                self._send(self.members[client], action)
        self._check()
        if not isinstance(event, ev.ClientRegistered) and self._shared and self._shared.limit:
            most = max(self._shared.limit, bound)
            assert self._total_bound() <= most, "nothing grows while it is too much together"

    def _send(self, member: Member, action: ac.Action) -> None:
        member.told.append(action)
        if isinstance(action, ac.RecallBudget):
            member.recalled.append(self.now)
        elif isinstance(action, ac.GiveBudget) and action.ask:
            waits = [self.now - other.recalled[0] for other in self.members.values() if other.recalled]
            waits.append((self.now - self.asked.pop((member.id, action.ask))) // LONGEST)
            member.questions[action.ask].is_excused = max(waits, default=0) >= RECALL

    def _watch(self) -> None:
        """Nobody may be refused what fitted all the time from its question to the answer, unless somebody is silent."""
        limit = self._shared.limit if self._shared else 0
        wanted = sum(member.wanted for member in self.members.values())
        for member in self.members.values():
            for question in member.questions.values():
                question.peak = max(question.peak, wanted)
                question.own_peak = max(question.own_peak, member.wanted)
                question.least_limit = min(question.least_limit, limit or UNLIMITED)
                question.least_own_limit = min(question.least_own_limit, member.account.limit or UNLIMITED)
            for question in member.refused:
                is_too_much = question.peak > question.least_limit or question.own_peak > question.least_own_limit
                assert is_too_much or question.is_excused, f"refused although it fitted: {question}"
            member.refused.clear()

    def _total_bound(self) -> int:
        shared = self._shared
        return sum(share.bound for share in shared.shares.values()) if shared else 0

    def _check(self) -> None:
        for since in self.asked.values():
            assert self.now - max(since, self.settles_at) < LONGEST * RECALL, "every question is answered in time"
        shared = self._shared
        for member in self.members.values() if shared and shared.limit else ():
            foreseen = member.account.copy()
            beliefs = [foreseen.belief]
            for message in member.told:
                foreseen.hear(message)
                beliefs.append(foreseen.belief)
            if beliefs[-1] == UNLIMITED or member.id not in self.node.clients:
                continue
            assert shared is not None
            bound = shared.shares[member.id].bound
            assert max(belief for belief in beliefs if belief != UNLIMITED) <= bound, "we count what it believes"

    def _ring_until(self, then: int) -> None:
        while (deadline := self.node.next_deadline()) is not None and deadline <= then:
            self.now = max(self.now, deadline)
            self._step(ev.AlarmRang())
        self.now = then

    # What may happen.

    def join(self, pick: Pick) -> None:
        if len(self.members) < MAX_MEMBERS:
            client = max(self.members, default=0) + 1
            self.members[client] = Member(client, pick([0, 0, 0, 2 * GIB]))
            self._register(self.members[client])

    def _register(self, member: Member) -> None:
        account = member.account
        member.reported = account.used
        claim = Claim(GPU, 80 * GIB, memory=Memory(swappable=account.used), limit=account.limit, budget=account.budget)
        self._step(ev.ClientRegistered(member.id, "pod/p", "p", "", (claim,), own_limit=member.own_limit))

    def leave(self, pick: Pick) -> None:
        if len(self.members) > 2:
            client = pick(sorted(self.members))
            del self.members[client]
            self.asked = {key: since for key, since in self.asked.items() if key[0] != client}
            self._step(ev.ClientLeft(client))

    def annotate(self, pick: Pick) -> None:
        self.annotation = pick(LIMITS)
        self._step(ev.PodChanged("p", "team/p", self.annotation, spec_limit=pick([None, None, 2 * GIB])))
        self._watch()

    def allocate(self, pick: Pick) -> None:
        for member in self._some(pick):
            member.allocate(pick(SIZES))
            self._watch()

    def free(self, pick: Pick) -> None:
        for member in self._some(pick):
            member.free(pick(SIZES))
            self._watch()

    def report(self, pick: Pick) -> None:
        for member in self._some(pick):
            member.report()

    def deliver(self, pick: Pick) -> None:
        for member in self._some(pick):
            if member.said and pick([True, False]):
                self._step(member.said.popleft())
            elif member.told:
                member.hear()
                self._watch()

    def stop_or_go_on(self, pick: Pick) -> None:
        member = self.members[pick(sorted(self.members))]
        member.is_stopped = not member.is_stopped

    def wait(self, pick: Pick) -> None:
        self._ring_until(self.now + pick([MILLISECOND, 100 * MILLISECOND, 300 * MILLISECOND, 3 * SECOND]))

    def restart_daemon(self, pick: Pick) -> None:
        """Everybody registers again, a new process perhaps before all others; the pods are listed before or after that.
        A process that has registered allocates at once, and may use what it believes to have: what those who are on
        their way have is not handed out again."""
        self.epoch += 1
        self.asked.clear()
        self.settles_at = self.now + Settings().settle_ns
        self.node = Node(Settings(), epoch=self.epoch, settles_at=self.settles_at, expects_pods=True, is_paranoid=True)
        for member in self.members.values():
            member.lose_scheduler()
        is_early = pick([True, False])
        if is_early:
            self._list()
        known = list(self.members.values())
        if is_early and pick([True, False]):
            self.join(pick)
        most = max(self.annotation or UNLIMITED, sum(max(member.account.belief, member.used) for member in known))
        for member in known:
            self._register(member)
            for registered in self.node.clients if is_early else ():
                self.members[registered].hear_all()
                self.members[registered].allocate(pick(SIZES))
            assert self._used() <= most, "the parts of processes that have not registered yet were handed out again"
        if not is_early:
            self.wait(pick)
            self._list()

    def _list(self) -> None:
        self._step(ev.PodChanged("p", "team/p", self.annotation))
        self._step(ev.PodsListed())

    def settle_down(self, pick: Pick) -> None:
        """All go on, all messages arrive: what is handed out is within the limit or in use."""
        for member in self.members.values():
            member.is_stopped = False
        self._talk(pick)
        self._ring_until(self.now + 3 * SECOND)
        self._talk(pick)
        shared = self._shared
        assert shared is not None
        assert not shared.questions.open
        for member in self.members.values():
            assert member.account.limit == min(filter(None, [shared.limit, shared.shares[member.id].cap]), default=0)
            assert member.used == member.reported == shared.shares[member.id].used
        if shared.limit:
            believed = sum(member.account.belief for member in self.members.values())
            assert believed <= max(shared.limit, self._used()), "handed out is at most the limit, or what is in use"

    def allocate_promptly(self, pick: Pick) -> None:
        """With everybody awake nobody is refused while there is room, and nobody allowed when there is none."""
        self.settle_down(pick)
        shared = self._shared
        assert shared is not None
        before = self._used()
        for member in self._some(pick):
            member.allocate(pick(SIZES))
            self._watch()
        self._talk(pick)
        assert not shared.limit or self._used() <= max(shared.limit, before), "allowed although there was no room"

    def leave_all(self) -> None:
        """Nothing is left of a pod that has gone."""
        for client in list(self.members):
            del self.members[client]
            self._step(ev.ClientLeft(client))
        self._step(ev.PodRemoved("p"))
        assert not self.node.groups
        assert self.node.next_deadline() is None

    def _talk(self, pick: Pick) -> None:
        """Messages travel, in any order between members, until all is said. No time passes."""
        for _ in range(2000):
            for member in self.members.values():
                member.report()
            busy = [member for member in self.members.values() if member.said or member.told]
            if not busy:
                return
            member = pick(busy)
            if member.said:
                self._step(member.said.popleft())
            else:
                member.hear()
            self._watch()
        raise AssertionError("the talk never ends")

    def _used(self) -> int:
        return sum(member.used for member in self.members.values())

    def _some(self, pick: Pick) -> list[Member]:
        awake = [member for member in self.members.values() if not member.is_stopped]
        return [pick(awake) for _ in range(pick([1, 1, 2, 3]))] if awake else []


HAPPENINGS = {
    "allocate": 8, "free": 8, "report": 5, "deliver": 20, "stop_or_go_on": 1, "wait": 2, "annotate": 1.5, "join": 1,
    "leave": 1, "restart_daemon": 0.4, "settle_down": 1, "allocate_promptly": 3,
}  # fmt: skip


class Budgets(RuleBasedStateMachine):
    """Hypothesis chooses what happens."""

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.pod = Pod(_picker(data))

    @rule(data=st.data(), what=st.sampled_from(list(HAPPENINGS)))
    def happen(self, data: st.DataObject, what: str) -> None:
        getattr(self.pod, what)(_picker(data))


def _picker(data: st.DataObject) -> Pick:
    return lambda options: data.draw(st.sampled_from(options))


TestBudgets = Budgets.TestCase
TestBudgets.settings = settings(max_examples=50, stateful_step_count=40)


def walk(seed: int, steps: int) -> None:
    chance = random.Random(seed)
    pod = Pod(chance.choice)
    for what in chance.choices(list(HAPPENINGS), list(HAPPENINGS.values()), k=steps):
        getattr(pod, what)(chance.choice)
    pod.settle_down(chance.choice)
    pod.leave_all()


@pytest.mark.parametrize("seed", range(8))
def test_budgets_stay_exact_on_a_long_random_walk(seed: int) -> None:
    walk(seed, steps=1500)

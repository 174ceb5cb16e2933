"""Pods whose claims overlap, with processes that follow the protocol to the letter, against a naive account."""

import random
from collections.abc import Iterator
from itertools import combinations

import pytest

from core.members import GPU, Member
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.limits.shared_limit import LONGEST, SharedLimit
from nvshare.core.model import GIB, MILLISECOND, SECOND, UNLIMITED, Claim, Memory, Settings
from nvshare.core.node import Node

CLAIMS = {"a": 8 * GIB, "b": 2 * GIB, "c": 4 * GIB}
PODS = {"p1": "a", "p2": "b", "p3": "ab", "p4": "bc", "p5": "c", "p6": "abc"}
SIZES = [GIB // 2, GIB, GIB + 1, 2 * GIB, 5 * GIB]
HAPPENINGS = {
    "allocate": 8, "free": 6, "deliver": 20, "join": 4, "leave": 3, "annotate": 1, "wait": 1, "restart": 0.3,
    "settle_down": 1, "allocate_promptly": 3,
}  # fmt: skip


class Pods:
    """Several pods on one GPU, their processes, the daemon, and what travels between them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0
        self.epoch = 0
        self.last = 0
        self.members: dict[int, Member] = {}
        self.pod_of: dict[int, str] = {}
        self.annotations: dict[str, int | None] = dict.fromkeys(PODS)
        self.merges = 0
        self.start()

    def start(self) -> None:
        self.epoch += 1
        settles_at = self.now + Settings().settle_ns if self.epoch > 1 else None
        self.node = Node(Settings(), epoch=self.epoch, settles_at=settles_at, expects_pods=True, is_paranoid=True)
        is_known = self.chance.random() < 0.5
        if is_known:
            self.list_pods()
        for member in self.members.values():
            member.lose_scheduler()
            self.register(member)
        if not is_known:
            self.list_pods()

    def list_pods(self) -> None:
        for name, size in CLAIMS.items():
            self.step(ev.ClaimPrepared(f"uid-{name}", f"team/{name}", {GPU: size}))
        for pod in PODS:
            self.tell_pod(pod)
        self.step(ev.PodsListed())

    def tell_pod(self, pod: str) -> None:
        claims = tuple(f"team/{name}" for name in PODS[pod])
        self.step(ev.PodChanged(pod, f"team/{pod}", self.annotations[pod], claims=claims))

    def step(self, event: ev.Event) -> None:
        before = len(set(self.sets()))
        if isinstance(event, ev.BudgetReturned):
            self.members[event.client].recalled.popleft()
        for action in self.node.handle(self.now, event):
            member = self.members.get(getattr(action, "client", 0))
            if member is not None:
                self.send(member, action)
        self.merges += len(set(self.sets())) < before and not isinstance(event, ev.ClientLeft)
        self.check()

    def send(self, member: Member, action: ac.Action) -> None:
        member.told.append(action)
        if isinstance(action, ac.RecallBudget):
            member.recalled.append(self.now)
        elif isinstance(action, ac.GiveBudget) and action.ask:
            # Somebody was silent, or the question was open for as long as one may be.
            waits = [self.now - other.recalled[0] for other in self.members.values() if other.recalled]
            member.questions[action.ask].is_excused = max(waits, default=0) >= Settings().recall_ns

    def sets(self) -> Iterator[SharedLimit]:
        return (group.limits[GPU] for group in self.node.groups.values() if GPU in group.limits)

    # The naive account.

    def claimed(self, pods: set[str]) -> int:
        return sum(CLAIMS[name] for name in {name for pod in pods for name in PODS[pod]})

    def check(self) -> None:
        """At every step: pods with a claim in common share, and limits are what the claims allow."""
        groups = {key.removeprefix("pod/"): group for key, group in self.node.groups.items() if GPU in group.limits}
        known = [pod for pod, group in groups.items() if group.claims.parts_on(GPU)]
        for one, other in combinations(known, 2):
            if set(groups[one].claims.parts_on(GPU)) & set(groups[other].claims.parts_on(GPU)):
                assert groups[one].limits[GPU] is groups[other].limits[GPU], f"{one} and {other} have a common claim"
        if len(known) < len(groups) or len(self.node.prepared_claims) < len(CLAIMS):
            return
        limits = {groups[pod].limits[GPU]: groups[pod].limits[GPU].limit for pod in known}
        assert sum(limits.values()) <= self.claimed(set(known)), "more than was consumed on the GPU"
        for pod in known:
            shared = groups[pod].limits[GPU]
            said = self.annotations[pod] or UNLIMITED
            assert said >= self.claimed({pod}) or shared.limit <= said, "a lower annotation counts for all who share"
            for client, share in shared.shares.items():
                most = min(self.claimed({self.pod_of[client]}), shared.limit)
                assert min(share.cap or UNLIMITED, shared.limit) == most, "a process has at most what its pod claims"
        for client in self.node.clients:
            member = self.members[client]
            bound = groups[self.pod_of[client]].limits[GPU].shares[client].bound
            assert member.account.belief == UNLIMITED or member.account.belief <= bound, "we count what it believes"

    def watch(self) -> None:
        """Nobody may be refused what fitted all the time from its question to the answer, unless somebody is silent."""
        for shared in set(self.sets()):
            here = [self.members[client] for client in shared.shares]
            wanted = sum(member.wanted for member in here)
            for member in here:
                for question in member.questions.values():
                    question.peak = max(question.peak, wanted)
                    question.own_peak = max(question.own_peak, member.wanted)
                    question.least_limit = min(question.least_limit, shared.limit or UNLIMITED)
                    question.least_own_limit = min(question.least_own_limit, member.account.limit or UNLIMITED)
        for member in self.members.values():
            for question in member.refused:
                is_too_much = question.peak > question.least_limit or question.own_peak > question.least_own_limit
                assert is_too_much or question.is_excused, f"refused although it fitted: {question}"
            member.refused.clear()

    # What may happen.

    def join(self) -> None:
        if len(self.members) < 8:
            self.last += 1
            self.pod_of[self.last] = self.chance.choice(list(PODS))
            self.members[self.last] = Member(self.last, 0)
            self.register(self.members[self.last])

    def register(self, member: Member) -> None:
        account, pod = member.account, self.pod_of[member.id]
        member.reported = member.used
        claim = Claim(GPU, 80 * GIB, memory=Memory(swappable=member.used), limit=account.limit, budget=account.budget)
        self.step(ev.ClientRegistered(member.id, f"pod/{pod}", f"team/{pod}", "", (claim,)))

    def leave(self) -> None:
        if self.members:
            client = self.chance.choice(list(self.members))
            del self.members[client]
            self.step(ev.ClientLeft(client))

    def annotate(self) -> None:
        pod = self.chance.choice(list(PODS))
        self.annotations[pod] = self.chance.choice([None, None, None, GIB, 5 * GIB])
        self.tell_pod(pod)
        self.watch()

    def allocate(self) -> None:
        if self.members:
            self.chance.choice(list(self.members.values())).allocate(self.chance.choice(SIZES))
            self.watch()

    def free(self) -> None:
        if self.members:
            member = self.chance.choice(list(self.members.values()))
            member.free(self.chance.choice(SIZES))
            member.report()
            self.watch()

    def deliver(self) -> bool:
        busy = [member for member in self.members.values() if member.said or member.told]
        if not busy:
            return False
        member = self.chance.choice(busy)
        if member.said:
            self.step(member.said.popleft())
        else:
            member.hear()
        self.watch()
        return True

    def wait(self) -> None:
        then = self.now + self.chance.choice([MILLISECOND, 300 * MILLISECOND, 3 * SECOND])
        while (deadline := self.node.next_deadline()) is not None and deadline <= then:
            self.now = max(self.now, deadline)
            self.step(ev.AlarmRang())
        self.now = then

    def restart(self) -> None:
        self.start()
        self.watch()

    def settle_down(self) -> None:
        """All messages arrive: what is handed out is within the claims, or in use."""
        for _ in range(2):
            for _ in range(LONGEST):
                self.talk()
                self.wait()
        self.now += 3 * SECOND
        self.step(ev.AlarmRang())
        self.talk()
        for shared in set(self.sets()):
            believed = sum(self.members[client].account.belief for client in shared.shares)
            assert believed <= max(shared.limit, self.used(shared)), (
                "handed out is at most the limit, or what is in use"
            )

    def allocate_promptly(self) -> None:
        """Nobody is allowed what the claims do not allow together, or those of its own pod."""
        self.settle_down()
        before = {client: member.used for client, member in self.members.items()}
        most = {shared: max(shared.limit, self.used(shared)) for shared in self.sets()}
        for _ in range(3):
            self.allocate()
        self.talk()
        for shared in set(self.sets()):
            assert self.used(shared) <= most[shared], "allowed although the claims do not allow it"
        for client, member in self.members.items():
            assert member.used <= max(self.claimed({self.pod_of[client]}), before[client])

    def talk(self) -> None:
        for _ in range(3000):
            for member in self.members.values():
                member.report()
            if not self.deliver():
                return
        raise AssertionError("the talk never ends")

    def used(self, shared: SharedLimit) -> int:
        return sum(self.members[client].used for client in shared.shares)


@pytest.mark.parametrize("seed", range(6))
def test_pods_with_overlapping_claims_never_get_more_than_was_consumed(seed: int) -> None:
    pods = Pods(seed)
    for what in pods.chance.choices(list(HAPPENINGS), list(HAPPENINGS.values()), k=1500):
        getattr(pods, what)()
    assert pods.merges, "the walk never connected two sets"
    pods.settle_down()  # and a restart is over
    while pods.members:
        pods.leave()
    assert pods.node.next_deadline() is None

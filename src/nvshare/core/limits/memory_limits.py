"""The memory limits of a node: each fact about them goes to its group and its GPU.

core.limits.groups says which limit a group has, core.limits.claim_sharing which groups share one, and
core.limits.shared_limit how processes share it on one GPU. This file knows which of these shared limits a step has
touched, and when the next question about budgets has to be answered."""

from collections.abc import Callable, Iterable

from nvshare.core import events as ev
from nvshare.core.actions import Action
from nvshare.core.alarms import Alarms
from nvshare.core.client import Client
from nvshare.core.limits.claim_sharing import ClaimSharing
from nvshare.core.limits.groups import Group, Groups
from nvshare.core.limits.limit_members import Share
from nvshare.core.limits.shared_limit import SharedLimit
from nvshare.core.model import DEFAULT_WEIGHT, UNLIMITED, Claim, Settings


class MemoryLimits:
    """All limits of one node. `clients` are the node's."""

    def __init__(
        self, clients: dict[int, Client], settings: Settings, *, expects_pods: bool, is_paranoid: bool
    ) -> None:
        self.groups = Groups(expects_pods=expects_pods, is_claim_binding=settings.is_claim_binding)
        self._sharing = ClaimSharing(self.groups.by_key, self._merged, self._capped)
        self.note_merged: Callable[[SharedLimit, SharedLimit], None] = lambda stays, ends: None
        """Called when the first of two shared limits has taken over the other one; memory.live_shrink replaces it."""
        self._clients = clients
        self._recall_ns = settings.recall_ns
        self._is_paranoid = is_paranoid
        self.shrinks = settings.live_shrink
        """Whether a lowered limit moves memory in use, unless a pod says otherwise (Group.shrinks)."""
        self.over: dict[SharedLimit, None] = {}
        """Those whose members use, or used, more than the limit; memory.live_shrink decides on them."""
        self.touched: dict[SharedLimit, None] = {}
        """Those to decide on in this step."""
        self.alarms: Alarms[SharedLimit] = Alarms()
        """Those with a question that has not been answered, or with more to send than one step does."""

    def decide(self, now: int, out: list[Action], *, is_settling: bool) -> None:
        """Send what follows for the limits that this step has touched."""
        for shared in self.touched:
            self._decide_on(now, shared, out, is_settling)
        self.touched.clear()

    def decide_on_group(self, now: int, group: Group, out: list[Action], *, is_settling: bool) -> None:
        self.note_over(group.limits.values())
        for shared in group.limits.values():
            self._decide_on(now, shared, out, is_settling)
            self.touched.pop(shared)

    def _decide_on(self, now: int, shared: SharedLimit, out: list[Action], is_settling: bool) -> None:
        shared.decide(now, out, is_settling=is_settling)
        self.alarms.set(shared, shared.deadline)
        if self._is_paranoid:
            shared.check()

    def note_over(self, limits: Iterable[SharedLimit]) -> None:
        for shared in limits:
            is_over = bool(shared.limit) and shared.members.used > shared.limit
            if is_over or shared.members.is_over:
                self.over[shared] = None
            shared.members.is_over = is_over

    def alarm_rang(self, now: int) -> None:
        for shared in self.alarms.due(now):
            shared.has_rung = True
            self.touched[shared] = None

    def settling_ended(self, out: list[Action]) -> None:
        """All claims are known: decisions that waited for them can be made."""
        self.groups.is_settling = False
        for group in list(self.groups.by_key.values()):
            self._apply(group)
            self.groups.forget_if_unused(group, out)

    # Clients.

    def joined(self, client: Client, claim: Claim) -> None:
        shared = client.group.limits.get(claim.gpu)
        if shared is None:
            shared = client.group.limits[claim.gpu] = SharedLimit(claim.gpu, self._recall_ns)
        cap = client.group.cap(client.own_limit, claim.gpu)
        # A client that was told that it has no limit acts as if it had none, whatever its budget is.
        budget = claim.budget if claim.limit else UNLIMITED
        shared.join(Share(client.id, budget=budget, used=claim.memory.used, limit_told=claim.limit, cap=cap))

    def registered(self, client: Client) -> None:
        """All claims of a new client have joined."""
        _apply_annotations(client)
        self._apply(client.group)

    def left(self, client: Client, out: list[Action]) -> None:
        for uuid in client.seats:
            shared = client.group.limits[uuid]
            shared.leave(client.id)
            self.touched[shared] = None
            if not any(self._clients[member].group is client.group for member in shared.shares):
                del client.group.limits[uuid]
                client.group.caps.pop(uuid, None)
                if shared.shares:  # of another pod, whose limit is what it would be without this one
                    self._apply(self._clients[next(iter(shared.shares))].group)
        self.groups.forget_if_unused(client.group, out)

    def used(self, now: int, client: Client, uuid: str, used: int) -> None:
        shared = client.group.limits[uuid]
        if shared.note_used(now, client.id, used):
            self.touched[shared] = None

    def budget_asked(self, now: int, event: ev.BudgetAsked) -> None:
        shared = self._shared(event)
        shared.note_ask(now, event.client, event.ask, event.need)
        self.touched[shared] = None

    def budget_returned(self, now: int, event: ev.BudgetReturned) -> None:
        shared = self._shared(event)
        shared.note_return(now, event.client, event.serial, event.budget, event.used)
        self.touched[shared] = None

    def _shared(self, event: ev.BudgetAsked | ev.BudgetReturned) -> SharedLimit:
        return self._clients[event.client].group.limits[event.gpu]

    # The operator and Kubernetes.

    def limit_set(self, event: ev.LimitSet, out: list[Action]) -> None:
        group = self.groups.limit_set(event, out)
        self._reapply_limits(group)
        self.groups.note_use(group, out)

    def pod_changed(self, event: ev.PodChanged, out: list[Action]) -> None:
        self._reapply_limits(self.groups.pod_changed(event, out))

    def claim_prepared(self, event: ev.ClaimPrepared, out: list[Action]) -> None:
        for group in self.groups.claim_prepared(event, out):
            self._reapply_limits(group)

    def pods_listed(self, out: list[Action]) -> None:
        for group in self.groups.pods_listed(out):
            self._apply(group)

    def _reapply_limits(self, group: Group) -> None:
        """A source has changed what it says about a group."""
        members = dict.fromkeys(member for shared in group.limits.values() for member in shared.shares)
        for member in members:
            client = self._clients[member]
            if client.group is group:  # other pods may share its limit
                _apply_annotations(client)
        self._apply(group)

    # Pods that share.

    def _apply(self, group: Group) -> None:
        self.touched.update(dict.fromkeys(self._sharing.apply(group)))

    def _merged(self, stays: SharedLimit, ends: SharedLimit) -> None:
        self.touched.pop(ends, None)
        self.over.pop(ends, None)
        self.alarms.set(ends, None)
        self.note_merged(stays, ends)

    def _capped(self, group: Group, uuid: str) -> None:
        shared = group.limits[uuid]
        for client in (self._clients[member] for member in shared.shares):
            if client.group is group:
                shared.set_cap(client.id, group.cap(client.own_limit, uuid))


def _apply_annotations(client: Client) -> None:
    """A listed pod's annotations decide its clients' rank, and which limit is the process's own."""
    group = client.group
    apply_priorities([client])
    for uuid in client.seats if group.is_listed else ():
        group.limits[uuid].set_cap(client.id, group.cap(client.own_limit, uuid))


def apply_priorities(clients: Iterable[Client]) -> None:
    """Priority and weight of clients: of the annotation, else the operator's, else the claim's, else their own. A pod's
    processes have none of their own."""
    for client in clients:
        _apply_priority(client)


def _apply_priority(client: Client) -> None:
    group = client.group
    own = (0, DEFAULT_WEIGHT) if group.is_listed else (client.priority, client.weight)
    said = (group, group.order, group.claims)
    priority = next((it.priority for it in said if it.priority is not None), own[0])
    weight = next((it.weight for it in said if it.weight is not None), own[1])
    for seat in client.seats.values():
        seat.priority, seat.weight = priority, weight

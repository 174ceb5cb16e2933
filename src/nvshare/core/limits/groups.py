"""Groups: which processes share a limit, and which limit that is.

A group is a pod, a container, one `nvshare run` or another single process. Several sources may name its limit; the
first that does counts:

    annotation      of the pod. If it cannot be read, the value before it
    operator        nvsharectl
    provisional     after a restart, until the pods are listed: the lowest limit that the pod's clients claim
    environment     of the pod's specification; otherwise, and without Kubernetes, of the first process that has one

A pod that has ResourceClaims gets at most these on each GPU, even if a source says more, and exactly these if no source
says less (core.limits.claim_limits). core.limits.claim_sharing says with which other pods it shares them.

A restart. A daemon that has just started does not know the pods yet, but its clients have limits of the previous one.
Without the provisional limit they could allocate beyond their limits until the pods are listed. And if an annotation
cannot be read, only the clients know the value before it: the limit that they were told, unless that is a process's own
lower limit."""

from collections import Counter
from typing import Literal

from nvshare.core.actions import Action, Refuse, ReportForgotten, ReportLimit
from nvshare.core.events import ClaimPrepared, ClientRegistered, LimitSet, PodChanged
from nvshare.core.limits.claim_limits import ClaimLimits
from nvshare.core.limits.group_names import POD_PREFIX
from nvshare.core.limits.group_order import NO_ORDER, Order
from nvshare.core.limits.shared_limit import SharedLimit
from nvshare.quantity import amount

MAX_KEPT = 1024
"""Groups without a client that are kept for what the operator said. If there is one more, the one that has had neither
a client nor an order for the longest time is forgotten."""
Source = Literal["annotation", "operator", "earlier scheduler", "environment", "claim"]


class Group:
    """The processes that share a limit, and what each source says it is."""

    __slots__ = (
        "annotation", "caps", "claims", "container_core_limits", "container_limits", "core_limit",
        "core_wishes", "environment", "is_listed", "is_pod", "is_removed", "keeps_limit", "key", "label",
        "limits", "operator", "order", "pause", "priority", "provisional", "shrinks", "spec_core_limit",
        "told_before_restart", "weight",
    )  # fmt: skip

    def __init__(self, key: str, label: str, claims: ClaimLimits) -> None:
        self.key = key
        self.claims = claims
        """What its ResourceClaims allow it."""
        self.label = label
        self.is_pod = key.startswith(POD_PREFIX)
        self.is_listed = False
        """Kubernetes has this pod."""
        self.is_removed = False
        """Kubernetes had this pod, or this is a process that has ended: no clients come."""
        self.priority: int | None = None
        self.weight: int | None = None
        self.core_limit: int | None = None
        """Percent of a GPU's time, as the annotation says; `spec_core_limit` as the pod's specification does."""
        self.spec_core_limit: int | None = None
        self.core_wishes: Counter[int] = Counter()
        """How many of its processes want which limit; 0: none."""
        self.shrinks: bool | None = None
        """Whether a lowered limit moves its memory; None: as the scheduler is set."""
        self.annotation: int | None = None
        self.keeps_limit = False
        """The annotation cannot be read; `annotation` is the value before it, as far as that is known."""
        self.told_before_restart: int | None = None
        """The pod's limit as its clients were told by an earlier daemon."""
        self.operator: int | None = None
        self.order = NO_ORDER
        self.pause: bool | None = None
        """What the pod's annotation says; None: there is none, and the operator's order counts."""
        self.provisional: int | None = None
        self.environment: int | None = None
        self.container_limits: tuple[int, ...] = ()
        self.container_core_limits: tuple[int, ...] = ()
        self.limits: dict[str, SharedLimit] = {}
        self.caps: dict[str, int] = {}
        """What each of its processes may use at most where it shares a higher limit with other pods."""

    @property
    def named(self) -> tuple[Source, int] | None:
        """The source of the limit, and the limit; None: no source names one."""
        return self._bounded(self.claims.most)

    @property
    def limit(self) -> int:
        """Of pods with claims: on the GPU on which they have most."""
        return self.named[1] if self.named else 0

    def limit_on(self, gpu: str) -> int:
        """0 is none."""
        named = self._bounded(self.claims.on(gpu))
        return named[1] if named else 0

    def core_limit_on(self, gpu: str) -> int:
        """Percent of the GPU's time that its processes may use together; 0: no limit. A process can lower it by its own
        variable, unless the value is that of the pod's specification. Without a pod the operator's order counts."""
        said = (self.core_limit, self.order.core_limit, self.spec_core_limit)
        percent = self.claims.bounded_core_limit(gpu, next((it for it in said if it is not None), None))
        is_overruled = self.order.core_limit is not None and not self.is_pod
        wishes = () if is_overruled else self.core_wishes.items()
        specified = (self.spec_core_limit, *self.container_core_limits)
        own = [wish for wish, count in wishes if count > 0 and wish not in specified]
        lowest = min(filter(None, (percent, *own)), default=0)
        return lowest if lowest < 100 else 0

    def _bounded(self, allowed: int | None) -> tuple[Source, int] | None:
        said: tuple[tuple[Source, int | None], ...] = (
            ("annotation", self.annotation),
            ("operator", self.operator),
            ("earlier scheduler", self.provisional),
            ("environment", self.environment),
        )
        for source, limit in said:
            if limit is not None:
                return ("claim", allowed) if allowed and self.claims.forbids(limit, allowed) else (source, limit)
        return ("claim", allowed) if allowed else None

    @property
    def outlives_clients(self) -> bool:
        """True if the group is kept without a client: Kubernetes has it, or the operator gave an order for it and its
        processes may come. A single process keeps its orders if it connects again."""
        return self.is_listed or (self.is_ordered and not self.is_removed)

    @property
    def is_paused(self) -> bool:
        return self.order.is_paused if self.pause is None else self.pause

    @property
    def is_ordered(self) -> bool:
        """The operator limited it, or gave an order."""
        return self.operator is not None or self.order != NO_ORDER

    def keep_told(self) -> None:
        """The annotation cannot be read: the limit that the clients claim counts as the value before it. If the claim
        is equal to the operator's limit, it counts as that."""
        if self.keeps_limit:
            if self.annotation is None and self.told_before_restart != self.operator:
                self.annotation = self.told_before_restart
            self.told_before_restart = None

    def cap(self, own_limit: int, gpu: str) -> int:
        """The limit of a single process below the shared one, or 0."""
        return min(filter(None, (self._own_cap(own_limit), self.caps.get(gpu))), default=0)

    def _own_cap(self, own_limit: int) -> int:
        """The limit of a single process below the group's, or 0.

        A limit that comes from the pod's specification is not the process's own: otherwise no annotation could raise a
        limit that was first set in the environment. The pod-wide one is the group's limit; a container's counts until
        an annotation or the operator names a limit."""
        is_overruled = self.annotation is not None or self.operator is not None
        if own_limit == self.environment or (is_overruled and own_limit in self.container_limits):
            return 0
        return own_limit


class Groups:
    """All groups of a node by key. Some methods return the groups whose limits may have changed."""

    def __init__(self, *, expects_pods: bool, is_claim_binding: bool) -> None:
        self.by_key: dict[str, Group] = {}
        """Those without a client are in the order in which they lost the last, or got an order."""
        self.prepared: dict[str, ClaimPrepared] = {}
        """The ResourceClaims of this node, by label."""
        self._is_claim_binding = is_claim_binding
        self._kept: dict[str, Group] = {}
        """Those without a client that are here for what the operator said, in the same order."""
        self._expects_pods = self._pods_unknown = expects_pods
        self.is_settling = False
        """Clients of an earlier daemon may still come: an order for a group without a client is not forgotten."""

    def find(self, key: str, label: str) -> Group:
        group = self.by_key.get(key)
        if group is None:
            claims = ClaimLimits(self.prepared, is_binding=self._is_claim_binding)
            group = self.by_key[key] = Group(key, label, claims)
        return group

    def claim_prepared(self, event: ClaimPrepared, out: list[Action]) -> list[Group]:
        groups = [group for group in self.by_key.values() if event.label in group.claims.names]
        before = [group.limit for group in groups]
        self.prepared[event.label] = event
        for group, old in zip(groups, before, strict=True):
            _report(group, old, out)
        return groups

    def claim_ended(self, uid: str) -> None:
        """All containers that had it have ended."""
        for label in [label for label, claim in self.prepared.items() if claim.uid == uid]:
            del self.prepared[label]

    def registered(self, event: ClientRegistered, *, is_settling: bool) -> Group:
        group = self.find(event.group, event.label)
        self._kept.pop(group.key, None)
        if group.label == group.key:
            group.label = event.label  # until now only the operator's limit was known of it
        if group.is_listed or (group.is_pod and self._expects_pods):
            told = [claim.limit for claim in event.claims]
            if self._pods_unknown and not group.is_listed:
                group.provisional = min(filter(None, [*told, group.provisional]), default=None)
            # Later, what a client was told may have been an operator's limit that has changed since.
            if not group.is_listed or (group.keeps_limit and (is_settling or group.operator is None)):
                of_pod = [limit for limit in told if limit != event.own_limit]
                group.told_before_restart = min(filter(None, [*of_pod, group.told_before_restart]), default=None)
                group.keep_told()
        elif group.environment is None and event.own_limit:
            group.environment = event.own_limit
        return group

    def limit_set(self, event: LimitSet, out: list[Action]) -> Group:
        group = self.find(event.group, event.group)
        if group.annotation is not None:
            out.append(Refuse(f"{group.label} has an annotation, which counts; change that: kubectl annotate pod"))
        elif event.limit is not None and group.claims.forbids_everywhere(event.limit):
            allowed = ", ".join(f"{amount(most)} on GPU {gpu}" for gpu, most in group.claims.by_gpu().items())
            out.append(Refuse(f"the ResourceClaims of {group.label} allow {allowed}, and this is more"))
        else:
            old = group.limit
            group.operator = event.limit
            _report(group, old, out)
        return group

    def order(self, group: Group, order: Order, out: list[Action]) -> None:
        """The operator gave an order."""
        group.order = order
        self.note_use(group, out)

    def note_use(self, group: Group, out: list[Action]) -> None:
        """The operator limited it, or gave an order."""
        if self.is_settling:
            self.by_key[group.key] = self.by_key.pop(group.key)
        else:
            self.forget_if_unused(group, out)

    def pod_changed(self, event: PodChanged, out: list[Action]) -> Group:
        group = self.find(POD_PREFIX + event.pod, event.label)
        self._kept.pop(group.key, None)
        old = group.limit
        group.label, group.is_listed, group.is_removed = event.label, True, False
        group.environment, group.provisional = event.spec_limit, None
        group.keeps_limit = event.keeps_limit
        if event.keeps_limit:
            group.keep_told()
        else:
            group.annotation, group.told_before_restart = event.limit, None
        group.container_limits, group.container_core_limits = event.container_limits, event.container_core_limits
        group.priority, group.weight, group.shrinks = event.priority, event.weight, event.shrinks
        group.pause, group.core_limit, group.spec_core_limit = event.is_paused, event.core_limit, event.spec_core_limit
        group.claims.names = event.claims
        _report(group, old, out)
        return group

    def removed(self, key: str, out: list[Action]) -> None:
        """A pod, whose processes may outlive it for a moment, and keep their limit; or a process that has ended."""
        group = self.by_key.get(key)
        if group is not None:
            group.is_listed, group.is_removed = False, True
            self.forget_if_unused(group, out)

    def pods_listed(self, out: list[Action]) -> list[Group]:
        """All pods are known: limits that clients claim no longer count."""
        self._pods_unknown = False
        provisional = [group for group in self.by_key.values() if group.provisional is not None]
        for group in provisional:
            old = group.limit
            group.provisional = None
            _report(group, old, out)
        return provisional

    def forget_if_unused(self, group: Group, out: list[Action]) -> None:
        """A group lives while it has clients or outlives them."""
        self._kept.pop(group.key, None)
        if group.limits or self.by_key.get(group.key) is not group:
            return
        if not group.outlives_clients:
            self._forget(group, out, is_expected=False)
        elif not group.is_listed:
            self._keep(group, out)

    def _keep(self, group: Group, out: list[Action]) -> None:
        self._kept[group.key] = self.by_key[group.key] = self.by_key.pop(group.key)
        if len(self._kept) > MAX_KEPT:
            oldest = self._kept.pop(next(iter(self._kept)))
            if oldest.limit:
                out.append(ReportLimit(oldest.key, oldest.label, oldest.limit, 0))
            self._forget(oldest, out, is_expected=True)

    def _forget(self, group: Group, out: list[Action], *, is_expected: bool) -> None:
        del self.by_key[group.key]
        if group.is_ordered:
            out.append(ReportForgotten(group.key, group.label, group.operator, group.order, is_expected))


def _report(group: Group, old: int, out: list[Action]) -> None:
    if group.limit != old:
        out.append(ReportLimit(group.key, group.label, old, group.limit))

"""Groups: who shares a limit, and whose word on it counts.

A group is a pod, a container or one `nvshare run`. Several authorities may name its limit; the first that speaks, in
this order, counts: the pod's annotation, the operator, the environment. For a pod the environment is the one in its
specification; where there is no Kubernetes to tell us, and for other groups, it is the first process's that has one.

A restart. A daemon that has just started does not know the pods yet, while its clients were told limits by the daemon
before. Until the pods are listed the lowest limit that a pod's clients claim is kept as provisional: forgetting it for
a second would let them allocate beyond it."""

from collections.abc import Iterable

from nvshare.core.actions import Action, Refuse, ReportLimit
from nvshare.core.events import ClientRegistered, LimitSet, PodChanged
from nvshare.core.limits import SharedLimit

POD_PREFIX = "pod/"
"""How the group of a pod's processes is named, before the pod's UID."""


class Group:
    """Who shares a limit, and what each authority says it is."""

    __slots__ = (
        "annotation", "container_limits", "environment", "is_listed", "is_pod", "is_removed", "key", "label", "limits",
        "operator", "priority", "provisional", "weight",
    )  # fmt: skip

    def __init__(self, key: str, label: str) -> None:
        self.key = key
        self.label = label
        self.is_pod = key.startswith(POD_PREFIX)
        self.is_listed = False
        """Kubernetes has this pod."""
        self.is_removed = False
        """Kubernetes had it, and it will not come back."""
        self.priority: int | None = None
        self.weight: int | None = None
        self.annotation: int | None = None
        self.operator: int | None = None
        self.provisional: int | None = None
        self.environment: int | None = None
        self.container_limits: tuple[int, ...] = ()
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

    def cap(self, own_limit: int) -> int:
        """What a process's own word adds to the group's limit: a lower one of its own. What the spec says is not its
        own word, or no annotation could ever raise a limit that began in the environment: the limit of all is the
        group's, and its container's counts until an annotation or the operator speaks."""
        is_overruled = self.annotation is not None or self.operator is not None
        if own_limit == self.environment or (is_overruled and own_limit in self.container_limits):
            return 0
        return own_limit


class Groups:
    """All groups of a node by key. Methods that return groups say whose limits need settling."""

    def __init__(self, *, expects_pods: bool) -> None:
        self.by_key: dict[str, Group] = {}
        self._expects_pods = self._pods_unknown = expects_pods

    def find(self, key: str, label: str) -> Group:
        group = self.by_key.get(key)
        if group is None:
            group = self.by_key[key] = Group(key, label)
        return group

    def note_registered(self, event: ClientRegistered) -> Group:
        group = self.find(event.group, event.label)
        if group.is_listed or (group.is_pod and self._expects_pods):
            if self._pods_unknown and not group.is_listed:
                told = [claim.limit for claim in event.claims]
                group.provisional = min(filter(None, [*told, group.provisional]), default=None)
        elif group.environment is None and event.own_limit:
            group.environment = event.own_limit
        return group

    def note_limit(self, event: LimitSet, out: list[Action]) -> Group:
        group = self.find(event.group, event.group)
        if group.annotation is not None:
            out.append(Refuse(f"{group.label} has an annotation, which counts; change that: kubectl annotate pod"))
        else:
            old = group.limit
            group.operator = event.limit
            _report(group, old, out)
        return group

    def note_pod(self, event: PodChanged, out: list[Action]) -> Group:
        group = self.find(POD_PREFIX + event.pod, event.label)
        old = group.limit
        group.label, group.is_listed, group.is_removed = event.label, True, False
        group.annotation, group.environment, group.provisional = event.limit, event.spec_limit, None
        group.container_limits = event.container_limits
        group.priority, group.weight = event.priority, event.weight
        _report(group, old, out)
        return group

    def note_pod_removed(self, pod: str) -> None:
        """Its processes may outlive it for a moment, under the limit they have."""
        group = self.by_key.get(POD_PREFIX + pod)
        if group is not None:
            group.is_listed, group.is_removed = False, True
            self.forget_if_unused(group)

    def note_pods_listed(self, out: list[Action]) -> list[Group]:
        """All pods are known: what clients claim to have been told no longer counts."""
        self._pods_unknown = False
        claimed = [group for group in self.by_key.values() if group.provisional is not None]
        for group in claimed:
            old = group.limit
            group.provisional = None
            _report(group, old, out)
        return claimed

    def forget_if_unused(self, group: Group) -> None:
        """A group lives while it has clients, a pod also while Kubernetes has it or the operator set its limit."""
        is_wanted = group.is_listed or (group.operator is not None and not group.is_removed)
        if not group.limits and not (group.is_pod and is_wanted):
            self.by_key.pop(group.key, None)


def _report(group: Group, old: int, out: list[Action]) -> None:
    if group.limit != old:
        out.append(ReportLimit(group.key, group.label, old, group.limit))

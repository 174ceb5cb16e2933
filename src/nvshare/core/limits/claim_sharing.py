"""Which groups share a limit on a GPU, and which limit that is.

A group without a claim shares with no other group. For pods with claims:

    share(p, q)     p and q have a process at the GPU and a claim on it in common, directly or through other pods
    claims(S)       the sum of the distinct claims on the GPU of the pods that share
    limit(S)        the lowest, over these pods, of:  limit(p)                      if limit(p) < claims(p)
                                                      max(claims(S), limit(p))      otherwise
    process of p    at most limit(p), and all processes of S together at most limit(S)

A pod that connects two such sets merges them: the members of the smaller join the larger, with their budgets and their
questions. A set is not divided when the pod that connected it leaves: its pods together still have what their claims
allow together. docs/decisions/0013 gives the reasons."""

from collections.abc import Callable, Iterable, Mapping

from nvshare.core.limits.groups import Group
from nvshare.core.limits.shared_limit import SharedLimit


class ClaimSharing:
    """Decides on all groups of a node. `merged` is called with the shared limit that stays and the one that ends;
    `capped` with a group whose processes may use another amount at a GPU, each for itself."""

    def __init__(
        self,
        groups: Mapping[str, Group],
        merged: Callable[[SharedLimit, SharedLimit], None],
        capped: Callable[[Group, str], None],
    ) -> None:
        self._groups = groups
        self._merged = merged
        self._capped = capped

    def apply(self, group: Group) -> Iterable[SharedLimit]:
        """Set the limit on every GPU that the group uses. Decide on the shared limits that it returns."""
        for gpu in group.limits:
            sharing = [group]
            if group.claims.names:
                self._merge(group, gpu)
                sharing = [it for it in self._groups.values() if it.limits.get(gpu) is group.limits[gpu]]
            self._set_limit(group.limits[gpu], sharing)
        return group.limits.values()

    def _merge(self, group: Group, gpu: str) -> None:
        """With all that have one of its claims."""
        own = group.claims.parts_on(gpu).keys()
        here = (it for it in self._groups.values() if gpu in it.limits)
        overlapping = (it.limits[gpu] for it in here if not own.isdisjoint(it.claims.parts_on(gpu)))
        found = dict.fromkeys([*overlapping, group.limits[gpu]])
        stays = max(found, key=lambda shared: len(shared.members))
        for ends in (shared for shared in found if shared is not stays):
            for it in (it for it in self._groups.values() if it.limits.get(gpu) is ends):
                it.limits[gpu] = stays
            for share in ends.members:
                stays.join(share)
            stays.questions.take_over(ends.questions, stays.round)
            self._merged(stays, ends)

    def _set_limit(self, shared: SharedLimit, sharing: list[Group]) -> None:
        gpu = shared.gpu
        parts: dict[str, int] = {}
        for group in sharing:
            parts.update(group.claims.parts_on(gpu))
        claimed = sum(parts.values())
        shared.set_limit(min(filter(None, (_bound(it, gpu, claimed) for it in sharing)), default=0))
        # The memory of all stays if one of them says so.
        said = [it.shrinks for it in sharing if it.shrinks is not None]
        shared.members.shrinks = all(said) if said else None
        for group in sharing:
            limit = group.limit_on(gpu)
            cap = limit if limit < shared.limit else 0
            if cap != group.caps.get(gpu, 0):
                group.caps[gpu] = cap
                self._capped(group, gpu)


def _bound(group: Group, gpu: str, claimed: int) -> int:
    """What a group says of the limit that it shares; 0: nothing. `claimed` is what the claims of all allow."""
    limit = group.limit_on(gpu)
    is_lowered = limit < (group.claims.on(gpu) or 0)
    return limit if is_lowered or not limit else max(claimed, limit)

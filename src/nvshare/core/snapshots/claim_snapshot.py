"""The prepared ResourceClaims as plain values, for status and the live page."""

from collections import Counter

from nvshare.core.limits.groups import Group
from nvshare.core.node import Node
from nvshare.record import Record


class ClaimSnapshot(Record, frozen=True):
    """A prepared ResourceClaim on one GPU, `pods` that have it, and what these use of the GPU together."""

    label: str
    uid: str
    gpu: str
    limit: int
    used: int
    pods: tuple[str, ...]


def claims(node: Node) -> tuple[ClaimSnapshot, ...]:
    """All claims that are prepared, on each of their GPUs."""
    having: dict[str, list[Group]] = {label: [] for label in node.prepared_claims}
    for group in node.groups.values() if having else ():
        for label in group.claims.names:
            if label in having:
                having[label].append(group)
    used = _used(node) if having else {}
    return tuple(
        ClaimSnapshot(
            label=label,
            uid=claim.uid,
            gpu=gpu,
            limit=limit,
            used=sum(used[it.key, gpu] for it in groups),
            pods=tuple(it.label for it in groups),
        )
        for label, groups in having.items()
        for claim in [node.prepared_claims[label]]
        for gpu, limit in claim.limits.items()
    )


def _used(node: Node) -> Counter[tuple[str, str]]:
    """What the processes of each group use on each GPU. It cannot be said which of its claims that belongs to."""
    used: Counter[tuple[str, str]] = Counter()
    for client in node.clients.values():
        for gpu in client.seats:
            used[client.group.key, gpu] += client.group.limits[gpu].shares[client.id].used
    return used

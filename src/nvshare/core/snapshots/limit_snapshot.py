"""The limits of all groups as plain values, for `nvsharectl limits`."""

from collections import Counter
from collections.abc import Iterator

from nvshare.core.limits.core_sources import core_limit_named
from nvshare.core.limits.groups import Source
from nvshare.core.node import Node
from nvshare.record import Record


class LimitSnapshot(Record, frozen=True):
    """The limits of a group on each GPU, 0 is none; `source` named the memory limit, None: there is none;
    `core_source` the same of the core limit; `clients` is how many they bind now."""

    group: str
    label: str
    limit: int
    source: Source | None
    clients: int
    core_limit_percent: int = 0
    core_source: Source | None = None


def limits(node: Node) -> Iterator[LimitSnapshot]:
    """All groups that have a limit from any source, with clients or without, each as it is when it is read."""
    clients = Counter(client.group.key for client in node.clients.values())
    for group in list(node.groups.values()):
        source, limit = group.named or (None, 0)
        core_source, percent = core_limit_named(group) or (None, 0)
        if source is not None or core_source is not None:
            yield LimitSnapshot(group.key, group.label, limit, source, clients[group.key], percent, core_source)

"""What groups use of the GPUs, from the snapshots of their clients."""

from collections.abc import Iterable, Mapping

from nvshare.core.snapshots.snapshot import ClientSnapshot

GroupPercents = Mapping[tuple[str, str], float]
"""By group and GPU."""


def group_percents(clients: Iterable[ClientSnapshot]) -> GroupPercents:
    """How much of each GPU's time the processes of each group had together in the last 10 s."""
    had: dict[tuple[str, str], float] = {}
    for client in clients:
        for seat in client.seats:
            key = client.group, seat.gpu
            had[key] = had.get(key, 0.0) + seat.gpu_percent
    return had

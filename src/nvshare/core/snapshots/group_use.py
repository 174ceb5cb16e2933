"""What groups and users use of the GPUs, from the snapshots of their clients."""

from collections.abc import Iterable, Mapping

from nvshare.core.snapshots.snapshot import ClientSnapshot, SeatSnapshot

GroupPercents = Mapping[tuple[str, str], float]
"""By group and GPU."""


def group_percents(clients: Iterable[ClientSnapshot]) -> GroupPercents:
    """How much of each GPU's time the processes of each group had together in the last 10 s."""
    return Together(clients).groups


class Together:
    """The same, also of all processes of each user."""

    def __init__(self, clients: Iterable[ClientSnapshot]) -> None:
        self.groups: dict[tuple[str, str], float] = {}
        self._users: dict[tuple[int, str], float] = {}
        for client in clients:
            for seat in client.seats:
                key = client.group, seat.gpu
                self.groups[key] = self.groups.get(key, 0.0) + seat.gpu_percent
                if client.uid is not None:
                    user = client.uid, seat.gpu
                    self._users[user] = self._users.get(user, 0.0) + seat.gpu_percent

    def group(self, client: ClientSnapshot, seat: SeatSnapshot) -> float:
        return self.groups[client.group, seat.gpu]

    def user(self, client: ClientSnapshot, seat: SeatSnapshot) -> float | None:
        """None if the user is not known."""
        return None if client.uid is None else self._users[client.uid, seat.gpu]

"""What groups and users use of the GPUs, from the snapshots of their clients."""

from collections.abc import Iterable

from nvshare.core.snapshots.snapshot import ClientSnapshot, SeatSnapshot


class Together:
    """How much of each GPU's time all processes of each group had in the last 10 s, and all processes of each user."""

    def __init__(self, clients: Iterable[ClientSnapshot] = ()) -> None:
        self.groups: dict[tuple[str, str], float] = {}
        """By group and GPU; `_users`: by user and GPU."""
        self._users: dict[tuple[int, str], float] = {}
        for client in clients:
            for seat in client.seats:
                self.add(client.group, client.uid, seat.gpu, seat.gpu_percent)

    def add(self, group: str, uid: int | None, gpu: str, percent: float) -> None:
        """A client of this group and user had so much of this GPU's time."""
        self.groups[group, gpu] = self.groups.get((group, gpu), 0.0) + percent
        if uid is not None:
            self._users[uid, gpu] = self._users.get((uid, gpu), 0.0) + percent

    def group(self, client: ClientSnapshot, seat: SeatSnapshot) -> float:
        """At least its own: it may have come since the others were counted."""
        return self.groups.get((client.group, seat.gpu), seat.gpu_percent)

    def user(self, client: ClientSnapshot, seat: SeatSnapshot) -> float | None:
        """None if the user is not known."""
        return None if client.uid is None else self._users.get((client.uid, seat.gpu), seat.gpu_percent)

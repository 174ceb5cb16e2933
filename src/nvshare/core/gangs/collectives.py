"""Which processes use collectives (CollectivesUsed), by group: those of one group may be a job (core.gangs)."""

from nvshare.core.client import Client
from nvshare.core.turns.seat import Seat

MAX_OF_GROUP = 128
"""A job has one process at each GPU, and no machine has more GPUs. Further processes take their own turns."""


class Collectives:
    """The processes of a node that use collectives."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[int, Client]] = {}

    def used_by(self, client: Client) -> None:
        users = self._groups.setdefault(client.group.key, {})
        if len(users) < MAX_OF_GROUP or client.id in users:
            users[client.id] = client
            client.uses_collectives = client.may_be_in_gang = True

    def left(self, client: Client) -> None:
        if client.uses_collectives:
            users = self._groups[client.group.key]
            del users[client.id]
            if not users:
                del self._groups[client.group.key]

    def job_of(self, client: Client) -> dict[str, Seat]:
        """The seats of its group's processes that use collectives and have or want a lock: one at each GPU; a member of
        a gang is preferred. Empty if these are the seats of one process."""
        if not client.uses_collectives:
            return {}
        seats = [
            (uuid, seat)
            for other in self._groups[client.group.key].values()
            for uuid, seat in other.seats.items()
            if seat.state in ("staying", "waiting")
        ]
        job = dict(sorted(seats, key=lambda entry: entry[1].gang is not None))
        return job if len({seat.client for seat in job.values()}) > 1 else {}

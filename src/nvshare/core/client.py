"""A registered process."""

from nvshare.core.events import ClientRegistered
from nvshare.core.limits.groups import Group
from nvshare.core.model import MemoryMode
from nvshare.core.turns.seat import Seat


class Client:
    """A process, the group whose limit it shares, and its seats by GPU."""

    __slots__ = (
        "account", "core_limit", "group", "id", "may_be_in_gang", "memory_mode", "name", "own_limit", "pid", "priority",
        "seats", "uid", "uses_collectives", "weight",
    )  # fmt: skip

    def __init__(self, event: ClientRegistered, group: Group) -> None:
        self.id = event.client
        self.account = event.account
        self.group = group
        self.name = event.name
        self.pid = event.pid
        self.uid = event.uid
        self.own_limit = event.own_limit
        self.priority = event.priority
        self.weight = event.weight
        self.uses_collectives = False
        """Its kernels wait for those of other processes of its group."""
        self.may_be_in_gang = len(event.claims) > 1
        """It uses several GPUs, or works together with other processes (core.gangs)."""
        self.core_limit = 0
        """How much of a GPU's time its environment wants at most for its group, in percent; 0: no limit."""
        self.memory_mode: MemoryMode = "managed"
        self.seats: dict[str, Seat] = {}

    def want_core_limit(self, percent: int) -> None:
        wishes = self.group.core_wishes
        wishes[self.core_limit] -= 1
        wishes[percent] += 1
        self.core_limit = percent

    def new_seat(self, event: ClientRegistered) -> Seat:
        """A seat of this client, which is registering: what it can do is known of each of its seats."""
        seat = Seat(self.id, self.priority, self.weight, group=self.group)
        seat.account, seat.pid = self.account, self.pid
        seat.siblings = self.seats
        seat.moves_memory = event.moves_memory
        seat.holds_memory = event.holds_memory
        seat.makes_room = event.makes_room
        seat.understands_expected_start = event.understands_expected_start
        return seat

"""A connection between a process and the scheduler of a world. Order is kept in each direction; nothing else is."""

from collections.abc import Callable

from nvshare.schedsim.scheduler_end import SchedulerEnd
from nvshare.schedsim.worlds.chance import Chance
from nvshare.schedsim.worlds.timeline import Timeline


class Pipe:
    """One direction of a connection."""

    def __init__(self, timeline: Timeline, chance: Chance) -> None:
        self._timeline = timeline
        self._chance = chance
        self._last_at = 0

    def carry(self, arrive: Callable[[], None]) -> None:
        """`arrive` is called when a message that is sent now has arrived."""
        self._last_at = max(self._last_at, self._timeline.now + self._chance.latency())
        self._timeline.at(self._last_at - self._timeline.now, arrive)


class Connection:
    """One connection's life. Messages on a closed one are lost."""

    def __init__(self, epoch: int, scheduler: SchedulerEnd, up: Pipe, down: Pipe) -> None:
        self.client = scheduler.who.client
        self.epoch = epoch
        self.scheduler = scheduler
        self.up = up
        """To the scheduler."""
        self.down = down
        self.is_open = True

"""What the threads of a world's process do at one GPU."""

from nvshare.client_machine.library import Account
from nvshare.schedsim.worlds.mover import Mover


class GpuUse:
    """Kept by worlds.process."""

    __slots__ = (
        "account", "ask", "drained_at", "drains", "gpu", "has_work", "index", "is_letting", "is_open", "lets", "mover",
        "needs", "told_moved", "waits_since", "worked",
    )  # fmt: skip

    def __init__(self, gpu: str, index: int, account: Account, mover: Mover) -> None:
        self.gpu = gpu
        self.index = index
        self.account = account
        self.mover = mover
        self.told_moved = [0, 0]
        """Bytes to the GPU and to the host that it has reported on its present connection."""
        self.is_open = False
        """The gate."""
        self.has_work = False
        """A thread computes or stands at the gate."""
        self.waits_since: int | None = None
        """When a thread came to the closed gate."""
        self.worked = 0
        """Stretches of work that could begin."""
        self.needs = 0
        """What a thread waits to allocate; 0: none does."""
        self.ask = 0
        """The number of its question about that, once it is sent."""
        self.drains = 0
        """Drains begun or given up; says whether one that ends is still wanted."""
        self.is_letting = False
        """One submission is let through the closed gate for another process."""
        self.lets = 0
        """How many were; says whether one that ends is the last."""
        self.drained_at = 0
        """When the last drain ended: until then a thread at the gate waits for its own process."""

    def begin_letting(self) -> None:
        self.lets += 1
        self.is_letting = True

    def ends_letting(self, number: int) -> bool:
        """True if it was the last one, and had not ended."""
        is_last = self.is_letting and number == self.lets
        self.is_letting = self.is_letting and not is_last
        return is_last

"""What a process knows of itself at one GPU."""

from nvshare.core.model import Memory
from nvshare.sim.worlds.gate import Account, Turn


class Place:
    """A process at one GPU."""

    __slots__ = (
        "account", "contexts", "had_contexts", "has_work", "is_idle_told", "is_reporting", "needs", "told", "turn",
        "worked",
    )  # fmt: skip

    def __init__(self, own_limit: int) -> None:
        self.turn = Turn()
        self.account = Account(own_limit)
        self.contexts = 0
        self.had_contexts = False
        """What the helper thread saw when it last looked."""
        self.has_work = False
        """A thread computes or stands at the gate."""
        self.worked = 0
        """Stretches of work that could begin."""
        self.is_idle_told = False
        self.is_reporting = False
        self.told = self.memory
        self.needs = 0
        """What a thread waits to allocate; 0: none does."""

    @property
    def memory(self) -> Memory:
        return Memory(swappable=self.account.used, contexts=self.contexts)

    @property
    def has_waiters(self) -> bool:
        """A thread stands at the gate."""
        return self.has_work and not self.turn.is_open

"""Mode `auto`: the quantum is proportional to the memory of the running set."""

from collections.abc import Collection

from nvshare.core.model import GIB, SECOND
from nvshare.core.modes.mode import Mode
from nvshare.core.turns.seat import Seat


class Auto(Mode):
    """quantum = max(1, whole GiB running) * multiplier * 1 s, at least `least_ns` and at most `most_ns`"""

    @property
    def longest_quantum_ns(self) -> int:
        return max(self.rule.least_ns, self.rule.most_ns)

    def quantum_ns(self, running: Collection[Seat], head: Seat | None, newcomers: int) -> int:
        rule = self.rule
        used = 0
        for seat in running:
            memory = seat.memory
            used += memory.swappable + memory.unswappable
        quantum = (used // GIB or 1) * rule.multiplier * SECOND
        if quantum < rule.least_ns:
            return rule.least_ns
        return min(quantum, rule.most_ns)

"""Mode `fixed`: every quantum is as long as the operator says."""

from collections.abc import Collection

from nvshare.core.modes.mode import Mode
from nvshare.core.turns.seat import Seat


class Fixed(Mode):
    """quantum = fixed_ns"""

    @property
    def longest_quantum_ns(self) -> int:
        return self.rule.fixed_ns

    def quantum_ns(self, running: Collection[Seat], head: Seat | None, newcomers: int) -> int:
        return self.rule.fixed_ns

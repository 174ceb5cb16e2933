"""What moving memory to a card costs, learned from how much longer work takes when memory has to come in first.

A figure says: so many bytes came in, and that took so much longer than usual. It is worth the more, the more came in
for the time that usual work takes, because that time varies by itself. So this is least squares through zero, weighted,
with a first guess as one more figure, and with old figures slowly forgotten."""

from nvshare.core.model import GIB, SECOND

FIRST_GUESS_S_PER_GIB = 0.2
"""Page faults on a card of 2016."""
GUESS_WEIGHT = 0.44
"""As if work varied by a fifth, and the guess could be wrong by 0.3 s a GiB."""
KEPT = 0.98
"""What an old figure still counts when a new one comes."""
LEAST_S_PER_GIB = 0.01
MOST_S_PER_GIB = 5.0
LEAST_WORK_S = 0.05
"""Work that is said to take less is taken to take this long, or a single figure could count for everything."""


class MoveCost:
    """Of one card."""

    def __init__(self) -> None:
        self.figures = 0
        self.ns_per_gib = round(FIRST_GUESS_S_PER_GIB * SECOND)
        self._squares = 0.0
        self._products = 0.0

    def note(self, moved_bytes: int, extra_ns: int, work_ns: int) -> None:
        """Work that usually takes `work_ns` took `extra_ns` more (or less) because, or although, bytes came in."""
        moved, extra = moved_bytes / GIB, extra_ns / SECOND
        weight = 1 / max(LEAST_WORK_S, work_ns / SECOND) ** 2
        self.figures += 1
        self._squares = KEPT * self._squares + weight * moved * moved
        self._products = KEPT * self._products + weight * moved * extra
        learned = (self._products + GUESS_WEIGHT * FIRST_GUESS_S_PER_GIB) / (self._squares + GUESS_WEIGHT)
        self.ns_per_gib = round(max(LEAST_S_PER_GIB, min(MOST_S_PER_GIB, learned)) * SECOND)

    def of(self, moved_bytes: int) -> int:
        """Nanoseconds."""
        return moved_bytes * self.ns_per_gib // GIB

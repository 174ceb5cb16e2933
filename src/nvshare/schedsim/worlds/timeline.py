"""The time of a world: all that happens comes out of one heap, ordered by time and then by when it was put there."""

import heapq
from collections.abc import Callable


class Timeline:
    """`play` lets things happen; `now` is the time of the last one."""

    def __init__(self, now: int) -> None:
        self.now = now
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0

    def at(self, delay_ns: int, what: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.now + delay_ns, self._order, what))

    def play(self, *, until: int | None = None, goes_on: Callable[[], bool] = lambda: True) -> None:
        """Let things happen while `goes_on` says so, until a time."""
        while self._heap and goes_on():
            if until is not None and self._heap[0][0] > until:
                self.now = until
                return
            when, _, what = heapq.heappop(self._heap)
            self.now = max(self.now, when)
            what()


class Alarm:
    """Rings once for the deadline that was set last."""

    def __init__(
        self,
        timeline: Timeline,
        ring: Callable[[], None],
        do: Callable[[Callable[[], None]], None] = lambda what: what(),
    ) -> None:
        """`do` does something now, or later if its owner is stopped."""
        self._timeline = timeline
        self._ring = ring
        self._do = do
        self._deadline: int | None = None
        self._number = 0

    def set(self, deadline: int | None, delay_ns: Callable[[int], int]) -> None:
        """A deadline in its owner's time; `delay_ns` says how long it is until then, and is asked only if it is new."""
        if deadline == self._deadline:
            return
        self._number += 1
        self._deadline = deadline
        if deadline is not None:
            number = self._number
            self._timeline.at(delay_ns(deadline), lambda: self._do(lambda: self._due(number)))

    def clear(self) -> None:
        self._number += 1
        self._deadline = None

    def _due(self, number: int) -> None:
        if number == self._number:
            self._deadline = None
            self._ring()

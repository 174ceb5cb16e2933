"""The next of many deadlines, found without a scan of all."""

from collections.abc import Hashable
from heapq import heappop, heappush
from itertools import count
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Alarms(Generic[T]):
    """At most one time for each thing. A time that was changed stays in the heap until it comes up, and is skipped."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, T]] = []
        """With a serial number, so that two things are never compared."""
        self._times: dict[T, int] = {}
        self._serials = count()

    def set(self, thing: T, when: int | None) -> None:
        """None: never."""
        if when is None:
            self._times.pop(thing, None)
        elif self._times.get(thing) != when:
            self._times[thing] = when
            heappush(self._heap, (when, next(self._serials), thing))

    @property
    def next(self) -> int | None:
        while self._heap:
            when, _, thing = self._heap[0]
            if self._times.get(thing) == when:
                return when
            heappop(self._heap)
        return None

    def due(self, now: int) -> list[T]:
        """Those whose time has come; they have none until it is set again."""
        found = []
        while (when := self.next) is not None and when <= now:
            thing = heappop(self._heap)[2]
            del self._times[thing]
            found.append(thing)
        return found

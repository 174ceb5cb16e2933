"""What a process of a world moves in bulk at one GPU. A move takes its time, slice by slice, as in libnvshare's mover.
It ends early when the gate opens or closes, when the next move begins, and when there is no memory left to move."""

from collections.abc import Callable

from nvshare.core.model import GIB
from nvshare.schedsim.worlds.timeline import Timeline

SLICE = GIB
LINK_BYTES_PER_NS = 1
"""Slower than a real link, so that more happens during a move."""


class Mover:
    """`do` does something when the process can, `allocated` says how much memory there is, `report` what was moved."""

    def __init__(
        self,
        timeline: Timeline,
        do: Callable[[Callable[[], None]], None],
        allocated: Callable[[], int],
        report: Callable[[bool, int, int], None],
    ) -> None:
        self.is_off = False
        """Prefetches have no effect at present."""
        self.is_moving = False
        self.to_host = False
        self._timeline = timeline
        self._do = do
        self._allocated = allocated
        self._report = report
        self._left = self._moved = self._began_at = 0
        self._next: tuple[bool, int] | None = None

    def start(self, size: int, *, to_host: bool) -> None:
        if self.is_off or not size:
            return
        self.stop()
        if self.is_moving:
            self._next = (to_host, size)
        else:
            self._begin(to_host, size)

    def stop(self) -> None:
        """The slice that is under way is the last one."""
        self._left = 0
        self._next = None

    def _begin(self, to_host: bool, size: int) -> None:
        self.is_moving, self.to_host = True, to_host
        self._left, self._moved, self._began_at = size, 0, self._timeline.now
        self._step()

    def _step(self) -> None:
        size = min(SLICE, self._left, self._allocated())
        if size <= 0:
            self._end()
            return
        self._left -= size
        self._timeline.at(size // LINK_BYTES_PER_NS, lambda: self._do(lambda: self._landed(size)))

    def _landed(self, size: int) -> None:
        self._moved += size
        self._step()

    def _end(self) -> None:
        self.is_moving = False
        self._report(self.to_host, self._moved, self._timeline.now - self._began_at)
        following, self._next = self._next, None
        if following is not None and not self.is_off:
            self._begin(*following)

"""The looks of a world's process at one GPU, as the library's helper makes them (native/libnvshare/helper/gpu_time.c).

What a look counts for and when it is reported is the library's own code (client/looks.c). Between two events of a
process nothing changes for it, so its looks are computed afterwards, each for its own time. A stopped process makes no
looks."""

import ctypes
from collections.abc import Callable, Sequence

from nvshare.client_machine.library import LIBRARY, TurnState
from nvshare.client_machine.looks import LookReport, Looks
from nvshare.client_machine.machine import ClientMachine
from nvshare.core.model import MILLISECOND
from nvshare.schedsim.worlds.gpu_use import GpuUse
from nvshare.schedsim.worlds.timeline import Alarm, Timeline
from nvshare.wire.messages import LOOKS_MOST

AFTER_NS = 200 * MILLISECOND
"""While the helper looks, it wakes up at least this often."""


class Looker:
    """Call `saw` before something changes, and `change` afterwards."""

    __slots__ = (
        "_at", "_due", "_index", "_is_busy", "_is_resting", "_looks", "_machine", "_seen_until", "busy_ns",
        "looked_ns", "reported_ns", "unsure_ns",
    )  # fmt: skip

    def __init__(self, machine: ClientMachine, index: int, now: int) -> None:
        self._machine = machine
        self._index = index
        self._looks = Looks()
        self._at = ctypes.pointer(self._looks)
        self._due: int | None = None
        self._is_busy = False
        self._is_resting = False
        self._seen_until = now
        self.looked_ns = self.busy_ns = self.reported_ns = self.unsure_ns = 0
        """For how long it looked; for which part of that it had work; what it reported; for how long a late look may
        count although nothing was seen."""

    @property
    def is_looking(self) -> bool:
        return self._due is not None

    def saw(self, now: int) -> None:
        """Makes all looks that were due until now."""
        if self._due is not None:
            self.looked_ns += now - self._seen_until
            self.busy_ns += (now - self._seen_until) * self._is_busy
        self._seen_until = now
        while self._due is not None and self._due <= now:
            self._look(self._due)

    def late(self, now: int) -> None:
        """It could not look until now."""
        if self._due is not None:
            self.unsure_ns += min(now - self._seen_until, LOOKS_MOST * MILLISECOND)
            self._due = max(self._due, now)
        self._seen_until = now

    def change(self, now: int, *, may_work: bool, is_busy: bool) -> None:
        """`may_work`: its gate is open, or submitted work may be unfinished, and the scheduler is told of it."""
        self._is_busy = is_busy
        if not may_work:
            self._end()
            self._due, self._is_resting = None, False
            return
        self._is_resting = self._is_resting and not is_busy
        if self._due is None and not self._is_resting:
            self._due = LIBRARY.nvs_looks_next(self._at, now)

    def _look(self, now: int) -> None:
        report = LookReport()
        if LIBRARY.nvs_looks_saw(self._at, now, self._is_busy, ctypes.byref(report)):
            self._report(report)
        self._due = LIBRARY.nvs_looks_next(self._at, now)
        if LIBRARY.nvs_looks_are_quiet(self._at):
            first = self._looks.last + 1
            self._end()
            self._report(LookReport.of(first, 0, 0))
            self._due, self._is_resting = None, True

    def _end(self) -> None:
        report = LookReport()
        if LIBRARY.nvs_looks_end(self._at, ctypes.byref(report)):
            self._report(report)

    def _report(self, report: LookReport) -> None:
        self.reported_ns += report.looks.bit_count() * MILLISECOND
        self._machine.gpu_time(self._index, report.first, report.count, report.looks)


class Lookers:
    """The lookers of one process; none if it does not report its GPU time."""

    def __init__(
        self,
        timeline: Timeline,
        machine: ClientMachine,
        uses: Sequence[GpuUse],
        do: Callable[[Callable[[], None]], None],
    ) -> None:
        self._timeline = timeline
        self._machine = machine
        self.pairs = [(use, Looker(machine, use.index, timeline.now)) for use in uses]
        self._wakes_at = 0
        self._alarm = Alarm(timeline, lambda: None, do)

    def before(self) -> None:
        """Something happens to the process now."""
        for _, looker in self.pairs:
            looker.saw(self._timeline.now)

    def after(self) -> None:
        """It has happened."""
        for use, looker in self.pairs:
            is_draining = self._machine.state(use.index) is TurnState.DRAINING
            may_work = (use.is_open or is_draining) and bool(self._machine.seen[use.index].contexts)
            looker.change(
                self._timeline.now,
                may_work=may_work and self._machine.is_registered and not self._machine.is_hung,
                is_busy=may_work and use.has_work,
            )
        is_looking = any(looker.is_looking for _, looker in self.pairs)
        if is_looking and self._wakes_at <= self._timeline.now:
            self._wakes_at = self._timeline.now + AFTER_NS
            self._alarm.set(self._wakes_at, lambda _: AFTER_NS)

    def late(self) -> None:
        """The process could do nothing until now."""
        for _, looker in self.pairs:
            looker.late(self._timeline.now)

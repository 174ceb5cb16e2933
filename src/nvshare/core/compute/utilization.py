"""NVML's utilisation of one GPU, and the part of the same time in which its clients were busy.

NVML's figure is the part of a sample period (1/6 s to 1 s, depending on the product) in which a kernel of any process
ran. Here it counts for the time since the previous reading. Both figures are means over the last WINDOW_NS:

    accounted = time in which a client was busy (compute.gpu_time) / time
    NVML      > accounted: kernels of processes without the library, or of work that a client does not report
    accounted > NVML:      copies, waits between dependent work, locks of clients that do not report their GPU time

A process without the library that works only while a client works changes neither figure."""

from nvshare.core.compute.gpu_time import GpuTime
from nvshare.core.compute.recent_use import WINDOW_NS
from nvshare.core.model import SECOND
from nvshare.record import Record

PERIOD_NS = SECOND
"""NVML's longest sample period. The first reading counts for this time."""
LONGEST_NS = 5 * SECOND
"""After a longer time without a reading, earlier readings are forgotten."""


class Comparison(Record, frozen=True):
    """Both figures, in percent of the same time."""

    utilization: float
    accounted: float


class Utilization:
    """The comparison for one GPU."""

    def __init__(self, gpu_time: GpuTime) -> None:
        self._gpu_time = gpu_time
        self._spans: list[tuple[int, int, int]] = []
        """Begin, end and percent of each reading, without gaps."""

    def measured(self, now: int, percent: int) -> None:
        self._gpu_time.divide(now)
        spans = self._spans
        if spans and now <= spans[-1][1]:
            return
        if not spans or now - spans[-1][1] > LONGEST_NS:
            self._spans = [(now - PERIOD_NS, now, percent)]
            return
        spans.append((spans[-1][1], now, percent))
        while spans[0][1] <= now - WINDOW_NS:
            del spans[0]

    def compared(self, now: int) -> Comparison | None:
        """None if NVML has reported nothing lately."""
        if not self._spans or now - self._spans[-1][1] > WINDOW_NS:
            return None
        begin, end = self._spans[0][0], self._spans[-1][1]
        measured = sum((upto - since) * percent for since, upto, percent in self._spans)
        return Comparison(measured / (end - begin), self._gpu_time.percent_between(now, begin, end))

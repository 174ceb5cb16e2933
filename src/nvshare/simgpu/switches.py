"""What switches between programs cost a simulated card, from its traces.

A switch costs the time in which the card does not compute: from the end of the last kernel of the one program to the
first kernel of the other, and the time for which that one's kernels wait for memory during its turn."""

import itertools
from collections.abc import Iterable, Iterator

from nvshare.simgpu.trace import ProcessTrace, Record


def switch_costs(traces: Iterable[ProcessTrace]) -> list[float]:
    """Of each switch, in order, in seconds of the card."""
    traces = list(traces)
    scale = traces[0].scale if traces else 1.0
    return [_cost_ns(before, after) / 1e9 / scale for before, after in itertools.pairwise(_turns(traces))]


def _turns(traces: list[ProcessTrace]) -> Iterator[list[Record]]:
    """The kernels of each turn, in order."""
    kernels = ((kernel, trace.process) for trace in traces for kernel in trace.kernels() if kernel.end_ns is not None)
    in_order = sorted(kernels, key=lambda one: one[0].begin_ns)
    for _, turn in itertools.groupby(in_order, key=lambda one: one[1]):
        yield [kernel for kernel, _ in turn]


def _cost_ns(before: list[Record], after: list[Record]) -> int:
    gap = after[0].begin_ns - max(kernel.known_end_ns for kernel in before)
    return gap + sum(kernel.page_in_ns for kernel in after)

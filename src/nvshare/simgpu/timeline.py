"""The data of the chart that shows which process used the GPU when, ready for JSON.

A trace has a record per kernel, far too many to draw. A lane here is one process on one card, as spans of work with
small holes closed, each with how much of it was spent moving memory.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from nvshare.simgpu.trace import Kind, ProcessTrace, Record, merge

_WORK = (Kind.KERNEL, Kind.COPY, Kind.MEMSET, Kind.PREFETCH)


@dataclass(frozen=True, slots=True)
class Span:
    """Seconds from the picture's left edge; `paging` is the part of the span that went into moving memory, 0 to 1."""

    begin_s: float
    end_s: float
    paging: float


@dataclass(frozen=True, slots=True)
class Lane:
    """One process on one card."""

    process: str
    label: str
    busy_s: float
    paging_s: float
    kernels: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Card:
    """One card's lanes, in order of first work, and how long it was busy."""

    uuid: str
    busy_s: float
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole picture. Times are simulated seconds: real ones divided by the simulator's scale."""

    length_s: float
    cards: tuple[Card, ...]


def timeline(traces: Iterable[ProcessTrace], gap_s: float = 0.01) -> Timeline:
    """The picture of some traces; work closer together than `gap_s` (simulated) is drawn as one span."""
    traces = list(traces)
    work = [record for trace in traces for record in trace.of_kind(*_WORK)]
    if not work:
        return Timeline(0.0, ())
    scale = traces[0].scale or 1.0
    left = min(record.begin_ns for record in work)
    right = max(record.known_end_ns for record in work)
    ruler = _Ruler(left, scale, round(gap_s * scale * 1e9))
    by_card: defaultdict[str, list[tuple[ProcessTrace, list[Record]]]] = defaultdict(list)
    for trace in traces:
        for index, uuid in enumerate(trace.uuids):
            mine = [record for record in trace.of_kind(*_WORK) if record.card == index]
            if mine:
                by_card[uuid].append((trace, mine))
    cards = (_card(uuid, lanes, ruler) for uuid, lanes in sorted(by_card.items()))
    return Timeline(ruler.seconds(right - left), tuple(cards))


@dataclass(frozen=True, slots=True)
class _Ruler:
    left_ns: int
    scale: float
    gap_ns: int

    def seconds(self, ns: int) -> float:
        return ns / 1e9 / self.scale


def _card(uuid: str, lanes: list[tuple[ProcessTrace, list[Record]]], ruler: _Ruler) -> Card:
    intervals = [(record.begin_ns, record.known_end_ns) for _, work in lanes for record in work]
    lanes = sorted(lanes, key=lambda lane: min(record.begin_ns for record in lane[1]))
    return Card(uuid, _length(intervals, ruler), tuple(_lane(trace, work, ruler) for trace, work in lanes))


def _lane(trace: ProcessTrace, work: list[Record], ruler: _Ruler) -> Lane:
    intervals = [(record.begin_ns, record.known_end_ns) for record in work]
    return Lane(
        process=trace.process,
        label=f"{trace.command} ({trace.pid})",
        busy_s=_length(intervals, ruler),
        paging_s=ruler.seconds(sum(record.page_in_ns for record in work)),
        kernels=sum(record.kind is Kind.KERNEL for record in work),
        spans=tuple(_spans(sorted(work, key=lambda record: record.begin_ns), ruler)),
    )


def _spans(work: list[Record], ruler: _Ruler) -> list[Span]:
    spans, next_record = [], 0
    for begin, end in merge(((record.begin_ns, record.known_end_ns) for record in work), ruler.gap_ns):
        moving = 0
        while next_record < len(work) and work[next_record].begin_ns <= end:
            moving += work[next_record].page_in_ns
            next_record += 1
        share = min(1.0, moving / (end - begin)) if end > begin else 0.0
        spans.append(Span(ruler.seconds(begin - ruler.left_ns), ruler.seconds(end - ruler.left_ns), share))
    return spans


def _length(intervals: list[tuple[int, int]], ruler: _Ruler) -> float:
    return ruler.seconds(sum(end - begin for begin, end in merge(intervals)))

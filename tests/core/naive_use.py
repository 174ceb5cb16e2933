"""What the naive account knows of GPU time at one GPU: when clients held locks and what they reported, in lists, and
counted look by look. Looks between two edges, at which the same clients are busy, are counted together.

From the core it takes which looks are divided: a report of those comes too late. It checks that they are old enough."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from nvshare.core.compute.gpu_time import REPORT_LOOKS, WAKE_LOOKS
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.compute.looks import START_LOOKS

FOREVER = 1 << 200


@dataclass
class Span:
    """Looks from `first` to before `end`; who is busy, and who competes by weight. `idle`: if nobody is busy, who holds
    locks and has had the time to begin its work."""

    first: int
    end: int
    busy: list["Use"]
    competing: list["Use"]
    idle: list["Use"] = field(default_factory=list)
    held: bool = False

    @property
    def ns(self) -> int:
        return (self.end - self.first) * LOOK_NS

    def part(self, use: "Use") -> int:
        return (self.end - self.first) * (LOOK_NS // len(self.busy)) if use in self.busy else 0


@dataclass(eq=False)
class Use:
    """What one client held and said. If it said two things about a look, the first counts."""

    client: int
    group: str
    weight: int = 100
    has_left: bool = False
    lock: int = 0
    turns: list[tuple[int, int]] = field(default_factory=list)
    said: list[tuple[int, int, int]] = field(default_factory=list)
    rested: list[tuple[int, int]] = field(default_factory=list)
    rests_from: int | None = None
    """It has nothing to do, until it reports again or gets a lock. In `rested` earlier looks of which it said so."""
    back: list[tuple[int, int]] = field(default_factory=list)
    """Looks at which it was held back by its weight."""
    wakes_from: int | None = None
    """It was released, and has not worked since."""
    is_counted: bool = False
    """It had a lock, reported or was held back, and a look of that is not divided."""

    @property
    def counted_weight(self) -> int:
        return max(1, self.weight)

    def is_busy(self, look: int) -> bool:
        for first, end, busy in self.said:
            if first <= look < end:
                return bool(busy >> (look - first) & 1)
        if self.rests_from is not None and look >= self.rests_from:
            return False
        return self.holds(look) and not any(first <= look < end for first, end in self.rested)

    def holds(self, look: int, *, since: int = 0) -> bool:
        """`since`: at least for so many looks."""
        return any(first + since <= look < end for first, end in self.turns)

    def busy_looks(self, begin: int, end: int) -> int:
        edges = sorted({begin, end, *(edge for edge in self.edges() if begin < edge < end)})
        return sum(last - first for first, last in pairwise(edges) if begin < end and self.is_busy(first))

    def competes(self, look: int) -> bool:
        if self.is_busy(look) or any(first <= look < end for first, end in self.back):
            return True
        begin = self.wakes_from
        return begin is not None and begin <= look < begin + WAKE_LOOKS and not self.works_between(begin, look)

    def works_between(self, begin: int, end: int) -> bool:
        looks = [begin, *(edge for edge in self.edges() if begin < edge < end)]
        return begin < end and any(self.is_busy(look) for look in looks)

    def edges(self) -> Iterator[int]:
        for begin, end in (*self.turns, *self.back, *self.rested):
            yield from (begin, end)
        yield from (begin + START_LOOKS for begin, _ in self.turns)
        for first, end, busy in self.said:
            yield from (first, end)
            changes = busy ^ (busy << 1)
            yield from (first + at for at in range(end - first) if changes >> at & 1)
        yield from () if self.rests_from is None else (self.rests_from,)
        yield from () if self.wakes_from is None else (self.wakes_from, self.wakes_from + WAKE_LOOKS)

    def forget(self, upto: int) -> None:
        """Of looks before `upto` nothing is asked again."""
        self.turns = [turn for turn in self.turns if turn[1] > upto]
        self.said = [one for one in self.said if one[1] > upto]
        self.rested = [looks for looks in self.rested if looks[1] > upto]
        self.back = [times for times in self.back if times[1] > upto]
        wakes = self.wakes_from is not None and self.wakes_from + WAKE_LOOKS > upto
        is_known = wakes or any(max(one[0], upto) < one[1] for one in (*self.turns, *self.said, *self.back))
        self.is_counted = self.is_counted and is_known

    # What happens to it.

    def hold(self, now: int, lock: int) -> None:
        """It holds this lock from now on; 0: none."""
        look = -(-now // LOOK_NS)
        if self.lock == lock:
            return
        if self.lock:
            self.turns[-1] = (self.turns[-1][0], look)
        if lock:
            self.is_counted = True
            self._stop_resting(look)
            self.turns.append((look, FOREVER))
        self.lock = lock

    def report(self, now: int, first: int, count: int, busy: int, upto: int) -> None:
        """Looks before `upto`, and those to come, do not count."""
        present = now // LOOK_NS + 1
        self.is_counted = True
        if not count:
            self.rests_from = min(first, present, FOREVER if self.rests_from is None else self.rests_from)
        elif first < present:
            self._stop_resting(first)
            begin, end = max(first, upto), min(first + count, present)
            self.said += [(begin, end, busy >> (begin - first) & ((1 << end - begin) - 1))] if begin < end else []

    def _stop_resting(self, look: int) -> None:
        if self.rests_from is not None and self.rests_from < look:
            self.rested.append((self.rests_from, look))
        self.rests_from = None

    def hold_back(self, now: int, *, is_ahead: bool, waits: bool) -> None:
        look, is_back = now // LOOK_NS + 1, bool(self.back) and self.back[-1][1] == FOREVER
        if is_ahead and not is_back:
            self.is_counted = True
            self.back.append((look, FOREVER))
        elif is_back and not is_ahead:
            self.back[-1] = (self.back[-1][0], look)
            self.wakes_from = look if waits else None


class NaiveUse:
    """Of all clients of one GPU, also of those who have left: their last looks are still shared with them."""

    def __init__(self) -> None:
        self.uses: dict[int, Use] = {}
        self.upto = 0
        self.sums: dict[int, int] = {}
        """What each client had, of the looks before `upto`."""
        self.busy_ns = 0

    def spans(self, begin: int, end: int) -> list[Span]:
        uses = self.uses.values()
        edges = sorted({begin, end, *(edge for use in uses for edge in use.edges() if begin < edge < end)})
        return [self._span(first, last) for first, last in pairwise(edges)]

    def _span(self, first: int, end: int) -> Span:
        uses = self.uses.values()
        busy = [use for use in uses if use.is_busy(first)]
        idle = [] if busy else [use for use in uses if use.holds(first, since=START_LOOKS)]
        return Span(
            first, end, busy, [use for use in uses if use.competes(first)], idle, any(use.holds(first) for use in uses)
        )

    def check_divided(self, now: int, upto: int) -> None:
        """A report is awaited for REPORT_LOOKS, unless nobody can have been busy."""
        awaited = now // LOOK_NS - REPORT_LOOKS
        for use in self.uses.values():
            assert upto <= max(awaited, self.upto) or not use.works_between(max(awaited, self.upto), upto), (
                "a look counts for good when the reports of it should have come"
            )

    def book(self, upto: int) -> list[Span]:
        """No report changes looks before `upto` any more."""
        if upto <= self.upto:
            return []
        spans = self.spans(self.upto, upto)
        for span in spans:
            self.busy_ns += span.ns if span.busy else 0
            for use in span.busy:
                self.sums[use.client] = self.sums.get(use.client, 0) + span.part(use)
        self.upto = upto
        for use in self.uses.values():
            if use.wakes_from is not None and use.works_between(use.wakes_from, upto):
                use.wakes_from = None
            use.forget(self.upto)
        self.uses = {client: use for client, use in self.uses.items() if use.said or use.turns or not use.has_left}
        return spans

"""The cost of moving memory to a card: as clients that move it in bulk measure it; until then, by the speed of the link
that NVML reports; and if that does not count, learned from how much longer work takes when memory has to be moved in.

The link counts if all memory that may have to move is moved in bulk: page faults are several times slower. What work
taught does not count then: a program's first stretch creates its memory, which is slower than a move.

A sample has the bytes that were moved in (`moved`) and the time beyond the usual work (`extra`). The usual work itself
varies, so a sample counts more if more bytes were moved in per second of usual work:

    cost = Σ w·moved·extra / Σ w·moved²        w = 1 / work², older samples * 0.98

This is weighted least squares through zero. The first sample needs work with and without moves. Until then, the time of
work in which bytes moved in says what a GiB costs at most, because the move is a part of it:

    most = min(5 s, time / moved)"""

from collections.abc import Callable

from nvshare.core.model import GIB, SECOND

FIRST_GUESS_S_PER_GIB = 0.2
"""Page faults on a card of 2016."""
KEPT = 0.98
"""The factor of all older samples when a new one comes: a card may become slower, for example because others use its
link."""
MIN_S_PER_GIB = 0.01
MAX_S_PER_GIB = 5.0
MIN_WORK_S = 0.05
"""Shorter work counts as this long. Otherwise a single sample could outweigh all others."""


MIN_MEASURED = GIB // 8
"""Smaller moves say nothing about the speed."""
KEPT_MEASURED = 0.8


LinkSpeed = Callable[[], int]
"""Bytes per second that a bulk move gets of the link; 0: not known, or it does not count."""


def unknown() -> int:
    return 0


def bounded(seconds_per_gib: float) -> int:
    """In nanoseconds a GiB."""
    return round(max(MIN_S_PER_GIB, min(MAX_S_PER_GIB, seconds_per_gib)) * SECOND)


class MeasuredCost:
    """The cost of one card as clients that move memory in bulk measured it; older moves count less. A move counts by
    its bytes, so a small one that took very long does not outweigh large ones."""

    def __init__(self) -> None:
        self.ns_per_gib: int | None = None
        self._moved = self._took = 0.0

    def note(self, moved_bytes: int, took_ns: int) -> None:
        if moved_bytes < MIN_MEASURED:
            return
        self._moved = KEPT_MEASURED * self._moved + moved_bytes / GIB
        self._took = KEPT_MEASURED * self._took + min(took_ns, MAX_S_PER_GIB * SECOND * moved_bytes / GIB)
        self.ns_per_gib = bounded(self._took / self._moved / SECOND)


class MoveCost:
    """The cost of one card."""

    def __init__(self, link: LinkSpeed = unknown, guess_weight: float = 0.0) -> None:
        """The first guess counts as one more sample of this weight."""
        self.samples = 0
        self._guess_weight = guess_weight
        self._link = link
        self._ns_per_gib = bounded(FIRST_GUESS_S_PER_GIB)
        self._most_ns_per_gib = bounded(MAX_S_PER_GIB)
        self._is_measured = False
        self._squares = 0.0
        self._products = 0.0

    def note(self, moved_bytes: int, extra_ns: int, work_ns: int) -> None:
        """Work that usually takes `work_ns` took `extra_ns` more (or less) because, or although, bytes moved in."""
        moved, extra = moved_bytes / GIB, extra_ns / SECOND
        weight = 1 / max(MIN_WORK_S, work_ns / SECOND) ** 2
        self.samples += 1
        if self._is_measured:
            return
        self._squares = KEPT * self._squares + weight * moved * moved
        self._products = KEPT * self._products + weight * moved * extra
        products = self._products + self._guess_weight * FIRST_GUESS_S_PER_GIB
        self._ns_per_gib = bounded(products / (self._squares + self._guess_weight))

    def note_all(self, moved_bytes: int, took_ns: int) -> None:
        """Work and the move of so many bytes took so long together. If that is less than any move takes, the work used
        only a part of its memory, and nothing is known of the cost."""
        per_gib = took_ns / SECOND / (moved_bytes / GIB)
        if per_gib >= MIN_S_PER_GIB:
            self._most_ns_per_gib = min(self._most_ns_per_gib, bounded(per_gib))

    def set_measured(self, ns_per_gib: int) -> None:
        """Clients measure what moves cost: nothing is inferred from now on."""
        self.samples += 1
        self._is_measured = True
        self._ns_per_gib = ns_per_gib

    @property
    def is_known(self) -> bool:
        """There is more than a guess for any card."""
        return bool(self.samples or self._link())

    @property
    def ns_per_gib(self) -> int:
        link = 0 if self._is_measured else self._link()
        return bounded(GIB / link) if link else self._ns_per_gib

    @property
    def most_ns_per_gib(self) -> int:
        """What a GiB costs, or while that is not known, the most that it can cost."""
        return self.ns_per_gib if self.is_known else self._most_ns_per_gib

    def of(self, moved_bytes: int) -> int:
        """Nanoseconds."""
        return moved_bytes * self.ns_per_gib // GIB

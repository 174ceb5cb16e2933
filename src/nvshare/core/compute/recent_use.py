"""How much of a GPU's time a client had in the last seconds: its total is recorded once per second."""

from itertools import pairwise

from nvshare.core.model import SECOND

WINDOW_NS = 10 * SECOND
SPACING_NS = SECOND


class RecentUse:
    """Of one client at one GPU. `gpu_ns` is what it has had in all, at the time that is given with it."""

    __slots__ = ("_kept_ns", "_notes", "_spacing_ns")

    def __init__(self, kept_ns: int = WINDOW_NS, spacing_ns: int = SPACING_NS) -> None:
        self._kept_ns, self._spacing_ns = kept_ns, spacing_ns
        self._notes: list[tuple[int, int]] = []

    def note(self, now: int, gpu_ns: int) -> None:
        notes = self._notes
        if notes and now - notes[-1][0] < self._spacing_ns:
            return
        notes.append((now, gpu_ns))
        while now - notes[1 if len(notes) > 1 else 0][0] >= self._kept_ns:
            del notes[0]

    def percent(self, now: int, gpu_ns: int) -> float:
        """Of the time of the window, or of the time since the first note if that is shorter."""
        start = now - WINDOW_NS
        before = [note for note in self._notes if note[0] <= start][-1:]
        notes = [*before, *(note for note in self._notes if start < note[0] < now), (now, gpu_ns)]
        if len(notes) < 2:
            return 0.0
        (begin, used), (then, used_then) = notes[0], notes[1]
        if begin < start:
            used += (used_then - used) * (start - begin) // (then - begin)
            begin = start
        return min(100.0, max(0.0, 100 * (gpu_ns - used) / (now - begin)))

    def percent_between(self, begin: int, end: int, last: tuple[int, int]) -> float:
        """What it had of the time from `begin` to `end`; `last`: a time, and what it had had until then."""
        notes = [*(note for note in self._notes if note[0] < last[0]), last]
        return min(100.0, max(0.0, 100 * (_at(notes, end) - _at(notes, begin)) / (end - begin)))


def _at(notes: list[tuple[int, int]], time: int) -> float:
    """What it had had by then. Before the first note and after the last one, nothing is added."""
    for (begin, used), (end, used_then) in pairwise(notes):
        if begin <= time <= end:
            return used + (used_then - used) * (time - begin) / (end - begin)
    return notes[0][1] if time < notes[0][0] else notes[-1][1]

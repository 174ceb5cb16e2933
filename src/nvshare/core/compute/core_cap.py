"""The debt of one group with a core limit at one GPU.

    debt = Σ GPU time of its clients - percent of the time that has passed          at least -BURST_NS

What a group does not use is forgotten, except BURST_NS. A group that owes more than MOST_AHEAD_NS is held back until
the debt is repaid. There is no window: a debt is carried over for as long as it takes."""

from collections.abc import Iterable, Iterator

from nvshare.core.compute.gpu_time import Chunk
from nvshare.core.compute.look_bits import LOOK_NS, ones
from nvshare.core.limits.groups import Group
from nvshare.core.model import MILLISECOND, SECOND

BURST_NS = 250 * MILLISECOND
MOST_AHEAD_NS = 50 * MILLISECOND
BLOCK_LOOKS = 64
MOST_DEBT_NS = 900 * SECOND
"""More is forgotten, so being held back has a bound. Only turns of more than this long reach it."""


class CoreCap:
    """Looks (compute.gpu_time) count from the one at which the limit was set, each with the limit of its time."""

    __slots__ = ("_debt_ns", "_percents", "_upto", "begin", "free_at", "group", "is_over", "looked_at")

    def __init__(self, look: int, percent: int, group: Group) -> None:
        self.group = group
        self.is_over = False
        """Its clients are held back, until `free_at` if they get nothing."""
        self.free_at = self.looked_at = 0
        self._debt_ns = 0
        self._upto = self.begin = look
        self._percents = [(look, percent)]
        """The limit from each look on. The first one counts for all looks that are not charged yet, up to the next."""

    @property
    def percent(self) -> int:
        return self._percents[-1][1]

    def charge(self, chunk: Chunk) -> None:
        """Looks that are divided up, each once."""
        self._debt_ns = self.debt_ns(chunk)
        self._upto = max(self._upto, chunk.first + chunk.looks)
        while len(self._percents) > 1 and self._percents[1][0] <= self._upto:
            del self._percents[0]

    def retire(self, pending: Chunk) -> None:
        """Nothing is charged from now on until it counts again, and what is not charged yet is charged now."""
        self.charge(pending)
        self.begin = self._upto

    def set_percent(self, upto: int, look: int, percent: int) -> None:
        """From `look` on; earlier looks that are not charged yet count as before. All looks before `upto` are divided.
        Of several limits within BLOCK_LOOKS only the last one counts, from the first of them on: else a group that
        changes its limit all the time would make each look at its debt expensive."""
        self.charge(Chunk([], [], [], upto, 0))  # So the list is no longer than the pending looks.
        look = max(self._upto, look)
        if len(self._percents) > 1 and look - self._percents[-1][0] < BLOCK_LOOKS:
            look = self._percents.pop()[0]
        self._percents.append((look, percent))

    def debt_ns(self, pending: Chunk) -> int:
        """What it owes after these looks."""
        used_ns, busy = pending.used(self.group.key, self.begin)
        debt, total = self._debt_ns, max(1, busy.bit_count())
        for begin, end, percent in self._periods(pending.first + pending.looks):
            if begin < pending.first:
                debt = self._repaid(debt, min(end, pending.first) - begin, percent)
            if (looks := end - (at := max(begin, pending.first))) > 0:
                bits = (busy >> (at - pending.first)) & ones(looks)
                debt = self._after_looks(debt, (looks, bits), (used_ns, total), percent)
        return debt

    def _after_looks(self, debt: int, period: tuple[int, int], use: tuple[int, int], percent: int) -> int:
        """`period`: a number of looks, and at which of them the group was busy. `use`: its GPU time, and the number of
        busy looks that it was for. Looks are counted in blocks, unless the group was always busy or never."""
        (looks, bits), (used_ns, total) = period, use
        block = looks if bits in (0, ones(looks)) else BLOCK_LOOKS
        for at in range(0, looks, block):
            size = min(block, looks - at)
            count = ((bits >> at) & ones(size)).bit_count()
            debt = self._repaid(debt, size - count, percent)  # What it left unused is forgotten before it is used.
            debt += used_ns * count // total - count * LOOK_NS * percent // 100
            debt = max(-BURST_NS, min(debt, MOST_DEBT_NS))
        return debt

    def _periods(self, end: int) -> Iterable[tuple[int, int, int]]:
        """The looks that are not charged yet, to before `end`: first look, end, limit."""
        if len(self._percents) == 1:
            return ((self._upto, end, self.percent),) if self._upto < end else ()
        return self._changing_periods(end)

    def _changing_periods(self, end: int) -> Iterator[tuple[int, int, int]]:
        begin, ends = self._upto, [look for look, _ in self._percents[1:]] + [end]
        for (_, percent), next_look in zip(self._percents, ends, strict=True):
            if begin < (last := min(next_look, end)):
                yield begin, last, percent
                begin = last

    def look(self, now: int, debt_ns: int) -> bool:
        """Notes what is owed now. Returns whether its clients are held back."""
        self.looked_at = now
        self.is_over = debt_ns > (0 if self.is_over else MOST_AHEAD_NS)
        return self.is_over

    def repaid_ns(self, debt_ns: int) -> int:
        """After which time nothing is owed, if its clients get nothing."""
        return debt_ns * 100 // self.percent + 1

    def reached_ns(self, debt_ns: int) -> int:
        """After which time its clients are held back, at the earliest."""
        return (MOST_AHEAD_NS - debt_ns) * 100 // (100 - self.percent) + 1

    def _repaid(self, debt_ns: int, looks: int, percent: int) -> int:
        """After so many looks at which it had nothing."""
        return max(-BURST_NS, debt_ns - looks * LOOK_NS * percent // 100)

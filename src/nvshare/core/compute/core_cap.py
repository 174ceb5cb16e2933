"""The debt of one group with a core limit at one GPU.

    debt = Σ GPU time of its clients - percent of the time that has passed          at least -BURST_NS

What a group does not use is forgotten, except BURST_NS. A group that owes more than MOST_AHEAD_NS is held back until
the debt is repaid. There is no window: a debt is carried over for as long as it takes.

A group that waits for its turn cannot use its time. It keeps up to one longest turn (`kept_ns`). When it has no work,
the part beyond BURST_NS is forgotten as fast as time passes; while it works, nothing is forgotten."""

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


Rule = tuple[int, int, int]
"""From a look on: the limit, and `kept_ns` if a client of the group waits, otherwise 0."""


class CoreCap:
    """Looks (compute.gpu_time) count from the one at which the limit was set, each with the limit of its time."""

    __slots__ = ("_debt_ns", "_rules", "_upto", "begin", "free_at", "group", "is_over", "looked_at")

    def __init__(self, look: int, percent: int, group: Group) -> None:
        self.group = group
        self.is_over = False
        """Its clients are held back, until `free_at` if they get nothing."""
        self.free_at = self.looked_at = 0
        self._debt_ns = 0
        self._upto = self.begin = look
        self._rules: list[Rule] = [(look, percent, 0)]
        """The first one counts for all looks that are not charged yet, up to the next."""

    @property
    def percent(self) -> int:
        return self._rules[-1][1]

    @property
    def kept_ns(self) -> int:
        """0: no client of the group waits."""
        return self._rules[-1][2]

    def charge(self, chunk: Chunk) -> None:
        """Looks that are divided up, each once."""
        self._debt_ns = self.debt_ns(chunk)
        self._upto = max(self._upto, chunk.first + chunk.looks)
        while len(self._rules) > 1 and self._rules[1][0] <= self._upto:
            del self._rules[0]

    def retire(self, pending: Chunk) -> None:
        """Nothing is charged from now on until it counts again, and what is not charged yet is charged now."""
        self.charge(pending)
        self.begin = self._upto
        self._rules = [(self._upto, self.percent, 0)]

    def set_percent(self, upto: int, look: int, percent: int) -> None:
        self._set_rule(upto, look, percent, self._rules[-1][2])

    def set_kept(self, upto: int, look: int, kept_ns: int) -> None:
        """A client of the group waits for its turn; 0: none does."""
        self._set_rule(upto, look, self.percent, kept_ns)

    def _set_rule(self, upto: int, look: int, percent: int, kept_ns: int) -> None:
        """From `look` on; earlier looks that are not charged yet count as before. All looks before `upto` are divided.
        Of several rules within BLOCK_LOOKS only the last one counts, from the first of them on. Otherwise a group that
        changes its limit all the time would make each look at its debt expensive."""
        self.charge(Chunk([], [], [], upto, 0))  # So the list is no longer than the pending looks.
        look = max(self._upto, look)
        if len(self._rules) > 1 and look - self._rules[-1][0] < BLOCK_LOOKS:
            look = self._rules.pop()[0]
        self._rules.append((look, percent, kept_ns))

    def debt_ns(self, pending: Chunk) -> int:
        """What it owes after these looks."""
        used_ns, busy = pending.used(self.group.key, self.begin)
        debt, total = self._debt_ns, max(1, busy.bit_count())
        for begin, end, rule in self._periods(pending.first + pending.looks):
            if begin < pending.first:
                debt = self._repaid(debt, min(end, pending.first) - begin, rule)
            if (looks := end - (at := max(begin, pending.first))) > 0:
                bits = (busy >> (at - pending.first)) & ones(looks)
                debt = self._after_looks(debt, (looks, bits), (used_ns, total), rule)
        return debt

    def _after_looks(self, debt: int, period: tuple[int, int], use: tuple[int, int], rule: Rule) -> int:
        """`period`: a number of looks, and at which of them the group was busy. `use`: its GPU time, and the number of
        busy looks that it was for. Looks are counted in blocks, unless the group was always busy or never."""
        (looks, bits), (used_ns, total), (_, percent, kept_ns) = period, use, rule
        block = looks if bits in (0, ones(looks)) else BLOCK_LOOKS
        for at in range(0, looks, block):
            size = min(block, looks - at)
            count = ((bits >> at) & ones(size)).bit_count()
            debt = self._repaid(debt, size - count, rule)  # What it left unused is forgotten before it is used.
            least = -kept_ns if kept_ns else min(debt, -BURST_NS)
            debt += used_ns * count // total - count * LOOK_NS * percent // 100
            debt = max(least, min(debt, MOST_DEBT_NS))
        return debt

    def _periods(self, end: int) -> Iterable[tuple[int, int, Rule]]:
        """The looks that are not charged yet, to before `end`: first look, end, rule."""
        if len(self._rules) == 1:
            return ((self._upto, end, self._rules[0]),) if self._upto < end else ()
        return self._changing_periods(end)

    def _changing_periods(self, end: int) -> Iterator[tuple[int, int, Rule]]:
        begin, ends = self._upto, [rule[0] for rule in self._rules[1:]] + [end]
        for rule, next_look in zip(self._rules, ends, strict=True):
            if begin < (last := min(next_look, end)):
                yield begin, last, rule
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
        """After which time its clients are held back, at the earliest: they rest until no more than BURST_NS is kept,
        then work. Also while one of them waits, because that may end without a look at the debt."""
        rest_ns = max(0, -BURST_NS - debt_ns)
        return rest_ns + (MOST_AHEAD_NS - debt_ns - rest_ns) * 100 // (100 - self.percent) + 1

    def _repaid(self, debt_ns: int, looks: int, rule: Rule) -> int:
        """After so many looks at which it had nothing."""
        _, percent, kept_ns = rule
        if not kept_ns and debt_ns < -BURST_NS:
            return min(-BURST_NS, debt_ns + looks * LOOK_NS)
        return max(-(kept_ns or BURST_NS), debt_ns - looks * LOOK_NS * percent // 100)

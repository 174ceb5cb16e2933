"""What a group with a core limit owes at one GPU, as the naive account counts it: over all looks, one after the other.

The core charges looks in blocks, and forgets what a group left unused in a block before it counts what it used. It
charges what is not reported yet when a limit ends. So the account has two bounds."""

from dataclasses import dataclass, field
from itertools import pairwise

from core.naive_use import Span
from nvshare.core.compute.core_cap import BLOCK_LOOKS, BURST_NS, MOST_AHEAD_NS, MOST_DEBT_NS
from nvshare.core.compute.gpu_time import LEAST_LOOKS, REPORT_LOOKS
from nvshare.core.compute.look_bits import LOOK_NS

UNREPORTED_NS = (REPORT_LOOKS + LEAST_LOOKS) * LOOK_NS
BLOCKS_NS = 200 * LOOK_NS
"""By how much the core's debt may differ because it counts in blocks. Less than BURST_NS, below which no debt falls."""

Debt = tuple[int, int]


@dataclass(frozen=True)
class Order:
    """From look `first` on. `counts`: it has clients and a limit; otherwise it only repays. `kept_ns`: what it keeps
    of the time that it cannot use while a client of it is in the queue; 0: none is."""

    first: int
    percent: int
    counts: bool
    unsure_ns: int = 0
    kept_ns: int = 0


@dataclass
class NaiveCap:
    """Of one group at one GPU. `debt` is what it owed at the last look that is divided."""

    orders: list[Order] = field(default_factory=list)
    debt: Debt = (0, 0)
    may_hold_until: int = 0
    """While it is held back. A report of less work moves nobody: the core looks again when it expected to be repaid."""
    may_owe_until: int = 0
    """While it is not. A report of more work, which was done without a lock, moves nobody either."""

    def order(self, look: int, percent: int | None, kept_ns: int | None = None) -> None:
        """`percent` None: it has no limit, or no clients here. `kept_ns` None: no client of it is in the queue."""
        last, kept = self.orders[-1] if self.orders else None, (percent and kept_ns) or 0
        if last is None and percent:
            self.orders.append(Order(look, percent, True, 0, kept))
        elif last is not None and (last.counts, last.percent) != (bool(percent), percent or last.percent):
            unsure = 0 if percent else UNREPORTED_NS
            self.orders.append(Order(look, percent or last.percent, bool(percent), unsure, kept))
            self.may_hold_until = 0
        elif last is not None and last.kept_ns != kept:
            is_soon = look - last.first < BLOCK_LOOKS  # The core counts it from the last change on.
            unsure = 2 * BLOCK_LOOKS * LOOK_NS if is_soon else 0
            self.orders.append(Order(look, last.percent, last.counts, unsure, kept))

    def book(self, group: str, spans: list[Span]) -> None:
        """These looks are divided."""
        self.debt = self.after(group, spans)
        upto = spans[-1].end if spans else 0
        later = [order for order in self.orders if order.first >= upto]
        self.orders = [order for order in self.orders if order.first < upto][-1:] + later

    def after(self, group: str, spans: list[Span]) -> Debt:
        """What it owes if these looks count too."""
        debt, edges = self.debt, [order.first for order in self.orders]
        if self.is_at_rest:
            return debt
        for span in spans:
            is_whole = all(edge <= span.first or edge >= span.end for edge in edges)
            for piece in [span] if is_whole else _pieces(span, edges):
                debt = self._passes(group, piece, debt)
        return debt

    @property
    def is_at_rest(self) -> bool:
        """It has nothing to repay, and nothing is charged."""
        return len(self.orders) == 1 and not self.orders[0].counts and self.debt == (-BURST_NS, -BURST_NS)

    def _passes(self, group: str, span: Span, debt: Debt) -> Debt:
        orders = [order for order in self.orders if order.first <= span.first]
        if not orders:
            return debt
        order, (low, high) = orders[-1], debt
        if order.first == span.first:
            low, high = low - order.unsure_ns, high + order.unsure_ns
        mine = [use for use in span.busy if use.group == group] if order.counts else []
        change = sum(span.part(use) for use in mine) - span.ns * order.percent // 100
        return tuple(_passed(order, debt, change, 0 if mine else span.ns) for debt in (low, high))  # type: ignore[return-value]

    def check(self, now: int, debt: Debt, *, is_over: bool) -> None:
        low, high = debt
        if is_over:
            assert self.orders[-1].counts, "only a group that has a limit is held back by it"
            repaid = now + (high + BLOCKS_NS) * 100 // self.orders[-1].percent
            self.may_hold_until, self.may_owe_until = max(self.may_hold_until, repaid), 0
            assert now < self.may_hold_until, "only a group that owes GPU time is held back"
        elif self.orders and self.orders[-1].counts:
            free_ns = MOST_AHEAD_NS + BLOCKS_NS - low
            rest_ns = max(0, -BURST_NS - low)  # Then what is kept is forgotten, faster than work uses it up.
            reached = now + rest_ns + (free_ns - rest_ns) * 100 // (100 - self.orders[-1].percent)
            self.may_hold_until, self.may_owe_until = 0, max(self.may_owe_until, reached)
            assert free_ns > 0 or now <= self.may_owe_until, "a group that owes too much is held back"
        else:
            self.may_hold_until = self.may_owe_until = 0


def _passed(order: Order, debt: int, change: int, idle_ns: int) -> int:
    """What is owed after some looks. `idle_ns`: their time, if the group was not busy."""
    if order.kept_ns:
        return max(-order.kept_ns, min(debt + change, MOST_DEBT_NS))
    if debt < -BURST_NS and idle_ns:
        return min(-BURST_NS, debt + idle_ns)
    return max(min(debt, -BURST_NS), min(debt + change, MOST_DEBT_NS))


def _pieces(span: Span, edges: list[int]) -> list[Span]:
    cuts = [span.first, *sorted({edge for edge in edges if span.first < edge < span.end}), span.end]
    return [Span(first, end, span.busy, span.competing) for first, end in pairwise(cuts)]

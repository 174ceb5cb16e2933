"""Which client is ahead of its weight side by side. The naive account counts it look after look.

    due of a client = Σ over the looks at which it competes: weight / Σ weights of all who compete

Since when weights decide is taken from the core, and checked: when clients of different weights run together. Leads are
cut off where the core does it: after each LEAST_LOOKS looks that are divided, and once for all that are not."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from core.naive_use import Span, Use
from nvshare.core.compute.gpu_time import LEAST_LOOKS
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.compute.weighted_time import LONGEST_HOLD_NS, MOST_CREDIT_NS, MOST_LEAD_NS

UNSURE_NS = 5 * LOOK_NS
"""By how much the core's lead may differ: it rounds in other places."""


@dataclass
class NaiveLeads:
    """Of the clients of one GPU. `leads` at the last look that is divided."""

    begin: int | None = None
    leads: dict[int, int] = field(default_factory=dict)

    def note(self, now: int, *, decides: bool) -> None:
        if decides != (self.begin is not None):
            self.begin, self.leads = now // LOOK_NS + 1 if decides else None, {}

    def book(self, spans: list[Span], uses: Iterable[Use]) -> None:
        if self.begin is not None:
            for block in _blocks(spans):
                self.leads = self.after(block, uses)

    def after(self, spans: list[Span], uses: Iterable[Use]) -> dict[int, int]:
        """If these looks, after which leads are cut off once, count too. `uses`: all clients."""
        begin, leads = self.begin, dict(self.leads)
        if begin is None:
            return leads
        spans = [Span(max(one.first, begin), one.end, one.busy, one.competing) for one in spans if one.end > begin]
        for span in spans:
            total = total_weight([span])
            for use in span.competing:
                lead = leads.get(use.client, 0)
                leads[use.client] = lead + span.part(use) - span.ns * weight_of(use) // total
        competing = {use.client for span in spans for use in span.competing if not use.has_left}
        for use in (use for use in uses if use.client in leads and (use.lock or use.client in competing)):
            most = LONGEST_HOLD_NS * weight_of(use) // total_weight(spans)
            leads[use.client] = max(-MOST_CREDIT_NS, min(leads[use.client], most))
        low = min((leads[client] for client in competing), default=0)
        for client in competing if low > 0 else ():
            leads[client] -= low
        return leads


def weight_of(use: Use) -> int:
    return 1 if use.has_left else max(1, use.weight)


def total_weight(spans: list[Span]) -> int:
    """Of all who compete at some look."""
    return max(1, sum(weight_of(use) for use in {use for span in spans for use in span.competing}))


def most_lead_ns(weight: int, total: int) -> int:
    """With more a client is held back; repaying it takes at most half of LONGEST_HOLD_NS."""
    return min(MOST_LEAD_NS, LONGEST_HOLD_NS * weight // (2 * total))


def _blocks(spans: list[Span]) -> Iterator[list[Span]]:
    """Of LEAST_LOOKS looks each."""
    begin, end = (spans[0].first, spans[-1].end) if spans else (0, 0)
    for first in range(begin, end, LEAST_LOOKS):
        last = first + LEAST_LOOKS
        inside = [one for one in spans if one.first < last and one.end > first]
        yield [Span(max(one.first, first), min(one.end, last), one.busy, one.competing) for one in inside]

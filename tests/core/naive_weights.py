"""Who is ahead of its weight side by side, as the naive account counts it: look after look, since weights decide.

    due of a client = Σ over the looks at which it competes: weight / Σ weights of all who compete

Since when weights decide is taken from the core, and checked: when clients of different weights run together."""

from dataclasses import dataclass, field

from core.naive_use import Span
from nvshare.core.look_bits import LOOK_NS
from nvshare.core.weighted_time import LONGEST_HOLD_NS, MOST_CREDIT_NS

UNSURE_NS = 300 * LOOK_NS
"""By how much the core's lead may differ: it cuts off leads in blocks of looks."""


@dataclass
class NaiveLeads:
    """Of the clients of one GPU. `leads` at the last look that is divided."""

    begin: int | None = None
    leads: dict[int, int] = field(default_factory=dict)
    unsure_ns: int = UNSURE_NS

    def note(self, now: int, *, decides: bool) -> None:
        if decides != (self.begin is not None):
            self.begin, self.leads, self.unsure_ns = now // LOOK_NS + 1 if decides else None, {}, UNSURE_NS

    def after(self, spans: list[Span], leads: dict[int, int]) -> dict[int, int]:
        leads = dict(leads)
        for span in spans if self.begin is not None else []:
            first = max(span.first, self.begin or 0)
            if first < span.end:
                _pass(Span(first, span.end, span.busy, span.competing), leads)
        return leads


def _pass(span: Span, leads: dict[int, int]) -> None:
    weights = {use.client: 1 if use.has_left else max(1, use.weight) for use in span.competing}
    total = sum(weights.values())
    for use in (use for use in span.competing if not use.has_left):
        weight = weights[use.client]
        lead = leads.get(use.client, 0) + span.part(use) - span.ns * weight // total
        leads[use.client] = max(-MOST_CREDIT_NS, min(lead, LONGEST_HOLD_NS * weight // total))
    low = min((leads[use.client] for use in span.competing if not use.has_left), default=0)
    for use in span.competing if low > 0 else []:
        if not use.has_left:
            leads[use.client] -= low

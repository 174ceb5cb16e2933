"""What the simulated card predicts, as ranges. Pure.

The formulas are those of the simulated card (docs/simulated-gpu.md), with the figures of the card under test where they
are known. A measured value is `ok` within a factor of the prediction: 2 for a card with published figures, else 4."""

from nvshare.cli.doctor.acceptance.results import Card
from nvshare.core.model import CONTEXT_BYTES
from nvshare.record import Record

KNOWN_FACTOR = 2.0
UNKNOWN_FACTOR = 4.0
MARGIN = 128
"""The scheduler asks for a 128th of the card more than must go (decision 12)."""
LIVE_CHANGE_S = 0.1
MOST_ADDED_LAUNCH_NS = 200.0
MOST_ADDED_ALLOCATION_NS = 100_000.0
MOST_SLOWER = 1.1
"""A program that fills the card, against the same program without nvshare."""
HAND_OVER_S = 0.2
"""Of a switch, beside the moves: the drain and the messages."""


class Range(Record, frozen=True):
    """What a value should be: from `low` to `high`."""

    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


def about(value: float, card: Card) -> Range:
    factor = KNOWN_FACTOR if card.is_known else UNKNOWN_FACTOR
    return Range(value / factor, value * factor)


def speed_of_faults(card: Card) -> float:
    """Bytes per second of a kernel whose memory comes in by page faults: it faults, then works."""
    return 1 / (1 / card.figures.faults + 1 / card.figures.bandwidth)


def bytes_away(card: Card, each: int) -> int:
    """What two programs with this memory have beyond what the card has."""
    return max(0, 2 * (each + CONTEXT_BYTES) - card.total_bytes)


def switch_in_bulk_s(card: Card, each: int) -> Range:
    """Both directions at the same time, at the speed of the link."""
    moved = min(each, bytes_away(card, each) + card.total_bytes // MARGIN)
    expected = about(moved / card.figures.link, card)
    return Range(0.0, expected.high + HAND_OVER_S)


def switch_by_faults_s(card: Card, each: int) -> Range:
    """At least what is away comes in; at most everything does, because eviction is in the order of population."""
    least = about(bytes_away(card, each) / card.figures.faults, card).low
    return Range(least, about(all_by_faults_s(card, each), card).high + HAND_OVER_S)


def all_by_faults_s(card: Card, each: int) -> float:
    """All memory of a program comes in by page faults that evict."""
    figures = card.figures
    return each / figures.evicting if figures.evicting else each / figures.faults + each / figures.link

"""Figures from files are checked like those that operators type: the core relies on it."""

from nvshare.core.model import MAX_WEIGHT
from nvshare.core.queue.policies import MAX_PRIORITY, MIN_PRIORITY
from nvshare.percentage import MAX_PERCENT, MIN_PERCENT
from nvshare.quantity import MAX_BYTES
from nvshare.scheduler.observe.log import log

LIMIT = "limit", 0, MAX_BYTES
WEIGHT = "weight", 1, MAX_WEIGHT
PRIORITY = "priority", MIN_PRIORITY, MAX_PRIORITY
CORE_LIMIT = "core limit", MIN_PERCENT, MAX_PERCENT
Range = tuple[str, int, int]
"""What the figure is called, the smallest and the largest."""


def in_range(figure: int | None, allowed: Range, where: str) -> int | None:
    """The figure; None, and a warning, if it is out of range."""
    what, least, most = allowed
    if figure is None or least <= figure <= most:
        return figure
    log.warning(f"{where}: the {what} {figure} is not from {least} to {most} and is ignored")
    return None


def all_in_range(figures: dict[str, int], allowed: Range, where: str) -> dict[str, int]:
    """The figures without those that are out of range."""
    return {key: figure for key, figure in figures.items() if in_range(figure, allowed, f"{where}, {key}") is not None}

"""The account of use (observe.usage) as a report: sums by user, pod, program or GPU. Pure.

There are up to 28,000 rows, so a report is made in parts, between which the caller may do other work. An hour that
becomes part of its day meanwhile may count twice."""

from collections.abc import Iterable, Iterator
from typing import Literal

from nvshare.scheduler.observe.usage import Period, Use

MOST_REPORTED = 2000
"""Rows of a report: those that held most."""
SORTED_AT_ONCE = 2000

By = Literal["user", "pod", "name", "gpu"]
COLUMNS: dict[By, int] = {"user": 0, "pod": 1, "name": 2, "gpu": 3}


class UsageReport:
    """Complete when `make` has ended."""

    def __init__(self, periods: Iterable[Period], since: float, by: By) -> None:
        self._periods = list(periods)
        self.begin = float(min((period.start for period in self._periods), default=since))
        """From when the sums count."""
        self.by = by
        self.rows: list[tuple[str, Use]] = []
        """What held most comes first."""
        self.left_out = 0
        """How many rows held less than these."""

    def make(self) -> Iterator[None]:
        """Once for each part."""
        sums: dict[str, Use] = {}
        column = COLUMNS[self.by]
        for period in self._periods:
            for who, use in period.rows.items():
                sums.setdefault(who[column], Use()).add(use)
            yield
        found = list(sums.items())
        for start in range(0, len(found), SORTED_AT_ONCE):
            some = self.rows + found[start : start + SORTED_AT_ONCE]
            self.rows = sorted(some, key=lambda row: (-row[1].held_seconds, row[0]))[:MOST_REPORTED]
            yield
        self.left_out = len(found) - len(self.rows)

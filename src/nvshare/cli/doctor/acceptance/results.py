"""What the kit works with, as values."""

from typing import Literal

from msgspec import field

from nvshare.record import Record
from nvshare.simgpu.cards import SIMULATED_BY_DEFAULT, CardFigures, named

Verdict = Literal["ok", "differs", "failed", "skipped"]
Source = Literal["real", "simulated", "machine"]
"""What an answer is about: a real GPU, a simulated one, or the machine without its GPU."""


class Card(Record, frozen=True):
    """The GPU under test."""

    uuid: str
    name: str
    total_bytes: int
    free_bytes: int
    is_used: bool = False
    """Other programs use it."""
    is_simulated: bool = False
    scale: float = 1.0
    """Real seconds for each second of the card; other than 1 only on a simulated one."""

    @property
    def figures(self) -> CardFigures:
        """What is known of such a card, else what the simulated card has by default."""
        return named(self.name) or SIMULATED_BY_DEFAULT

    @property
    def is_known(self) -> bool:
        """There are figures for it."""
        return self.is_simulated or named(self.name) is not None


class Outcome(Record, frozen=True):
    """What one check found: values, or why there are none."""

    values: dict[str, float] = field(default_factory=dict)
    error: str = ""
    skipped: str = ""
    seconds: float = 0.0


class Row(Record, frozen=True):
    """One line of the table."""

    check: str
    what: str
    verdict: Verdict
    source: Source
    measured: str = ""
    predicted: str = ""
    remedy: str = ""
    seconds: float = 0.0


class Report(Record, frozen=True):
    """All that is sent: no names of the machine, of users or of programs are in it."""

    nvshare_version: str
    card: Card
    machine: dict[str, str]
    rows: tuple[Row, ...]
    schema_version: int = 1

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict == verdict for row in self.rows)

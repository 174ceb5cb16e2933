"""What a check of the doctor says."""

from typing import Literal

from nvshare.record import Record

Level = Literal["ok", "warn", "fail", "info"]


class Finding(Record, frozen=True):
    level: Level
    text: str
    remedy: str = ""

"""A share of one GPU's time as users write it: `30` or `30%`. Pure."""

import re

MIN_PERCENT = 1
MAX_PERCENT = 100
_PERCENT = re.compile(r"0*([0-9]{1,3})%?", re.ASCII)


def parse_percent(text: str) -> int:
    """Raises ValueError; its text says what is allowed."""
    match = _PERCENT.fullmatch(text)
    if match is None or not MIN_PERCENT <= int(match[1]) <= MAX_PERCENT:
        raise ValueError(f"is not a whole number of percent from {MIN_PERCENT} to {MAX_PERCENT}")
    return int(match[1])

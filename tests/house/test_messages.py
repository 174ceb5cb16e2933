"""The messages that docs/troubleshooting.md explains are messages that the programs print."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "troubleshooting.md").read_text()
_TABLE = re.search(r"^## Messages$(.*?)^## ", TEXT, re.DOTALL | re.MULTILINE)
MESSAGES = re.findall(r"^\| `([^`]+)` \|", _TABLE[1] if _TABLE else "", re.MULTILINE)
SOURCES = "".join(path.read_text() for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("native/libnvshare/**/*.c")])


def fixed_parts(message: str) -> list[str]:
    """What is left without what a program fills in: dots, and figures such as 60x10."""
    parts = re.split(r"…|\d+x\d+|^nvshare(?:ctl)?: ", message)
    return [part for part in (part.strip("; ") for part in parts) if len(part) >= 15]


def test_the_table_has_messages() -> None:
    assert len(MESSAGES) >= 6


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_the_table_is_in_the_sources(message: str) -> None:
    assert any(part in SOURCES for part in fixed_parts(message))

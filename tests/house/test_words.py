"""Plain words: the idioms below are in no file of ours. CONTRIBUTING.md says how to write instead."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHERE = ("src", "native", "tests", "tools", "bench", "deploy", "docs", "Makefile", "*.md")
KINDS = (".py", ".c", ".h", ".def", ".mk", ".md", ".txt", ".sh", ".yaml", ".yml", ".js", ".html", ".css", ".toml")
BANNED = {
    "again": r"anew|once more",
    "fixed": r"mend(s|ed|ing)?",
    "available": r"(be|to be) had",
    "is told": r"hear(s|d)? (of|that)",
    "sometimes, or how often": r"now and then|by and by",
    "unasked, or the one who acts": r"of (its|their|his|her|our|your) own accord",
    "without a message": r"without a word",
    "in both directions": r"to and fro",
    "obeys, waits for": r"heed(s|ed|ing)?",
    "the reserve": r"fill the house|the last net",
    "the formula": r"school'?s arithmetic",
    "a client that": r"whoever|test who|only who|for who (is|has)|(?<=\")who [a-z]+|(?<=/\* )who [a-z]+",
    "the terms of the field": r"lest|hitherto|thereby|as it were|so to speak",
}
"""Idioms, as regular expressions, by what to write instead. In names `_` stands for a blank."""
PATTERN = re.compile(rf"\b(?:{'|'.join(BANNED.values())})\b")
THIS = "tests/house/test_words.py"


def found(text: str) -> list[str]:
    """The idioms in a text; one that is spread over two lines counts too."""
    return [match.group() for match in PATTERN.finditer(re.sub(r"[_\s]+(?:[#*] )?", " ", text.lower()))]


def files() -> list[str]:
    listed = subprocess.run(["git", "ls-files", *WHERE], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [name for name in listed.stdout.splitlines() if name.endswith((*KINDS, "Makefile")) and name != THIS]
    assert len(names) > 500
    return [name for name in names if (ROOT / name).is_file()]


def test_no_file_uses_a_banned_idiom() -> None:
    hits = {name: words for name in files() if (words := found((ROOT / name).read_text(errors="replace")))}
    assert hits == {}


@pytest.mark.parametrize(
    "text", ["the value is read anew", "def test_it_is_made_anew_here()", "# it hears\n# of room", '"who waits"']
)
def test_an_idiom_is_found(text: str) -> None:
    assert found(text)


def test_a_part_of_a_word_is_no_idiom() -> None:
    assert found("an amendment, recommended; the tallest; unheeded") == []

"""Text from outside cannot control a terminal or forge a line of a log."""

import pytest

from nvshare.printable import last_line, printable


@pytest.mark.parametrize("text", ["\x1b[2J\x1b]0;owned\a", "two\nlines", "\u202eright to left", "a\u2028b", "nul\0"])
def test_each_character_that_a_terminal_would_obey_is_replaced(text: str) -> None:
    assert printable(text).isprintable()


def test_printable_characters_stay() -> None:
    assert printable("naïve 模型-1") == "naïve 模型-1"


def test_the_text_is_cut_where_a_length_is_given() -> None:
    assert printable("x" * 10_000, 64) == "x" * 64


@pytest.mark.parametrize(("text", "wanted"), [("", ""), (" \n", ""), ("one\ntwo\x1b\n\n", "two?")])
def test_the_last_line_of_an_output_is_its_last_text_made_printable(text: str, wanted: str) -> None:
    assert last_line(text) == wanted

"""Shares of a GPU's time as users write them."""

import pytest

from nvshare.percentage import parse_percent


@pytest.mark.parametrize(("text", "percent"), [("30", 30), ("30%", 30), ("1", 1), ("100%", 100), ("007", 7)])
def test_a_percentage_is_read(text: str, percent: int) -> None:
    assert parse_percent(text) == percent


@pytest.mark.parametrize(
    "text", ["", "%", "0", "0%", "101", "1000000", "-5", "+5", "2.5", "30 %", "30%%", "a third", "\u0663\u0660"]
)
def test_what_is_no_percentage_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number of percent from 1 to 100"):
        parse_percent(text)

"""Quantities agree with Kubernetes' own code, whose answers are in quantities.txt, except where we mean to differ."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.quantity import MAX_BYTES, QuantityError, amount, parse_bytes, size

_TABLE = [
    line.split("\t") for line in (Path(__file__).parent / "quantities.txt").read_text(encoding="utf-8").splitlines()
]
_UNDER_ONE_BYTE = {"1000u", "999999999n", "1000000n"}


@pytest.mark.parametrize(("text", "answer"), [row for row in _TABLE if row[0] not in _UNDER_ONE_BYTE])
def test_a_quantity_means_what_it_means_to_kubernetes(text: str, answer: str) -> None:
    if answer == "bad":
        with pytest.raises(QuantityError):
            parse_bytes(text)
    else:
        assert parse_bytes(text) == int(answer)


@pytest.mark.parametrize("text", ["Gi", ".", "+", "-1Gi", "-0.5", "512m", "1e-3", "0.1", *_UNDER_ONE_BYTE])
def test_what_kubernetes_lets_through_but_no_limit_can_mean_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse_bytes(text)


@pytest.mark.parametrize(
    "text", ["1000Ei", "9223372036854775808", "1e30", "1e400", "1e999999999", "99999999999999999999Ti"]
)
def test_an_amount_beyond_any_gpu_is_capped(text: str) -> None:
    assert parse_bytes(text) == MAX_BYTES


@pytest.mark.parametrize(
    ("text", "hint"), [("8GB", "Gi"), ("8gi", "Gi"), ("8GiB", "Gi"), ("512m", "M"), ("64k ", "not a quantity")]
)
def test_a_refusal_says_what_may_have_been_meant(text: str, hint: str) -> None:
    with pytest.raises(QuantityError, match=hint):
        parse_bytes(text)


@given(st.text(max_size=100))
def test_any_text_gives_bytes_or_a_quantity_error(text: str) -> None:
    with contextlib.suppress(QuantityError):
        assert 0 <= parse_bytes(text) <= MAX_BYTES


@pytest.mark.parametrize(
    ("count", "in_a_sentence", "in_a_table"),
    [
        (0, "0 MiB", "0Mi"),
        (100, "100 bytes", "100"),
        (1 << 10, "1 KiB", "1Ki"),
        ((1 << 20) - 1, "1 MiB", "1Mi"),
        (300 << 20, "300 MiB", "300Mi"),
        ((1 << 30) - 1, "1.00 GiB", "1.00Gi"),
        (3 << 29, "1.50 GiB", "1.50Gi"),
        (1 << 41, "2048.00 GiB", "2048.00Gi"),
    ],
)
def test_an_amount_is_shown_in_a_unit_that_fits(count: int, in_a_sentence: str, in_a_table: str) -> None:
    assert (amount(count), size(count)) == (in_a_sentence, in_a_table)

"""Quantities agree with Kubernetes' own code, whose answers are in quantities.txt, except where we mean to differ."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare.quantity import MAX_BYTES, QuantityError, parse_bytes

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

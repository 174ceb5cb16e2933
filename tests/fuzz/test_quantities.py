"""Quantities against Kubernetes' own code: quantities/table.txt has its answers, quantities/main.go is how they were
got. Both of our readers, in Python for annotations and in C for the environment, must give the same."""

import subprocess
from pathlib import Path

import pytest

from nvshare.quantity import MAX_BYTES, QuantityError, parse_bytes

HERE = Path(__file__).parent
LIBRARY = HERE.parents[1] / "native" / "libnvshare"
TABLE = [
    line.split("\t") for line in (HERE / "quantities" / "table.txt").read_text(encoding="utf-8").split("\n") if line
]
REFUSED = ("bad", "negative", "tiny")
NEARLY_ONE = "0.999999999999999999999999"
"""Under one byte, and refused by us as such; Kubernetes first rounds up to a billionth, which makes it 1."""


def ours(text: str, theirs: str) -> str:
    """What we mean to answer: the same, except for what can only be a slip."""
    number = text.lstrip("+-").lower().partition("e")[0]
    if (
        theirs in REFUSED
        or (number == NEARLY_ONE and theirs == "1")
        or not any(character.isdigit() for character in number)
    ):
        return "bad"
    return str(MAX_BYTES) if theirs == "big" else theirs


def read(text: str) -> str:
    try:
        return str(parse_bytes(text))
    except QuantityError:
        return "bad"


def test_the_table_has_every_kind_of_answer() -> None:
    answers = [answer for _, answer in TABLE]
    assert len(TABLE) > 4000
    assert all(answers.count(answer) > 300 for answer in (*REFUSED, "big"))
    assert sum(answer.isdigit() for answer in answers) > 1000


def test_a_quantity_means_to_us_what_it_means_to_kubernetes() -> None:
    assert [(text, read(text)) for text, _ in TABLE] == [(text, ours(text, theirs)) for text, theirs in TABLE]


def test_a_quantity_means_the_same_to_the_library(tmp_path: Path) -> None:
    program = tmp_path / "quantity"
    words = ["cc", "-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-fsanitize=address,undefined"]
    words += [
        "-fno-sanitize-recover=all",
        f"-I{LIBRARY}",
        str(HERE / "quantity.c"),
        str(LIBRARY / "base" / "quantity.c"),
    ]
    subprocess.run([*words, "-o", str(program)], check=True)
    texts = "".join(f"{text}\n" for text, _ in TABLE)
    said = subprocess.run([program], input=texts, capture_output=True, encoding="utf-8", check=True).stdout.split("\n")
    assert list(zip(said[:-1], TABLE, strict=True)) == [(read(row[0]), row) for row in TABLE]


@pytest.mark.parametrize(
    ("text", "answer"),
    [("0." + "0" * 50 + "1e60", 10**9), ("1" + "0" * 54 + "e-50", 10**4), ("0" * 60 + "8Gi", 8 << 30)],
)
def test_digits_and_exponent_may_make_up_for_each_other(text: str, answer: int) -> None:
    assert parse_bytes(text) == answer

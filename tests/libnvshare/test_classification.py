"""Every name that libcudart asks the driver for has been thought about."""

import re
import subprocess
import sys
from pathlib import Path

import interception

ROOT = Path(__file__).resolve().parents[2]

LOOKUPS = Path(__file__).parent / "data" / "cudart-13.0-lookups.txt"


def asked() -> set[str]:
    return {line.split()[0] for line in LOOKUPS.read_text().splitlines() if not line.startswith("#")}


def test_every_name_libcudart_asks_for_is_gated_counted_or_passed_with_a_reason() -> None:
    classified = interception.intercepted().keys() | interception.passed().keys()
    assert len(asked()) == 345
    assert sorted(asked() - classified) == []


def test_no_name_is_both_intercepted_and_passed() -> None:
    assert interception.intercepted().keys() & interception.passed().keys() == set()


def test_every_reason_says_something() -> None:
    assert all(len(reason) > 5 for reason in interception.passed().values())


def test_the_table_in_the_docs_is_fresh() -> None:
    done = subprocess.run([sys.executable, ROOT / "tools" / "interception.py", "--check"], check=False)
    assert done.returncode == 0


def test_every_generated_body_hands_its_arguments_on_in_order() -> None:
    rows = re.findall(
        r"^NVS_(?:STREAM|SYNC)(?:_PAIR)?\(.*?\((.*)\), \((.*)\)\)$", interception.SYMBOLS.read_text(), re.MULTILINE
    )
    assert len(rows) > 50
    for parameters, arguments in rows:
        names = [re.findall(r"\w+", parameter)[-1] for parameter in parameters.split(",")]
        assert names == arguments.split(", ")

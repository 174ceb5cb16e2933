"""The loads of `make chaos` that take hardly any time, and how a violation shows."""

from pathlib import Path

import pytest

from chaos.loads import LOADS, judge


@pytest.mark.parametrize("row", ["1b", "12"])
def test_a_load_is_borne(tmp_path: Path, row: str) -> None:
    result = LOADS[row][1](tmp_path / "d", 0.5)
    assert result.wrong == ""
    assert result.measured


def test_a_claim_that_does_not_hold_is_named() -> None:
    assert judge("3 turns", all_run=False, health_checks_succeed=True).wrong == "all run"

"""The short form of the allocations in `make chaos`, and how a scheduler that answers wrongly shows."""

import sys
from pathlib import Path

import pytest

from chaos.allocations import Allocations, Plan, Report
from chaos.start_together import starts
from support import daemon

PLAN = Plan(allocations=20_000, kill_every_s=1, restart_every_s=3, change_every_s=0.8, most_s=300)


def broken(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    monkeypatch.setattr(daemon, "PROGRAM", [sys.executable, "-m", "chaos.broken_scheduler", rule])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))


@pytest.mark.usefixtures("patient")
def test_an_allocation_succeeds_exactly_if_it_fits(tmp_path: Path) -> None:
    """While processes and the scheduler are killed and the limit is changed."""
    report = Allocations(tmp_path, PLAN).run()
    excused = f"{report.excused} wrong refusals were excused: {report.excuses}"
    assert report.wrong(PLAN) == [], excused
    assert (report.wrong_refusals, report.over_limit) == (0, 0), excused
    assert report.refusals > 0


@pytest.mark.parametrize(
    ("rule", "what"), [("stale-bounds", "refused although it fitted"), ("too-much-budget", "allowed over the limit")]
)
def test_a_scheduler_that_answers_wrongly_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str, what: str
) -> None:
    broken(monkeypatch, rule)
    quiet = Plan(allocations=4_000, kill_every_s=60, restart_every_s=60, change_every_s=60, most_s=60)
    report = Allocations(tmp_path, quiet).run()
    assert any(what in wrong for wrong in report.wrong(quiet)), report


@pytest.mark.usefixtures("patient")
def test_processes_that_start_together_all_get_what_fits(tmp_path: Path) -> None:
    assert starts(tmp_path / "d", 5).wrong == ""


def test_a_scheduler_that_refuses_one_of_those_who_start_together_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch, "stale-bounds")
    assert starts(tmp_path / "d", 5).wrong == "all succeed"


def test_failures_too_few_allocations_and_too_many_excuses_are_wrong() -> None:
    assert Report(allocations=100).wrong(Plan(allocations=100)) == []
    assert len(Report(allocations=99, failures=1, excused=1).wrong(Plan(allocations=100))) == 3

"""nvshare simulate, as a user types it."""

import json
from pathlib import Path

from click.testing import CliRunner

from nvshare.cli.failure import EXIT_USAGE, FrontError
from nvshare.cli.simulate import simulate


def run(*words: str) -> str:
    done = CliRunner().invoke(simulate, list(words))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_the_thesis_table_stands_beside_the_measured_figures() -> None:
    shown = run("thesis")
    assert "of 36 cells within 10%" in shown
    assert "our scheduler, auto" in shown
    assert "#" in shown


def test_the_thesis_as_json_and_as_a_picture(tmp_path: Path) -> None:
    values = json.loads(run("thesis", "--json", "--svg", str(tmp_path / "who.svg")))
    assert values["cells"] == 36
    assert values["within_tolerance"] >= 30
    assert (tmp_path / "who.svg").read_text().startswith("<svg ")


def test_jobs_of_ones_own() -> None:
    outcome = json.loads(run("jobs", "-j", "12Gi:16/2x5", "-j", "12Gi:5/20x5@10", "--json"))
    assert [job["name"] for job in outcome["jobs"]] == ["job1", "job2"]
    assert outcome["makespan_s"] >= 5 * 25


def test_jobs_that_fit_do_not_wait() -> None:
    outcome = json.loads(run("jobs", "-j", "5Gi:16/2x5", "-j", "5Gi:5/20x5", "--json"))
    assert outcome["longest_wait_s"] == 0


def test_a_job_that_makes_no_sense_is_the_users_fault() -> None:
    done = CliRunner().invoke(simulate, ["jobs", "-j", "12Gi"])
    assert isinstance(done.exception, FrontError)
    assert done.exception.code == EXIT_USAGE


def test_mixes_print_their_seeds() -> None:
    shown = run("mixes", "--count", "2", "--first", "4")
    assert "seed    4" in shown
    assert "seed    5" in shown
    assert "geometric mean" in shown

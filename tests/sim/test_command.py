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


def test_mixes_print_their_seeds_and_what_they_are_measured_against() -> None:
    shown = run("mixes", "--mode", "fixed", "--count", "2", "--first", "4").splitlines()
    assert ["seed    4" in shown[0], "seed    5" in shown[1]] == [True, True]
    assert all("of fcfs-30s" in line and "of auto" in line for line in shown[:2])
    assert shown[3].startswith("fixed's makespan against fcfs-30s's: geometric mean ")
    assert shown[4].startswith("fixed's makespan against auto's: geometric mean ")
    assert shown[5].startswith("fixed: longest wait ")
    assert shown[5].endswith("(seed 4)")


def test_auto_is_not_measured_against_itself_unless_shaken() -> None:
    one = ("mixes", "--count", "1", "--first", "8", "--json", "--jobs", "1")
    values, shaken = json.loads(run(*one)), json.loads(run(*one, "--shake"))
    assert [(duel["name"], duel["against"]) for duel in values["duels"]] == [("auto", "fcfs-30s")]
    assert shaken["duels"][:1] == values["duels"]
    assert [(duel["name"], duel["against"]) for duel in shaken["duels"][1:]] == [("auto-shaken", "auto")]
    assert [found["name"] for found in shaken["manners"]] == ["auto", "auto-shaken"]
    assert values["mixes"][0]["ratios"][0]["ratio"] == values["duels"][0]["worst"]

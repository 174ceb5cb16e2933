"""nvshare simulate, as a user types it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nvshare.cli.errors import EXIT_USAGE, CommandError
from nvshare.cli.simulate.command import simulate


def run(*words: str) -> str:
    done = CliRunner().invoke(simulate, list(words))
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_the_thesis_table_stands_beside_the_measured_figures() -> None:
    shown = run("thesis")
    assert "of 36 cells within 10%" in shown
    assert "our scheduler, balanced" in shown
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


def test_jobs_that_use_little_of_their_memory_do_not_take_turns() -> None:
    words = ("jobs", "-j", "12Gi/2Gi:16/2x9", "-j", "12Gi/2Gi:16/2x9", "--json")
    assert json.loads(run(*words))["switches"] <= 4


def makespan(*words: str) -> float:
    jobs = ("-j", "12Gi:4/1x20", "-j", "12Gi:4/1x20", "--card", "16Gi", "--bus", "2.9")
    return float(json.loads(run("jobs", *jobs, "--mode", "fixed", "--quantum", "10", "--json", *words))["makespan_s"])


def test_bulk_moves_make_turns_cheaper_and_half_duplex_takes_a_part_of_that() -> None:
    faults, bulk, alternately = makespan(), makespan("--link", "12"), makespan("--link", "12", "--half-duplex")
    assert bulk < alternately < faults


@pytest.mark.parametrize(("card", "memory"), [("p100", "12Gi"), ("t4", "12Gi"), ("a100", "35Gi"), ("h100", "70Gi")])
def test_a_known_card_has_bulk_moves_for_us_and_not_for_the_original(card: str, memory: str) -> None:
    """The quantum is longer than the original takes to move the memory, or its jobs would never end."""
    jobs = ("-j", f"{memory}:4/1x20", "-j", f"{memory}:4/1x20")
    words = ("jobs", *jobs, "--preset", card, "--mode", "fixed", "--quantum", "60", "--json")
    ours, original = (json.loads(run(*words, "--gate", gate)) for gate in ("nvshare", "classic"))
    assert ours["makespan_s"] < original["makespan_s"]


@pytest.mark.parametrize("moves", [("--link", "25"), ("--preset", "p100")])
def test_mixes_with_bulk_moves_are_compared_with_page_faults(moves: tuple[str, str]) -> None:
    values = json.loads(run("mixes", "--count", "1", "--first", "5", "--jobs", "1", "--json", *moves))
    duel = values["duels"][-1]
    assert (duel["name"], duel["against"]) == ("balanced", "balanced-by-faults")
    assert duel["mean"] < 0.995


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-j", "12Gi"], "a job is MEMORY[/USED]:GPU/CPUxCOUNT"),
        (["-j", "12Gi:1/1x2,host=x"], "the memory of the job '12Gi:1/1x2,host=x': 'x'"),
        (["-j", "12Gi:1/1x2", "--preset", "t4", "--bus", "3", "--card", "8Gi"], "leave out --card and --bus"),
        (["-j", "12Gi/x:1/1x2"], "the memory of the job '12Gi/x:1/1x2': 'x'"),
        (["-j", "8Gi/9Gi:1/1x2"], "no more than it has"),
        (["-j", "8GB:1/1x2"], "the memory of the job '8GB:1/1x2': '8GB' has an unknown suffix"),
        (["-j", "0:1/1x2"], "a job without memory"),
        (["-j", "8Gi:1/1x1000000000"], "at most 100000 repetitions"),
        (["-j", "8Gi:1/1x2", "--card", "0"], "--card must be larger than 0"),
        (["-j", "8Gi:1/1x2", "--svg", "/nonexistent/x.svg"], "cannot write the picture /nonexistent/x.svg"),
    ],
)
def test_a_job_that_makes_no_sense_is_the_users_fault(words: list[str], said: str) -> None:
    done = CliRunner().invoke(simulate, ["jobs", *words])
    assert isinstance(done.exception, CommandError)
    assert done.exception.code == EXIT_USAGE
    assert said in str(done.exception)


def test_a_job_that_is_refused_has_no_slowdown() -> None:
    line = next(line for line in run("jobs", "-j", "100Gi:1/1x2", "-j", "8Gi:1/1x2").splitlines() if "job1" in line)
    assert line.split()[:6] == ["job1", "0", "s", "4", "s", "refused"]


@pytest.mark.parametrize("words", [["--bus", "0"], ["--bus", "-3"], ["--gain", "-1"], ["--card", "foo"]])
def test_a_card_that_makes_no_sense_is_refused_with_the_option_that_is_wrong(words: list[str]) -> None:
    done = CliRunner().invoke(simulate, ["jobs", "-j", "8Gi:1/1x2", *words])
    assert done.exit_code == EXIT_USAGE
    assert f"Invalid value for '{words[0]}'" in done.output


def test_mixes_print_their_seeds_and_what_they_are_measured_against() -> None:
    shown = run("mixes", "--mode", "fixed", "--count", "2", "--first", "4").splitlines()
    assert ["seed    4" in shown[0], "seed    5" in shown[1]] == [True, True]
    assert all("of fcfs-30s" in line and "of auto" in line for line in shown[:2])
    assert shown[3].startswith("fixed's makespan against fcfs-30s's: geometric mean ")
    assert shown[4].startswith("fixed's makespan against auto's: geometric mean ")
    assert shown[6].split() == ["slowdown", "makespan", "bursts", "95", "%", "longest", "wait", "fairness"]
    assert [line.split()[0] for line in shown[7:]] == ["fixed", "fcfs-30s", "auto"]


def test_auto_is_not_measured_against_itself_unless_shaken() -> None:
    one = ("mixes", "--mode", "auto", "--count", "1", "--first", "8", "--json", "--jobs", "1")
    values, shaken = json.loads(run(*one)), json.loads(run(*one, "--shake"))
    assert [(duel["name"], duel["against"]) for duel in values["duels"]] == [("auto", "fcfs-30s")]
    assert shaken["duels"][:1] == values["duels"]
    assert [(duel["name"], duel["against"]) for duel in shaken["duels"][1:]] == [("auto-shaken", "auto")]
    assert [found["name"] for found in shaken["merits"]] == ["auto", "fcfs-30s", "auto-shaken"]
    assert values["mixes"][0]["ratios"][0]["ratio"] == values["duels"][0]["worst"]


def test_interactive_mixes_show_how_soon_bursts_are_answered() -> None:
    words = (
        "mixes",
        "--mode",
        "auto",
        "--kind",
        "interactive",
        "--count",
        "1",
        "--move-cost",
        "0.1",
        "--against",
        "adaptive",
        "--jobs",
        "1",
    )
    shown = run(*words).splitlines()
    assert [line.split()[0] for line in shown[-3:]] == ["auto", "fcfs-30s", "adaptive"]
    assert all(line.count(" s ") == 4 for line in shown[-3:])


def test_the_errors_of_expected_starts_are_measured() -> None:
    shown = run("mixes", "--starts", "--count", "1", "--first", "4").splitlines()
    assert shown[0].endswith("waits with an expected start")
    assert "started by then" in shown[1]
    assert json.loads(run("mixes", "--starts", "--count", "1", "--first", "4", "--json"))["waits"] == int(
        shown[0].split()[0]
    )


def test_the_oracle_is_for_small_mixes() -> None:
    done = CliRunner().invoke(simulate, ["mixes", "--oracle"])
    assert isinstance(done.exception, CommandError)
    assert "--oracle needs --kind small" in str(done.exception)

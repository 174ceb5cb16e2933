"""The loads of `make chaos` that take hardly any time, and how a violation shows."""

import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest
from bench.floods import verdict

from chaos import exit_loads, full_memory_loads, loads, memory_loads, other_loads, program_loads, viewer_loads
from chaos.absence_loads import hang_scheduler, start_without
from chaos.gang_loads import LEAST_SHARE, three_on_two
from chaos.loads import Load, Result, Victim, judge, serving
from chaos.program_loads import Flooded, _floods, _p99_ms, judge_floods
from support import daemon
from support.waiting import wait_until

FILES = (loads, viewer_loads, program_loads, exit_loads, other_loads, memory_loads, full_memory_loads)
LOADS = {row: load for file in FILES for row, load in file.LOADS.items()}


@pytest.mark.parametrize("row", ["1b", "7", "8", "12", "13c", "13d", "17"])
def test_a_load_is_borne(tmp_path: Path, row: str) -> None:
    result = LOADS[row][1](tmp_path / "d", 0.5)
    if result.is_skipped:
        pytest.skip(result.measured)
    assert result.wrong == ""
    assert result.measured


@pytest.mark.usefixtures("patient")
def test_a_scheduler_that_hangs_is_noticed_and_costs_nobody_its_place(tmp_path: Path) -> None:
    assert hang_scheduler(tmp_path / "d", 60, NVSHARE_SILENCE_MS="2000").wrong == ""


@pytest.mark.usefixtures("patient")
def test_processes_that_start_without_a_scheduler_share_their_limit_when_it_comes(tmp_path: Path) -> None:
    assert start_without(tmp_path / "d", 0, NVSHARE_JOIN_MS="60000").wrong == ""


@pytest.mark.parametrize("seed", range(3))
def test_a_program_on_two_gpus_gets_its_share_beside_one_on_each_whenever_they_start(tmp_path: Path, seed: int) -> None:
    share, rounds, unshared = three_on_two(tmp_path / "d", Random(f"phase {seed}"), run_ms=7000)
    print(f"{share:.2f} of the time, rounds {rounds}")
    assert share >= LEAST_SHARE
    assert unshared == 0


ENDED = "the scheduler ended with 70"


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users can enter."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Schedulers that are started from now on have this rule broken."""

    def use(rule: str) -> None:
        monkeypatch.setattr(daemon, "PROGRAM", [sys.executable, "-m", "chaos.broken_scheduler", rule])
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))

    return use


def found(load: Load, place: Path, seconds: float) -> str:
    """What a load finds wrong: also that the scheduler ended. Any other exception, such as a timeout on a busy machine,
    shows nothing."""
    try:
        result = load(place, seconds)
    except AssertionError as error:
        if not str(error).startswith("the scheduler ended with"):
            raise
        return str(error).partition(":")[0]
    if result.is_skipped:
        pytest.skip(result.measured)
    return result.wrong


def test_only_the_end_of_the_scheduler_is_a_finding_without_a_verdict(tmp_path: Path) -> None:
    def times_out(place: Path, seconds: float) -> Result:
        raise TimeoutError

    def ends(place: Path, seconds: float) -> Result:
        with serving(place) as scheduler, scheduler.client().register() as client:
            scheduler.kill()
            client.take_lock()
        raise AssertionError("the client got a lock")

    with pytest.raises(TimeoutError):
        found(times_out, tmp_path, 0)
    assert found(ends, tmp_path, 0) == "the scheduler ended with -9"


@pytest.mark.parametrize(
    ("row", "rule", "wrong"),
    [
        ("1b", "viewer-raises", ENDED),
        ("3", "late-claims", "an honest client gets a turn each second"),
        ("6", "revoked-clients", "it costs one turn only"),
        ("7", "not-ending", "the limit holds"),
        ("8", "forget-limits", "the limit is kept"),
        ("9", "one-pool", "health checks succeed"),
        ("12", "believe-unswappable", "lies count as a quarter"),
        ("13b", "invented-gpus", "gpus are bounded"),
        ("13e", "any-seats", "pairs are bounded"),
        ("13e", "state-for-viewers", "memory for viewers is bounded"),
    ],
)
def test_a_load_finds_the_scheduler_that_it_once_hurt(
    place: Path, broken: Callable[[str], None], row: str, rule: str, wrong: str
) -> None:
    broken(rule)
    # A load whose scheduler ends does too, so it may try for long; the others judge at their end.
    assert found(LOADS[row][1], place / "d", 60 if wrong == ENDED else 2) == wrong


def test_a_flood_finds_the_scheduler_that_reads_connections_whatever_they_owe(
    place: Path, broken: Callable[[str], None]
) -> None:
    broken("no-charge")
    flood = partial(_floods, kinds={"memory updates": 900})
    assert "own time" in found(flood, place / "d", 0.5)


def test_a_flood_is_judged_by_its_p99_on_a_quiet_machine_only() -> None:
    assert verdict(1, 2, 49, 5)["ok"] is True
    assert verdict(1, 2, 51, 5)["ok"] is False
    assert verdict(20, 25, 80, 5) | {"goal": ""} == verdict(20, 25, 80, 5) | {"goal": "", "ok": True}
    assert verdict(1, 30, 40, 5)["ok"] is False  # p50 is more than 20 times the quiet figure


def test_a_flood_is_judged_by_the_schedulers_own_time_on_every_machine() -> None:
    assert verdict(20, 25, 80, 51)["ok"] is False


def test_a_long_p99_is_wrong_on_a_quiet_machine_and_not_judged_on_a_busy_one() -> None:
    quiet, busy, late = [0.001] * 100, [0.02] * 100, [0.08] * 100
    measured = "pings: p99 1 ms of 100 (without it 1), own 1"
    assert judge_floods({"pings": Flooded(quiet, quiet, quiet, quiet)}) == Result(measured)
    assert judge_floods({"pings": Flooded(quiet, late, quiet, quiet)}).wrong == "p99 is below 50 ms"
    for before, after in ((busy, quiet), (quiet, busy)):
        floods = {"pings": Flooded(before, late, after, quiet), "connections": Flooded(busy, busy, busy, quiet)}
        loud = judge_floods(floods)
        assert (loud.wrong, loud.not_judged) == ("", ("p99 of pings: the machine was busy without it",))
    starved = judge_floods({"pings": Flooded(busy, [], busy, [])}).wrong
    assert starved == "another user is served, p99 of the schedulers own time is below 50 ms"


def test_a_long_p99_of_the_schedulers_own_time_is_wrong_on_every_machine() -> None:
    busy, late = [0.02] * 100, [0.08] * 100
    assert judge_floods({"pings": Flooded(busy, late, busy, late)}).wrong == (
        "p99 of the schedulers own time is below 50 ms"
    )


def test_a_client_that_got_no_turn_at_all_waited_for_ever() -> None:
    assert _p99_ms([]) == float("inf")
    assert _p99_ms([0.001] * 99 + [0.5]) == 500


def test_a_victim_that_loses_its_connection_is_no_success(tmp_path: Path) -> None:
    def lose(scheduler: daemon.Daemon) -> None:
        with Victim(scheduler) as victim:
            wait_until(lambda: victim.waits, "its first turn")
            victim._client.socket.shutdown(socket.SHUT_RDWR)

    with serving(tmp_path / "d") as scheduler, pytest.raises(OSError):  # noqa: PT011 - which one depends on the moment
        lose(scheduler)


def test_a_claim_that_does_not_hold_is_named() -> None:
    assert judge("3 turns", all_run=False, health_checks_succeed=True).wrong == "all run"

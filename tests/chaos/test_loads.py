"""The loads of `make chaos` that take hardly any time, and how a violation shows."""

import socket
import sys
from pathlib import Path
from random import Random

import pytest
from bench.floods import verdict

from chaos import loads, memory_loads, other_loads, program_loads, viewer_loads
from chaos.absence_loads import hang_scheduler, start_without
from chaos.gang_loads import LEAST_SHARE, three_on_two
from chaos.loads import Result, Victim, judge, serving
from chaos.program_loads import _p99_ms, judge_floods
from support import daemon
from support.waiting import wait_until

LOADS = {**loads.LOADS, **viewer_loads.LOADS, **program_loads.LOADS, **other_loads.LOADS, **memory_loads.LOADS}


@pytest.mark.parametrize("row", ["1b", "12", "13c", "13d", "17"])
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


@pytest.mark.parametrize(
    ("row", "rule", "wrong"),
    [
        ("3", "late-claims", "an honest client gets a turn each second"),
        ("6", "revoked-clients", "it costs one turn only"),
    ],
)
def test_a_load_finds_the_scheduler_that_it_once_hurt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: str, rule: str, wrong: str
) -> None:
    monkeypatch.setattr(daemon, "PROGRAM", [sys.executable, "-m", "chaos.broken_scheduler", rule])
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    assert LOADS[row][1](tmp_path / "d", 2).wrong == wrong


def test_a_flood_is_judged_by_its_p99_on_a_quiet_machine_only() -> None:
    assert verdict(1, 2, 49, 5)["ok"] is True
    assert verdict(1, 2, 51, 5)["ok"] is False
    assert verdict(20, 25, 80, 5) | {"goal": ""} == verdict(20, 25, 80, 5) | {"goal": "", "ok": True}
    assert verdict(1, 30, 40, 5)["ok"] is False  # p50 is more than 20 times the quiet figure


def test_a_flood_is_judged_by_the_schedulers_own_time_on_every_machine() -> None:
    assert verdict(20, 25, 80, 51)["ok"] is False


def test_a_long_p99_is_wrong_on_a_quiet_machine_and_not_judged_on_a_busy_one() -> None:
    quiet, busy, late = [0.001] * 100, [0.02] * 100, [0.08] * 100
    assert judge_floods({"pings": (quiet, quiet)}) == Result("pings: p99 1 ms of 100 (without it 1)")
    assert judge_floods({"pings": (quiet, late)}).wrong == "p99 is below 50 ms"
    loud = judge_floods({"pings": (busy, late), "connections": (busy, busy)})
    assert (loud.wrong, loud.not_judged) == ("", ("p99 of pings: the machine was busy without it",))
    assert judge_floods({"pings": (busy, [])}).wrong == "another user is served"


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

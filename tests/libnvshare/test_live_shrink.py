"""A limit that is lowered below use: real programs on simulated cards under the real scheduler.

How much is on the card is what the card itself says to a program without the library."""

import time
from pathlib import Path
from typing import Any

import pytest

from libnvshare.machine import Looked
from libnvshare.programs import CHECKS, GIB, MIB, Program
from nvshare.simgpu.trace import Kind
from support.waiting import wait_until

STAMP_S = 2.5
"""After this time, memory that is used is younger than what was used before (helper/reports.c)."""


class Card(Looked):
    """A machine with one card of 8 GiB."""

    def __init__(self, directory: Path, *options: str, **settings: Any) -> None:
        super().__init__(directory, *options, memory="8Gi", **settings)

    def program(self, **environment: str) -> Program:
        program = self.start(CHECKS / "lib_mover", **environment)
        program.do("init")
        return program

    def limit(self, size: str) -> None:
        self.daemon.ctl("limit", str(self.clients()[0]["id"]), size)

    def on_host(self) -> list[int]:
        return [client["on_host_bytes"] for client in self.clients()]


def allocated(program: Program, size: int) -> int:
    return int(program.do(f"alloc {size}")[0])


def two_arrays(card: Card, **environment: str) -> tuple[Program, int, int]:
    """A program that used one array some time ago and uses another one now."""
    program = card.program(**environment)
    old, young = allocated(program, 2 * GIB), allocated(program, 2 * GIB)
    program.do(f"touch {old} {2 * GIB} 1")
    end = time.monotonic() + STAMP_S
    while time.monotonic() < end:
        program.do(f"touch {young} {2 * GIB} 1")
    return program, old, young


def test_a_lowered_limit_moves_the_coldest_memory_to_the_host_and_a_raised_one_brings_it_back(tmp_path: Path) -> None:
    with Card(tmp_path, touch="stream") as card:
        program, old, young = two_arrays(card)
        assert card.used() == 4 * GIB
        card.limit("3Gi")
        wait_until(lambda: card.on_host() == [GIB], "the excess is on the host")
        assert card.used() == 3 * GIB
        assert "1.00Gi on the host by limit" in card.daemon.ctl("status")
        story = card.daemon.ctl("story", str(card.clients()[0]["id"]))
        assert "1.00 GiB of its memory are on the host because of its limit" in story
        program.do(f"touch {young} {2 * GIB} 1")
        program.do(f"touch {old} {2 * GIB} 1")
        of_young, of_old = card.traces()[-1].kernels()[-2:]
        assert of_young.page_in_ns == 0
        assert of_old.page_in_ns > 0, "it is read over the link"
        assert card.used() == 3 * GIB, "and stays on the host"
        card.limit("4Gi")
        wait_until(lambda: card.on_host() == [0], "nothing is on the host")
        assert card.used() == 4 * GIB


def test_memory_that_was_never_used_stays_on_the_host_without_being_moved(tmp_path: Path) -> None:
    with Card(tmp_path, touch="stream") as card:
        program = card.program()
        memory = allocated(program, 4 * GIB)
        program.do(f"set {memory} {GIB}")
        card.limit("2Gi")
        wait_until(lambda: card.on_host() == [2 * GIB], "the unused memory is at home on the host")
        assert card.traces()[-1].of_kind(Kind.PREFETCH) == []
        program.do(f"touch {memory} {4 * GIB} 1")
        assert card.used() == 2 * GIB, "the rest is used from the host"


def test_a_client_that_waited_for_the_card_runs_when_a_limit_frees_it(tmp_path: Path) -> None:
    with Card(tmp_path, "--switch-time-mode=fixed", "--switch-time-fixed=600") as card:
        big, small = card.program(), card.program()
        memory = allocated(big, 5 * GIB)
        big.say(f"touch {memory} {5 * GIB} 1000000")
        other = allocated(small, 3 * GIB)
        wait_until(lambda: card.clients()[0]["is_running"], "the first runs")
        small.say(f"touch {other} {3 * GIB} 1")
        wait_until(lambda: card.clients()[1]["state"] == "waiting", "the second waits")
        card.limit("3Gi")
        assert small.answer(60)[0] == "0"
        assert card.clients()[0]["is_running"]


@pytest.mark.parametrize("is_told", [True, False])
def test_the_program_and_the_scheduler_may_say_that_memory_stays(tmp_path: Path, is_told: bool) -> None:
    options = () if is_told else ("--live-shrink=off",)
    with Card(tmp_path, *options) as card:
        program, _, young = two_arrays(card, NVSHARE_DEBUG="1", **{"NVSHARE_LIVE_SHRINK": "0"} if is_told else {})
        card.limit("3Gi")
        card.daemon.log.wait_for("is told to keep 1.00 GiB" if is_told else "Sending UPDATE_LIMIT")
        received = f"Received UPDATE_LIMIT: {3 * GIB} bytes"
        wait_until(lambda: received in program.said(), "the program has its new limit")
        program.do(f"touch {young} {2 * GIB} 1")
        assert program.ask(f"alloc {64 * MIB}")[0] == "2", "nothing more may be allocated"
        assert (card.on_host(), card.used()) == ([0], 4 * GIB)
        assert is_told or "is told to keep" not in card.daemon.log.text


def test_flags_that_are_not_understood_are_said_once_each_and_change_nothing(tmp_path: Path) -> None:
    with Card(tmp_path, touch="stream") as card:
        program, _, _ = two_arrays(card, NVSHARE_PREFETCH="maybe", NVSHARE_LIVE_SHRINK="2")
        card.limit("3Gi")
        wait_until(lambda: card.on_host() == [GIB], "the excess is on the host")
        assert [line for line in program.said().splitlines() if "not understood" in line] == [
            '[NVSHARE][WARN]: NVSHARE_PREFETCH="maybe" is not understood and is ignored; allowed: 0 or 1',
            '[NVSHARE][WARN]: NVSHARE_LIVE_SHRINK="2" is not understood and is ignored; allowed: 0 or 1',
        ]


def test_a_client_that_moves_no_memory_is_not_asked_and_another_of_the_same_limit_is(tmp_path: Path) -> None:
    with Card(tmp_path, touch="stream") as card:
        run = {"NVSHARE_RUN_ID": "0123456789abcdef" * 2}
        big = card.program(NVSHARE_PREFETCH="0", **run)
        memory = allocated(big, 3 * GIB)
        big.do(f"touch {memory} {3 * GIB} 1")
        wait_until(lambda: [one["not_moving"] != "" for one in card.clients()] == [True], "it has said so")
        card.limit("2Gi")
        wait_until(lambda: "1.00Gi above its limit stay on the card: switched off" in card.daemon.ctl("status"), "why")
        assert "is told to keep" not in card.daemon.log.text
        card.limit("5Gi")
        small = card.program(**run)
        other = allocated(small, 2 * GIB)
        small.do(f"touch {other} {2 * GIB} 1")
        card.limit("4Gi")
        wait_until(lambda: card.on_host() == [0, GIB], "the other one keeps the excess")


def test_a_new_scheduler_learns_what_is_on_the_host_and_can_bring_it_back(tmp_path: Path) -> None:
    with Card(tmp_path, touch="stream") as card:
        two_arrays(card)
        card.limit("3Gi")
        wait_until(lambda: card.on_host() == [GIB], "the excess is on the host")
        card.restart()
        wait_until(lambda: card.on_host() == [GIB], "the new scheduler knows")
        assert card.used() == 3 * GIB
        card.limit("none")
        wait_until(lambda: card.on_host() == [0], "nothing is on the host")
        wait_until(lambda: card.used() == 4 * GIB, "it is back")


def test_a_limit_that_is_removed_frees_memory_also_while_prefetches_have_no_effect(tmp_path: Path) -> None:
    options = ("--switch-time-mode=fixed", "--switch-time-fixed=1")
    with Card(tmp_path, *options, prefetch="ignored", scale=1) as card:
        both = [card.program() for _ in range(2)]
        for one in both:
            one.say(f"touch {allocated(one, 5 * GIB)} {5 * GIB} 1000000")  # they take turns
        card.limit("4Gi")
        wait_until(lambda: card.on_host()[0] >= GIB, "the excess is on the host", 60)
        off = "prefetches have no effect"
        wait_until(lambda: [one["not_moving"] for one in card.clients()] == [off] * 2, "it is noticed", 60)
        card.limit("none")
        wait_until(lambda: card.on_host() == [0, 0], "nothing is on the host", 60)


def test_memory_that_is_freed_is_not_on_the_host(tmp_path: Path) -> None:
    with Card(tmp_path, touch="stream") as card:
        program, old, _ = two_arrays(card)
        card.limit("3Gi")
        wait_until(lambda: card.on_host() == [GIB], "the excess is on the host")
        program.do(f"free {old}")
        wait_until(lambda: card.on_host() == [0], "what was freed is not there")
        assert card.used() == 2 * GIB
        again = allocated(program, GIB)
        program.do(f"touch {again} {GIB} 1")
        assert card.used() == 3 * GIB, "the address carries no advice"

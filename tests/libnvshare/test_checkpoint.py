"""Memory mode checkpoint: programs with native memory leave the card between their turns (decision 32)."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from libnvshare.machine import GIB, Looked
from libnvshare.programs import CHECKS, OUT_OF_MEMORY, Program
from support.waiting import wait_until

NINE = 9 * GIB
OPTIONS = ("--switch-time-mode=fixed", "--switch-time-fixed=1")
REFUSED = "could not suspend this process"


@pytest.fixture
def card(tmp_path: Path) -> Iterator[Looked]:
    with Looked(tmp_path, *OPTIONS, scale=0.01) as machine:
        yield machine


@pytest.fixture
def slow_card(tmp_path: Path) -> Iterator[Looked]:
    """A checkpoint or restore of 9 GiB takes 2 s. The scheduler uses the card first, so it sets its speed."""
    with Looked(tmp_path, *OPTIONS, scale=0.01, copy_bandwidth="48M") as machine:
        yield machine


def start(card: Looked, *, how: str = "dlsym", **environment: str) -> Program:
    environment = {"NVSHARE_MEMORY_MODE": "checkpoint", **environment}
    return card.start(CHECKS / ("lib_client_linked" if how == "linked" else "lib_client"), how, **environment)


def with_memory(card: Looked, size: int = NINE, *, how: str = "dlsym", **environment: str) -> tuple[Program, str]:
    """A program with a context and this much memory, and its address."""
    program = start(card, how=how, **environment)
    program.do("init 0")
    address = program.do(f"alloc {size}")[0]
    return program, address


def view(card: Looked, program: Program) -> dict[str, Any]:
    """What the scheduler knows of it."""
    return next(one for one in card.clients() if one["pid"] == program.process.pid)


def has_left(card: Looked, program: Program) -> bool:
    shown = view(card, program)
    return bool(shown["moved"]["out_bytes"] > shown["moved"]["in_bytes"] and not shown["is_running"])


@pytest.mark.parametrize("how", ["dlsym", "procaddress", "default", "linked"])
def test_two_programs_of_nine_gib_take_turns_on_a_card_of_sixteen_and_keep_their_values(card: Looked, how: str) -> None:
    one, other = start(card, how=how), start(card, how=how)
    addresses = []
    for number, program in enumerate((one, other)):
        program.do("init 0")
        addresses.append(program.do(f"alloc {NINE}")[0])
        program.do(f"poke {addresses[-1]} {number + 77}")
    for program in (one, other):
        program.say("loop 100 3500")
    for program in (one, other):
        assert program.answer(120)[0] == "0"
    assert [program.do(f"peek {at}", 120) for program, at in zip((one, other), addresses, strict=True)] == [
        ["77"],
        ["78"],
    ]
    for program in (one, other):
        moved = view(card, program)["moved"]
        assert moved["out_bytes"] >= 2 * NINE, "it left the card, more than once"
        assert moved["in_bytes"] >= NINE, "and came back"
    assert card.used(0) <= NINE + card.CONTEXT, "one of them is on the card, with its context"
    assert card.overlaps() == []


def test_programs_that_fit_together_are_not_suspended(card: Looked) -> None:
    programs = [with_memory(card, 4 * GIB)[0] for _ in range(2)]
    for program in programs:
        program.say("loop 100 2500")
    for program in programs:
        assert program.answer()[0] == "0"
        assert view(card, program)["moved"]["out_bytes"] == 0


def suspended(card: Looked, *, how: str = "dlsym", **environment: str) -> tuple[Program, str, Program, str]:
    """A program that was suspended while it was idle, and the one that needed the room."""
    one, at = with_memory(card, NINE, how=how, **environment)
    one.do(f"poke {at} 5")
    other, other_at = with_memory(card)
    wait_until(lambda: has_left(card, one), "the first one has left the card")
    return one, at, other, other_at


@pytest.mark.parametrize("how", ["dlsym", "linked", "default"])
@pytest.mark.parametrize("call", ["sync", "info", "stream 1", "alloc 4096", "init 0"])
def test_any_call_of_a_suspended_program_waits_for_its_turn(card: Looked, call: str, how: str) -> None:
    """A synchronisation would crash in a real driver; the others would wait there, and nobody would know."""
    one, at, *_ = suspended(card, how=how)
    assert one.ask(call)[0] == "0"
    assert one.do(f"peek {at}") == ["5"]


def test_the_scheduler_says_who_is_suspended(card: Looked) -> None:
    one, *_ = suspended(card)
    assert view(card, one)["memory_mode"] == "checkpoint"
    assert "has native memory and suspends itself between its turns" in card.daemon.log.text


def test_an_allocation_that_is_too_large_for_the_card_is_refused_and_the_program_goes_on(card: Looked) -> None:
    one, at = with_memory(card)
    assert one.ask(f"alloc {NINE}")[0] == str(OUT_OF_MEMORY)
    one.do(f"poke {at} 1")
    assert one.do("spin 1 1")


@pytest.mark.parametrize("failure", ["lock-fails", "checkpoint-fails"])
def test_a_failed_checkpoint_leaves_the_program_running_with_native_memory(card: Looked, failure: str) -> None:
    one, at = with_memory(card, NVSHARE_SIM_CHECKPOINT=failure)
    one.do(f"poke {at} 5")
    other = start(card)
    other.do("init 0")
    assert other.ask(f"alloc {NINE}")[0] == str(OUT_OF_MEMORY), "as with native memory"
    wait_until(lambda: REFUSED in one.said(), "it says so")
    assert one.do(f"peek {at}") == ["5"]
    wait_until(lambda: view(card, one)["memory_mode"] == "not suspended", "the scheduler knows")
    other.do(f"alloc {4 * GIB}")
    one.say("loop 100 1500")
    other.say("loop 100 1500")
    assert [one.answer()[0], other.answer()[0]] == ["0", "0"]
    assert one.said().count(REFUSED) == 1
    assert card.daemon.log.text.count("cannot be suspended") == 1


def test_a_failed_restore_is_said_and_ends_no_other_program(card: Looked) -> None:
    one, at, other, other_at = suspended(card, NVSHARE_SIM_CHECKPOINT="restore-fails")
    assert one.ask(f"peek {at}")[0] == str(OUT_OF_MEMORY)
    assert one.said().count("start the program again") == 1
    other.do(f"poke {other_at} 6")
    assert other.do(f"peek {other_at}") == ["6"]
    assert one.ask("sync")[0] == str(OUT_OF_MEMORY)
    one.finish()


def test_a_restore_waits_for_room_that_a_stranger_takes(card: Looked) -> None:
    one, at, other, _ = suspended(card)
    other.finish()
    stranger = card.start(CHECKS / "simgpu_worker", LD_PRELOAD="")
    assert stranger.answer() == ["ready"]
    assert stranger.ask(f"native {10 * GIB}") == ["0"]
    one.say(f"peek {at}")
    assert one.waits()
    assert stranger.ask("free") == ["0"]
    assert one.answer() == ["0", "5"]


def test_a_program_that_is_killed_while_it_is_suspended_leaves_nothing_behind(card: Looked) -> None:
    one, _, other, other_at = suspended(card)
    one.process.send_signal(signal.SIGKILL)
    one.process.wait()
    other.do(f"poke {other_at} 6")
    third, third_at = with_memory(card)
    assert third.do(f"poke {third_at} 7") == []
    assert other.do(f"peek {other_at}") == ["6"]


@pytest.mark.parametrize("step", ["nvshare-leave", "nvshare-return"])
def test_a_program_that_is_killed_during_a_checkpoint_or_restore_leaves_nothing_behind(
    slow_card: Looked, step: str
) -> None:
    card = slow_card
    if step == "nvshare-leave":
        one, _ = with_memory(card)
        other = start(card)
        other.do("init 0")
        other.say(f"alloc {NINE}")
    else:
        one, at, other, _ = suspended(card)
        one.say(f"peek {at}")
    wait_until(lambda: one.has_thread(step), "the driver is at it")
    one.process.send_signal(signal.SIGKILL)
    one.process.wait()
    if step == "nvshare-leave":
        assert other.answer()[0] == "0"
    other.finish()
    third, third_at = with_memory(card)
    third.do(f"poke {third_at} 7")
    assert third.do(f"peek {third_at}") == ["7"]
    wait_until(lambda: len(card.clients()) == 1, "the scheduler has forgotten them")
    assert card.used(1) == NINE


def test_a_suspended_program_ends_without_coming_back(card: Looked) -> None:
    one, _, other, _ = suspended(card)
    other.say("loop 100 2000")
    one.finish()
    assert other.answer()[0] == "0"


def test_a_suspended_program_comes_back_by_itself_when_the_scheduler_is_gone(card: Looked) -> None:
    one, at, other, _ = suspended(card, NVSHARE_ORPHAN_WAIT_MS="300")
    card.daemon.kill()
    other.finish()
    assert one.do(f"peek {at}") == ["5"]


def test_a_suspended_program_has_turns_from_the_next_scheduler(card: Looked) -> None:
    one, at, other, other_at = suspended(card)
    other.do(f"poke {other_at} 6")
    card.restart()
    for _ in range(2):
        assert one.do(f"peek {at}") == ["5"]
        assert other.do(f"peek {other_at}") == ["6"]
    wait_until(lambda: view(card, one)["memory_mode"] == "checkpoint", "the new scheduler knows")


def test_the_others_go_on_if_a_driver_hangs_in_a_checkpoint(tmp_path: Path) -> None:
    with Looked(tmp_path, *OPTIONS, "--grace-seconds=1", memory="2Gi", scale=0.01, context_memory="16Mi") as small:
        size = 1100 << 20
        with_memory(small, size, NVSHARE_SIM_CHECKPOINT="checkpoint-hangs")
        other = start(small)
        other.do("init 0")
        assert other.ask(f"alloc {size}", 120)[0] == str(OUT_OF_MEMORY), "the first one is still on the card"
        address = other.do(f"alloc {size // 4}", 120)[0]
        other.do(f"poke {address} 6", 120)


def test_the_others_go_on_if_a_driver_hangs_in_a_restore(tmp_path: Path) -> None:
    with Looked(tmp_path, *OPTIONS, "--grace-seconds=1", memory="2Gi", scale=0.01, context_memory="16Mi") as small:
        size = 1100 << 20
        one, at = with_memory(small, size, NVSHARE_SIM_CHECKPOINT="restore-hangs")
        other, other_at = with_memory(small, size)
        one.say(f"peek {at}")
        wait_until(lambda: one.has_thread("nvshare-return"), "the driver hangs")
        other.do(f"poke {other_at} 6", 120)
        assert other.do(f"peek {other_at}", 120) == ["6"]


MANAGED_PTX = """.version 8.0
.target sm_80
.visible .global .attribute(.managed) .align 4 .u32 counter;
"""
MANAGED = [
    "managed 4096",
    *(f"managed-{what}" for what in ("pool", "default", "current", "module", "library", "variable")),
]


@pytest.mark.parametrize("command", [*MANAGED, "ipchandle {}"])
def test_a_program_that_uses_what_checkpoints_refuse_stays_native(card: Looked, tmp_path: Path, command: str) -> None:
    """A refused checkpoint would leave it unusable."""
    module = tmp_path / "managed.ptx"
    module.write_text(MANAGED_PTX)
    one, at = with_memory(card, NVSHARE_SIM_CHECKPOINT="refusal-breaks", LIB_CLIENT_MODULE=str(module))
    one.do(f"poke {at} 5")
    one.do(command.format(at))
    other = start(card)
    other.do("init 0")
    assert other.ask(f"alloc {NINE}")[0] == str(OUT_OF_MEMORY)
    wait_until(lambda: view(card, one)["memory_mode"] == "not suspended", "the scheduler knows")
    assert one.do(f"peek {at}") == ["5"]
    assert one.said().count("cannot be suspended") == 1
    assert REFUSED not in one.said(), "it was not tried"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"cuda_version": "12060"}, "has no checkpoints"), ({"gpus": 2}, "several GPUs"), ({"mig": 1}, "MIG")],
)
def test_where_there_are_no_checkpoints_memory_is_native(tmp_path: Path, settings: dict[str, Any], reason: str) -> None:
    with Looked(tmp_path, *OPTIONS, **settings) as machine:
        one, at = with_memory(machine, GIB)
        one.do(f"poke {at} 1")
        assert reason in one.said()
        wait_until(lambda: view(machine, one)["memory_mode"] == "not suspended", "the scheduler knows")

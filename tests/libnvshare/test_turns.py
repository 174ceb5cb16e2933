"""Turns: what a client says and does between REQ_LOCK and LOCK_RELEASED, against a scheduler in the test's hand."""

import time

import pytest

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.programs import CHECKS, MIB, Program, Programs
from nvshare.wire.messages import (
    Busy,
    ClaimState,
    Contended,
    DropLock,
    ExpectedStart,
    Idle,
    LockOk,
    LockReleased,
    LongWait,
    MemAvailable,
    MemUpdate,
    Message,
    Register,
    ReqLock,
    SchedOff,
    SchedOn,
    WaitForMem,
)

SAFETY_NET_S = 4.0
"""Less than the time after which the helper looks by itself (helper/session.c)."""


def start(programs: Programs, scheduler: FakeScheduler, **environment: str) -> tuple[Program, LibraryConnection]:
    """A client that has registered and made its context."""
    program = programs.start(**environment)
    program.say("init 0")
    peer, _ = scheduler.welcome()
    assert program.answer() == ["0", "0"]
    return program, peer


def give(program: Program, peer: LibraryConnection, lock: int, *, contended: bool = False) -> None:
    """Lets the client ask for its turn and gives it."""
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, contended, lock))
    assert program.answer()[0] == "0"


@pytest.mark.parametrize(
    ("name", "how"), [("lib_client", "dlsym"), ("lib_client", "procaddress"), ("lib_client_linked", "")]
)
def test_work_waits_for_the_lock_however_the_program_finds_the_driver(
    programs: Programs, scheduler: FakeScheduler, name: str, how: str
) -> None:
    program = programs.start(CHECKS / name, how)
    program.say("init 0")
    peer, register = scheduler.welcome()
    program.answer()
    assert [entry.state for entry in register.entries] == [ClaimState.IDLE]
    address = int(program.do(f"alloc {3 * MIB}")[0])
    program.say("spin 1 3")
    request = peer.expect(ReqLock)
    assert (request.swappable, request.unswappable, request.contexts) == (3 * MIB, 0, 1)
    assert program.waits()
    peer.send(LockOk(0, False, 5))
    assert program.answer()[0] == "0"
    program.do(f"free {address}")
    assert peer.expect(MemUpdate).swappable == 0
    program.finish()


def test_a_dropped_lock_is_given_back_and_asked_for_again_by_work(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    give(program, peer, 7)
    peer.send(DropLock(0, 1, 10000, 7))
    assert peer.expect(LockReleased) == LockReleased(0, False, 7)
    give(program, peer, 8)


def test_a_drop_of_a_lock_that_is_not_held_is_ignored(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    give(program, peer, 7)
    peer.deliver(DropLock(0, 1, 10000, 6))
    program.do("spin 1 1")
    peer.send(DropLock(0, 1, 10000, 7))
    peer.expect(LockReleased)
    assert peer.heard(LockReleased) == [LockReleased(0, False, 7)]
    assert len(peer.heard(ReqLock)) == 1


def test_an_idle_holder_says_so_at_once_when_somebody_waits_and_again_when_it_works(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler)
    give(program, peer, 7)
    assert peer.heard(Idle) == []  # not while nobody waits
    took = []
    for _ in range(3):
        program.do("spin 1 1")
        began = time.monotonic()
        peer.send(Contended(0, True))
        peer.expect(Idle)
        took.append(time.monotonic() - began)
        peer.deliver(Contended(0, False))
    assert max(took) < SAFETY_NET_S  # each at once, not when the helper looks by itself
    assert (len(peer.heard(Idle)), len(peer.heard(Busy))) == (3, 0)  # none while nobody waited
    peer.send(Contended(0, True))
    peer.expect(Idle)
    program.do("spin 1 1")
    peer.expect(Busy)
    peer.expect(Idle)
    assert (len(peer.heard(Idle)), len(peer.heard(Busy))) == (5, 1)


def test_scheduling_off_lets_everyone_run_and_on_asks_again(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(SchedOff(0, 1, 1))
    assert program.answer()[0] == "0"
    peer.deliver(SchedOn(0, 1, 1))
    program.say("spin 1 1")
    peer.expect(ReqLock)
    assert program.waits()
    peer.send(LockOk(0, False, 9))
    assert program.answer()[0] == "0"


def test_a_long_wait_is_one_line_for_the_user_without_another_processs_control_characters(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LongWait(0, 2, 1, 30_000, 45_000, b"train\x1b[31m.py".ljust(48, b"\0")), LockOk(0, False, 9))
    assert program.answer()[0] == "0"
    lines = [line for line in program.said().splitlines() if line]
    assert lines == [
        "[NVSHARE][INFO]: waiting for GPU-40404040-4040-4040-4040-404040404040 for 30 s, place 2 in the queue;"
        " held by train?[31m.py for 45 s"
    ]


def test_the_line_about_a_long_wait_says_by_when_the_program_will_start(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler)
    line = LongWait(0, 2, 1, 30_000, 45_000, b"train.py".ljust(48, b"\0"))
    for wait, messages in ((7, (ExpectedStart(0, 41_500), line)), (8, (line,))):
        program.say("spin 1 1")
        peer.expect(ReqLock)
        peer.send(*messages, LockOk(0, False, wait))
        assert program.answer()[0] == "0"
        peer.send(DropLock(0, 0, 10_000, wait))
        peer.expect(LockReleased)
    told, not_told = (line for line in program.said().splitlines() if line)
    assert told.endswith("held by train.py for 45 s; this program will probably start within 42 s")
    assert not_told.endswith("held by train.py for 45 s")


def test_a_program_that_waits_because_of_host_memory_says_so(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LongWait(0, 0, 1, 30_000, 0, b"train.py".ljust(48, b"\0")), LockOk(0, False, 9))
    assert program.answer()[0] == "0"
    assert [line for line in program.said().splitlines() if line] == [
        "[NVSHARE][INFO]: waiting for GPU-40404040-4040-4040-4040-404040404040 for 30 s: there is too little host"
        " memory for the GPU memory of train.py, which would have to move there"
    ]


def test_a_program_that_waits_for_no_holder_names_none(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(WaitForMem(0, 1), LongWait(0, 1, 0, 30_000, 0, bytes(48)), LockOk(0, False, 9))
    assert program.answer()[0] == "0"
    assert [line for line in program.said().splitlines() if line] == [
        "[NVSHARE][INFO]: waiting for GPU-40404040-4040-4040-4040-404040404040 for 30 s: this program may be paused,"
        " have used its share of GPU time, or wait for other GPUs too; `nvsharectl story` says why"
    ]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([WaitForMem(0, 1)], "memory of "),
        ([WaitForMem(0, 1), MemAvailable(0)], "the lock of "),
        ([WaitForMem(0, 1), MemAvailable(0), WaitForMem(0, 1)], "memory of "),
    ],
    ids=["memory", "the lock", "memory again"],
)
def test_the_line_about_a_long_wait_names_what_the_program_waits_for(
    programs: Programs, scheduler: FakeScheduler, told: list[Message], words: str
) -> None:
    program, peer = start(programs, scheduler)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(*told, LongWait(0, 1, 1, 30_000, 45_000, b"train.py".ljust(48, b"\0")), LockOk(0, False, 9))
    assert program.answer()[0] == "0"
    assert f"waiting for {words}GPU-40404040" in program.said()


def test_the_last_contexts_end_gives_the_lock_back(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    give(program, peer, 7)
    program.do("destroy 0")
    assert peer.expect(LockReleased) == LockReleased(0, False, 7)


def test_two_gpus_have_two_gates(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVS_NULL_GPUS="2")
    program.say("init 0")
    peer, register = scheduler.welcome()
    program.answer()
    assert [entry.uuid for entry in register.entries] == [b"\x40" * 16, b"\x41" * 16]
    program.do("init 1")
    program.say("spin 1 1")
    assert peer.expect(ReqLock).gpu == 1
    peer.send(LockOk(1, False, 3))
    assert program.answer()[0] == "0"
    peer.send(DropLock(1, 1, 10000, 3))
    assert peer.expect(LockReleased).gpu == 1
    program.do("use 0")
    program.say("spin 1 1")
    assert peer.expect(ReqLock).gpu == 0
    peer.send(LockOk(0, False, 4))
    assert program.answer()[0] == "0"


def test_a_claim_is_made_by_a_holder_of_a_lock_of_an_earlier_daemon(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler)
    give(program, peer, 7)
    peer.close()
    program.do("spin 1 1")  # holders go on
    peer = scheduler.accept()
    register = peer.expect(Register)
    assert [(entry.state, entry.lock) for entry in register.entries] == [(ClaimState.HOLDING, 7)]
    peer.send(SchedOn(0, 1, 2))
    program.do("spin 1 1")
    peer.send(DropLock(0, 1, 10000, 7))
    assert peer.expect(LockReleased).lock == 7

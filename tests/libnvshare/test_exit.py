"""A program that exits slowly. What it holds counts until the kernel has taken it back: its exit handlers and its other
threads still use the GPU."""

from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, GIB, MIB, OUT_OF_MEMORY, Program, Programs
from libnvshare.restless import Restless
from nvshare.wire.messages import BudgetRecall, BudgetReturn, DropLock, LockOk, LockReleased, ReqLock
from support.waiting import wait_until

SLOW_EXIT = (CHECKS / "lib_client", "dlsym", "slowexit")


def start(programs: Programs, scheduler: FakeScheduler) -> tuple[Program, LibraryConnection]:
    program = programs.start(*SLOW_EXIT)
    peer = scheduler.join(program)
    return program, peer


def run_with_lock(program: Program, peer: LibraryConnection, lock: int) -> None:
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, lock))
    assert program.answer()[0] == "0"


def begin_to_exit(program: Program) -> None:
    program.say("exit 5")
    assert program.answer() == ["0", "exiting"]


def end(program: Program, peer: LibraryConnection) -> None:
    """The exit handler returns; the scheduler learns of the end from the closed connection."""
    program.say("exit 0")
    assert program.process.wait(60) == 5
    with pytest.raises(EOFError):
        peer.drain()


def test_memory_and_lock_stay_with_a_process_until_it_is_gone(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    program.do(f"alloc {MIB}")
    run_with_lock(program, peer, 1)
    begin_to_exit(program)
    assert peer.heard(LockReleased) == []  # EOFError if it had left
    end(program, peer)


def test_an_exit_handler_waits_for_its_turn_and_frees_without_one(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    (address, *_) = program.do(f"alloc {MIB}")
    begin_to_exit(program)
    program.do("sync")
    program.do(f"free {address}")
    program.do(f"alloc {MIB}")
    program.say("spin 1 1")
    peer.expect(ReqLock)
    assert program.waits()
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"
    end(program, peer)


def test_a_lock_taken_back_during_exit_is_released_by_the_thread_that_wants_the_next(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler)
    run_with_lock(program, peer, 1)
    begin_to_exit(program)
    peer.deliver(DropLock(0, 1, 1000, 1))
    assert peer.heard(LockReleased) == []  # its work may still run, and the driver may not be asked
    program.say("spin 1 1")
    released = peer.expect(LockReleased)
    assert (released.lock, released.again) == (1, True)
    peer.send(LockOk(0, False, 2))
    assert program.answer()[0] == "0"
    end(program, peer)


def test_a_lock_without_work_is_released_during_exit(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    run_with_lock(program, peer, 1)
    peer.deliver(DropLock(0, 1, 1000, 1))
    peer.expect(LockReleased)
    peer.deliver(LockOk(0, False, 2))
    begin_to_exit(program)
    peer.send(DropLock(0, 1, 1000, 2))
    assert peer.expect(LockReleased).lock == 2
    end(program, peer)


def test_a_child_forked_by_an_exit_handler_drains_like_any_process(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler)
    begin_to_exit(program)
    program.say("forkserve")
    child, _ = scheduler.welcome(client=2)
    program.answer()
    run_with_lock(program, child, 7)
    child.send(DropLock(0, 1, 1000, 7))
    assert child.expect(LockReleased).lock == 7
    program.say("exit 0")  # the child
    assert program.answer() == ["0", "0"]
    end(program, peer)


def test_a_recall_during_exit_is_answered_without_a_call_to_the_driver(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(on_card, scheduler)
    run_with_lock(program, peer, 1)
    (address, *_) = program.do(f"async {GIB}")
    begin_to_exit(program)
    program.do(f"freeasync {address}")
    program.do("sync")  # the driver has the memory back; only a call to it would show that
    peer.send(BudgetRecall(0, 5, 0))
    assert peer.expect(BudgetReturn).used == GIB
    end(program, peer)


@pytest.mark.usefixtures("patient")
def test_the_memory_of_a_process_that_exits_counts_against_the_limit_of_its_run(tmp_path: Path) -> None:
    with Machine(tmp_path, "--settle-seconds=0") as machine:
        run = {"NVSHARE_RUN_ID": "0123456789abcdef" * 2}
        first, second = machine.start(*SLOW_EXIT, **run), machine.start(*SLOW_EXIT, **run)
        for program in (first, second):
            program.do("init 0")
        machine.daemon.ctl("limit", str(machine.clients()[0]["id"]), "4Gi")
        wait_until(lambda: first.do("info")[1] == second.do("info")[1] == str(4 * GIB), what="the limit")
        first.do(f"alloc {3 * GIB}")
        begin_to_exit(first)
        assert second.ask(f"alloc {3 * GIB}")[0] == str(OUT_OF_MEMORY)
        first.say("exit 0")
        assert first.process.wait(60) == 5
        wait_until(lambda: second.ask(f"alloc {3 * GIB}")[0] == "0", what="the memory is free")


@pytest.mark.parametrize("seed", [31, 32, 33])
def test_an_exit_that_waits_for_a_thread_ends_while_the_lock_comes_and_goes(
    on_card: Programs, scheduler: FakeScheduler, seed: int
) -> None:
    restless = Restless(scheduler, seed)
    done = on_card.run_until(lambda: restless.drops >= 100, CHECKS / "lib_storm", "4", str(seed), "exit")
    assert done.returncode == 0, done.stdout + done.stderr
    restless.thread.join(60)
    assert restless.drops >= 100  # the exit lasted as long as the thread, and so did the turns

"""A lock is given back only when everything the process submitted has finished, wherever it was submitted."""

import os
import re
import signal
import time
from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.programs import GIB, OUT_OF_MEMORY, Program, Programs
from nvshare.wire.messages import (
    Budget,
    Busy,
    ClaimState,
    Contended,
    DropLock,
    Idle,
    LockOk,
    LockReleased,
    Register,
    ReqLock,
    SchedOn,
    UpdateLimit,
)
from support.waiting import wait_until

KERNEL_US = 50_000_000  # half a second on a card a hundred times faster than life
KERNEL_S = 0.5


def start_new(programs: Programs, scheduler: FakeScheduler, **environment: str) -> tuple[Program, LibraryConnection]:
    """A client that holds lock 1 and has submitted one kernel."""
    program = programs.start(**environment)
    peer = scheduler.join(program)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"
    return program, peer


def start(programs: Programs, scheduler: FakeScheduler, **environment: str) -> tuple[Program, LibraryConnection]:
    """A client that holds lock 1 and has used the legacy stream of its context."""
    program, peer = start_new(programs, scheduler, **environment)
    program.do("spin 1 4000")  # enough for the fast path to be the usual one
    program.do("sync")
    return program, peer


def legacy(program: Program) -> None:
    program.do(f"spin {KERNEL_US} 12")


def blocking_stream(program: Program) -> None:
    program.do("stream 0")
    program.do(f"spin {KERNEL_US} 1 1")


def non_blocking_stream(program: Program) -> None:
    program.do("stream 1")
    program.do(f"spin {KERNEL_US} 1 1")


def destroyed_stream(program: Program) -> None:
    program.do("stream 1")
    program.do(f"spin {KERNEL_US} 1 1")
    program.do("streamdestroy 0")


def many_destroyed_streams(program: Program) -> None:
    program.do(f"churn 600 {KERNEL_US}")  # the last one computes, the others have finished


def per_thread_stream(program: Program) -> None:
    program.do(f"spinptds {KERNEL_US}")


def second_context(program: Program) -> None:
    program.do("init 0")
    program.do(f"spin {KERNEL_US} 12")
    program.do("use 0")
    program.do("spin 1 1")


def primary_context(program: Program) -> None:
    program.do("retain 0")
    program.do(f"spin {KERNEL_US} 12")


def primary_context_with_another_reference(program: Program) -> None:
    program.do("retain 0")
    program.do(f"spin {KERNEL_US} 12")
    program.do("retain 0")
    program.do("releaseprimary 0")  # not the last reference


WAYS = [
    legacy,
    blocking_stream,
    non_blocking_stream,
    destroyed_stream,
    many_destroyed_streams,
    per_thread_stream,
    second_context,
    primary_context,
    primary_context_with_another_reference,
]


@pytest.mark.parametrize("submit", WAYS)
def test_a_drain_waits_for_work(on_card: Programs, scheduler: FakeScheduler, submit: object) -> None:
    assert callable(submit)
    program, peer = start(on_card, scheduler)
    began = time.monotonic()
    submit(program)
    peer.send(DropLock(0, 1, 10000, 1))
    assert peer.expect(LockReleased).lock == 1
    assert time.monotonic() - began > KERNEL_S - 0.05


def test_of_long_kernels_only_one_is_queued(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, _ = start_new(on_card, scheduler)
    submitted_ms = float(program.do(f"spin {KERNEL_US} 12")[0])
    assert submitted_ms > 1e3 * (11 * KERNEL_S - 0.1)  # eleven have finished, and the twelfth runs


@pytest.mark.parametrize("submit", WAYS)
def test_a_holder_with_work_under_way_is_not_idle(on_card: Programs, scheduler: FakeScheduler, submit: object) -> None:
    assert callable(submit)
    program, peer = start(on_card, scheduler)
    peer.send(Contended(0, True))
    peer.expect(Idle)  # the first one: nothing is reported while nobody waits
    began = time.monotonic()
    submit(program)
    peer.expect(Busy)
    peer.expect(Idle)
    assert time.monotonic() - began > KERNEL_S - 0.05


def test_a_primary_context_that_ended_has_nothing_to_drain(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(on_card, scheduler)
    program.do("retain 0")
    program.do(f"spin {KERNEL_US} 12")
    program.do("retain 0")
    program.do("releaseprimary 0")
    program.do("releaseprimary 0")
    program.do("use 0")
    peer.send(DropLock(0, 1, 10000, 1))
    assert peer.expect(LockReleased).lock == 1


def test_a_thread_at_the_gate_is_queued_by_the_release(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(on_card, scheduler)
    program.do("hold")
    peer.deliver(DropLock(0, 1, 10000, 1))
    program.say("spin 1 1")
    assert program.waits()
    assert peer.heard(LockReleased) == []
    program.process.send_signal(signal.SIGUSR1)  # the kernel ends
    assert peer.expect(LockReleased) == LockReleased(0, True, 1)
    asked = len(peer.heard(ReqLock))
    peer.send(LockOk(0, False, 2))
    assert program.answer()[0] == "0"
    assert len(peer.heard(ReqLock)) == asked


def test_a_scheduler_that_goes_in_the_middle_of_a_drain_leaves_the_lock_and_all_work(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(on_card, scheduler)
    program.do("hold")
    peer.deliver(DropLock(0, 1, 10000, 1))
    program.say("spin 1 1")
    assert program.waits()  # at the gate, behind the drain
    assert peer.heard(LockReleased) == []
    peer.close()
    assert program.answer()[0] == "0"  # nobody is left to give the lock to
    peer = scheduler.accept()
    register = peer.expect(Register)
    assert [(entry.state, entry.lock) for entry in register.entries] == [(ClaimState.HOLDING, 1)]
    peer.deliver(SchedOn(0, 1, 2), DropLock(0, 1, 10000, 1))
    assert peer.heard(LockReleased) == []
    program.do("flag 1")  # the kernel ends
    assert peer.expect(LockReleased) == LockReleased(0, False, 1)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 2))
    assert program.answer()[0] == "0"
    program.do("sync")
    program.finish()


def test_what_a_pool_keeps_is_charged_and_what_it_lets_go_is_not(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, _ = start(on_card, scheduler)
    address = int(program.do(f"async {GIB}")[0])
    free, total, _ = map(int, program.do("info"))
    assert total - free >= GIB
    program.do(f"freeasync {address}")
    program.do("sync")
    wait_until(lambda: program.do("info")[0] == str(total), what="the pool gives its memory back")


@pytest.mark.parametrize("how", ["graphalloc", "capturealloc"])
def test_a_graphs_memory_is_charged_when_it_becomes_executable(
    on_card: Programs, scheduler: FakeScheduler, how: str
) -> None:
    program, peer = start(on_card, scheduler)
    free = int(program.do("info")[0])
    program.do(f"{how} {GIB}")
    assert free - int(program.do("info")[0]) == GIB
    program.do("graphdestroy")
    assert int(program.do("info")[0]) == free
    peer.send(UpdateLimit(0, GIB // 2), Budget(0, 1, 0, GIB // 2, 0))
    wait_until(lambda: program.do("info")[1] == str(GIB // 2), what="the limit")
    assert program.ask(f"{how} {GIB}")[0] == str(OUT_OF_MEMORY)


def own_memory_kib(program: Program) -> int:
    """Anonymous memory that the process has touched."""
    status = Path(f"/proc/{program.process.pid}/status").read_text()
    return int(re.findall(r"RssAnon:\s*(\d+) kB", status)[0])


def test_thousands_of_streams_that_are_made_used_and_destroyed_leave_nothing_behind(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    """An event for each would be more than the driver has here; 100 bytes for each would be 1.5 MiB."""
    program, peer = start(on_card, scheduler, NVSHARE_SIM_MOST_EVENTS="600")
    program.do("onebyone 1000")
    before = own_memory_kib(program)
    program.do("onebyone 15000")
    if "NVSHARE_LIBRARY" not in os.environ:  # Sanitizers keep memory of their own for what was freed.
        assert own_memory_kib(program) - before < 512
    peer.send(DropLock(0, 1, 60_000, 1))
    assert peer.expect(LockReleased).lock == 1

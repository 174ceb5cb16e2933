"""A process that starts while the scheduler is away (docs/decisions/0010): only its allocations wait, for a bounded
time."""

import resource
from pathlib import Path

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import CHECKS, MIB, OUT_OF_MEMORY, Program, Programs
from nvshare.wire.messages import Budget, Register, SchedOn, UpdateLimit
from support.waiting import wait_until

LONG_MS = "60000"
"""Longer than a test waits for an answer: a command that waits for the scheduler would fail the test."""
SHORT_MS = "3000"
"""Long enough for a program to come from its first call to its first allocation."""
WAITS = "the first allocation waits for the scheduler"
ALONE = "this process allocates without it"
USED = 5
"""Standard input, output and error, and both ends of the library's wake-up."""


def start_alone(programs: Programs, **options: str) -> Program:
    """A program that has found that there is no scheduler."""
    program = programs.start(**{"NVSHARE_JOIN_MS": LONG_MS, "NVSHARE_RECONNECT_MS": "50", **options})
    program.do("init 0")
    wait_until(lambda: "running unshared" in program.said(), "it finds no scheduler")
    return program


def test_an_allocation_waits_for_the_scheduler_and_keeps_the_limit_that_it_sets(
    programs: Programs, tmp_path: Path
) -> None:
    program = start_alone(programs)
    program.say(f"alloc {2 * MIB}")
    assert program.waits()
    with FakeScheduler(tmp_path / "scheduler.sock") as scheduler:
        peer = scheduler.accept()
        peer.expect(Register)
        peer.send(UpdateLimit(0, MIB), Budget(0, 1, 0, MIB, 0), SchedOn(0, 2, 1))
        assert program.answer()[0] == str(OUT_OF_MEMORY)
        program.do(f"alloc {MIB}")
    assert program.said().count(WAITS) == 1
    assert ALONE not in program.said()


def test_a_socket_where_nobody_listens_is_a_scheduler_that_is_away(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    scheduler.die()
    program = start_alone(programs)
    program.say(f"alloc {MIB}")
    assert program.waits()
    with FakeScheduler(scheduler.path) as another:
        another.welcome()
        assert program.answer()[0] == "0"


def test_work_and_questions_about_memory_do_not_wait(programs: Programs) -> None:
    program = start_alone(programs)
    program.do("spin 1 100")
    program.do("info")
    assert WAITS not in program.said()


def test_nobody_waits_longer_than_the_bound_and_two_lines_say_what_happens(programs: Programs) -> None:
    program = programs.start(NVSHARE_JOIN_MS=SHORT_MS)
    program.say(f"init 0\nhammer 4 1 {MIB}")  # four threads allocate, without waiting for the test
    assert [program.answer()[0] for _ in range(2)] == ["0", "0"]
    assert program.said().count(WAITS) == 1
    assert program.said().count(ALONE) == 1


def test_where_nvshare_is_not_installed_nobody_waits(programs: Programs, tmp_path: Path) -> None:
    program = start_alone(programs, NVSHARE_SOCKET=str(tmp_path / "none" / "scheduler.sock"))
    program.do(f"alloc {MIB}")
    assert WAITS not in program.said()


def test_a_process_that_has_no_descriptor_left_waits_for_the_scheduler(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    command = f"ulimit -Sn {USED}; exec {CHECKS / 'lib_client'} dlsym"
    program = programs.start("sh", "-c", command, NVSHARE_JOIN_MS=LONG_MS, NVSHARE_RECONNECT_MS="50")
    program.do("init 0")
    wait_until(lambda: "Too many open files" in program.said(), "it cannot connect")
    program.say(f"alloc {2 * MIB}")
    assert program.waits()
    _, most = resource.prlimit(program.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(program.process.pid, resource.RLIMIT_NOFILE, (most, most))
    peer = scheduler.accept()
    peer.expect(Register)
    peer.send(UpdateLimit(0, MIB), Budget(0, 1, 0, MIB, 0), SchedOn(0, 2, 1))
    assert program.answer()[0] == str(OUT_OF_MEMORY)
    assert ALONE not in program.said()


def test_a_forked_child_waits_for_the_scheduler_too(programs: Programs) -> None:
    program = programs.start(NVSHARE_JOIN_MS=SHORT_MS)
    program.say("init 0\nfork")  # the child allocates, the parent does not
    wait_until(lambda: ALONE in program.said(), "the child has waited")
    assert program.said().count(WAITS) == 1

"""NVSHARE_GPU_CORE_LIMIT: what the library tells the scheduler."""

from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.machine import Machine
from libnvshare.programs import GIB, Program, Programs
from nvshare.wire.messages import PROTOCOL_VERSION, CoreLimit, MemUpdate, Register, SchedOn
from support.waiting import wait_until


def start(programs: Programs, scheduler: FakeScheduler, limit: str) -> tuple[Program, LibraryConnection]:
    program = programs.start(NVSHARE_GPU_CORE_LIMIT=limit)
    program.say("init 0")
    peer = scheduler.accept()
    peer.expect(Register)
    peer.send(SchedOn(0, PROTOCOL_VERSION, 1))
    program.answer()
    return program, peer


def test_the_environments_core_limit_is_told_to_the_scheduler(programs: Programs, scheduler: FakeScheduler) -> None:
    _, peer = start(programs, scheduler, "30%")
    assert peer.expect(CoreLimit) == CoreLimit(0, 30)


@pytest.mark.parametrize("bad", ["0", "101", "2.5", "-5", "a third", ""])
def test_a_bad_core_limit_is_no_limit_and_is_said_once(programs: Programs, scheduler: FakeScheduler, bad: str) -> None:
    program, peer = start(programs, scheduler, bad)
    program.do(f"alloc {GIB}")
    peer.expect(MemUpdate)
    assert not any(isinstance(message, CoreLimit) for message in peer.seen)
    line = f'NVSHARE_GPU_CORE_LIMIT="{bad}" is not understood and is ignored; allowed: a whole percentage from 1 to 100'
    assert program.said().count(line) == 1


def test_each_scheduler_limits_the_program_as_its_environment_wants(tmp_path: Path) -> None:
    def limits() -> list[int]:
        return [client["core_limit_percent"] for client in machine.clients()]

    with Machine(tmp_path) as machine:
        machine.client(NVSHARE_GPU_CORE_LIMIT="30")
        wait_until(lambda: limits() == [30], "the limit is known")
        machine.restart()
        wait_until(lambda: limits() == [30], "the next scheduler knows it too")

"""Programs whose cgroup has too little memory for what they have on the GPU: real processes under the real scheduler.

The scheduler reads cgroups from a directory of the test, in which these processes have a limit."""

import signal
from pathlib import Path

import pytest

from libnvshare.machine import Machine
from libnvshare.movers import FOREVER
from libnvshare.programs import CHECKS, GIB, MIB, OUT_OF_MEMORY, Program
from nvshare.scheduler.sources.cgroup_memory import MARGIN
from support.cgroup_files import HostLimit
from support.waiting import wait_until

FIXED_1S = ("--switch-time-mode=fixed", "--switch-time-fixed=1")


def machine_with(place: Path, host: HostLimit) -> Machine:
    return Machine(place, "--host-memory=on", "--long-wait-seconds=1", f"--cgroup-root={host.root}", memory="4Gi")


def shortfalls(machine: Machine) -> list[int]:
    return [client["host_shortfall_bytes"] for client in machine.clients()]


def test_a_client_that_would_evict_what_the_host_cannot_take_waits_and_can_read_why(tmp_path: Path) -> None:
    host = HostLimit(tmp_path / "cgroup")
    host.set(600 * MIB)
    with machine_with(tmp_path, host) as machine:
        first, second = machine.client(2 * GIB), machine.client(2 * GIB - 64 * MIB)
        first.do("spin 1000 1")
        missing = 2 * GIB - (600 * MIB - HostLimit.USED - MARGIN)
        wait_until(lambda: shortfalls(machine) == [missing, 0], what="the scheduler knows what the host lacks")
        second.say("spin 1000 1")
        wait_until(lambda: machine.clients()[1]["state"] == "blocked", what="the other waits")
        story = machine.daemon.ctl("story", str(machine.clients()[1]["id"]))
        assert "the host has no room for 1.64 GiB of lib_client" in story
        machine.daemon.log.wait_for(f"Set its memory limit to at least {(600 * MIB + missing) // MIB}Mi")
        wait_until(
            lambda: "there is too little host memory for the GPU memory of lib_client" in second.said(),
            what="it says so",
        )
        assert "the host has no room for 1.64Gi of its GPU memory" in machine.daemon.ctl("status")
        host.set(8 * GIB)
        assert second.answer(60)[0] == "0"
        assert machine.overlaps() == []


@pytest.mark.parametrize("is_counted", [False, True])
def test_a_program_with_too_little_host_memory_is_killed_when_others_run_and_not_if_that_counts(
    tmp_path: Path, is_counted: bool
) -> None:
    host = HostLimit(tmp_path / "cgroup")
    host.set(600 * MIB)
    options = ("--host-memory=on", f"--cgroup-root={host.root}") if is_counted else ("--host-memory=off",)
    with Machine(tmp_path, *options, *FIXED_1S, memory="4Gi") as machine:
        first = machine.client(2 * GIB, NVSHARE_SIM_HOST_MEMORY=str(600 * MIB - HostLimit.USED))
        second = machine.client(5 * GIB // 2)
        first.do("spin 1000 1")
        first.do("sync", timeout=60)
        second.say("spin 1000 1")
        if is_counted:
            wait_until(lambda: machine.clients()[1]["state"] == "blocked", what="the other waits")
            first.do("spin 1000 1", timeout=60)
            first.do("sync", timeout=60)
            first.finish()
            assert second.answer(60)[0] == "0"
        else:
            assert second.answer(60)[0] == "0"
            assert first.process.wait(60) == -signal.SIGKILL


def test_if_the_room_falls_while_a_lock_is_dropped_nobody_is_killed(tmp_path: Path) -> None:
    """Neither by moving out what it was asked for before, nor by the turn of the other."""
    host = HostLimit(tmp_path / "cgroup")
    host.set(8 * GIB)
    size, room = 3 * GIB // 2, (600 * MIB - HostLimit.USED - MARGIN) // 2
    options = ("--host-memory=on", f"--cgroup-root={host.root}", "--grace-seconds=600")
    with Machine(tmp_path, *options, *FIXED_1S, memory="3Gi") as machine:
        first, second = machine.client(), machine.client(NVSHARE_SIM_HOST_MEMORY=str(300 * MIB))
        there, here = (int(one.do(f"alloc {size}")[0]) for one in (first, second))
        first.do(f"touch {there} {size}")
        second.do(f"touch {here} {size}", timeout=60)
        second.do("hold")
        first.say(f"touch {there} {size}")
        wait_until(lambda: machine.clients()[1]["state"] == "dropping", "the lock is dropped", 60)
        host.set(600 * MIB)
        wait_until(lambda: machine.clients()[0]["state"] == "blocked", "the other is blocked", 60)
        second.do("flag 1")
        ended = lambda: second.process.poll() is not None or machine.clients()[1]["moved"]["out_bytes"]  # noqa: E731
        wait_until(ended, "it has moved out what the host can take", 60)
        assert second.process.poll() is None
        assert machine.clients()[1]["moved"]["out_bytes"] <= room
        assert [client["state"] for client in machine.clients()] == ["blocked", "idle"]
        second.do(f"touch {here} {size}", timeout=60)  # its memory is on the card: it may run
        second.finish()
        assert first.answer(60)[0] == "0"


def test_with_card_and_host_full_an_allocation_is_refused_and_nobody_ends(tmp_path: Path) -> None:
    host = HostLimit(tmp_path / "cgroup")
    host.set(600 * MIB)
    with machine_with(tmp_path, host) as machine:
        first, second = machine.client(2 * GIB), machine.client()
        first.do("spin 1000 1")
        wait_until(lambda: max(shortfalls(machine)) > 0, what="the scheduler knows what the host lacks")
        wait_until(lambda: int(second.do("info")[0]) < 2 * GIB, what="the program is told what the card has for it")
        assert second.ask(f"alloc {2 * GIB}")[0] == str(OUT_OF_MEMORY)
        assert "was refused: the card has 1108 MiB for this program, 0 MiB of them in use" in second.said()
        second.do(f"alloc {GIB}")
        second.do("spin 1000 1", timeout=60)
        for program in (first, second):
            program.do("sync", timeout=60)


@pytest.mark.parametrize("is_counted", [False, True])
def test_of_three_programs_the_one_with_too_little_host_memory_lives_while_the_others_take_turns(
    tmp_path: Path, is_counted: bool
) -> None:
    """The driver would evict the oldest memory, that of the program that pauses: it must find free memory."""
    host = HostLimit(tmp_path / "cgroup")
    options = ("--host-memory=on", f"--cgroup-root={host.root}") if is_counted else ("--host-memory=off",)
    with host.of_its_own("nvshare-three") as own, Machine(tmp_path, *options, *FIXED_1S, memory="4Gi") as machine:
        own.set(600 * MIB)
        room = {"NVSHARE_SIM_HOST_MEMORY": str(600 * MIB - HostLimit.USED)}
        sizes = [3 * GIB // 2, 1200 * MIB, 1200 * MIB]
        programs = [machine.start(CHECKS / "lib_mover", **room if not i else {}) for i in range(3)]
        own.add(programs[0].process.pid)
        for program in programs:
            program.do("init")
        first, *others = (
            (program, int(program.do(f"alloc {size}")[0]), size) for program, size in zip(programs, sizes, strict=True)
        )
        touch(*first)
        if is_counted:
            wait_until(lambda: shortfalls(machine)[0] > GIB, what="the scheduler knows what the host lacks")
        for program, address, size in others:
            program.say(f"touch {address} {size} {FOREVER}")
        process = programs[0].process

        def is_over() -> bool:
            return process.poll() is not None or min(client["turns"] for client in machine.clients()[1:]) >= 5

        wait_until(is_over, "the others have had some turns, or the first one is dead", 60)
        if is_counted:
            assert process.poll() is None
            assert machine.overlaps() == []
            touch(*first)
        else:
            assert process.wait(60) == -signal.SIGKILL


def touch(program: Program, address: int, size: int) -> None:
    program.do(f"touch {address} {size} 1", timeout=60)

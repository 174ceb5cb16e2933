"""Programs that use little of what they allocate, on simulated cards under the real scheduler."""

from pathlib import Path

from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, GIB, MIB, Program
from support.waiting import wait_until

ARENA = 12 * GIB
USED = 2 * GIB


def arena(machine: Machine, **environment: str) -> tuple[Program, int]:
    """A program that has allocated an arena; its address."""
    started = machine.start(CHECKS / "lib_mover", **environment)
    started.do("init")
    return started, int(started.do(f"alloc {ARENA}")[0])


def working_sets(machine: Machine) -> list[int | None]:
    return [client["working_set_bytes"] for client in machine.clients()]


def test_a_program_reports_what_it_has_used_of_its_arena(tmp_path: Path) -> None:
    with Machine(tmp_path, touch="stream") as machine:
        one, address = arena(machine)
        wait_until(lambda: working_sets(machine) == [0], "nothing is used yet")
        one.do(f"set {address} {USED}")
        one.do(f"touch {address} {USED} 1")
        wait_until(lambda: working_sets(machine) == [USED], "what was set is used")


def test_small_allocations_are_used_from_the_start(tmp_path: Path) -> None:
    with Machine(tmp_path) as machine:
        one, _ = arena(machine)
        one.do(f"alloc {200 * MIB}")
        wait_until(lambda: working_sets(machine) == [200 * MIB], "it will be used soon")


def test_without_evidence_nothing_is_reported(tmp_path: Path) -> None:
    with Machine(tmp_path, touch="stream") as machine:
        one, address = arena(machine, NVSHARE_PREFETCH="0")
        one.do(f"touch {address} {USED} 3")
        assert working_sets(machine) == [None]


def test_a_scheduler_that_restarts_learns_it_again(tmp_path: Path) -> None:
    with Machine(tmp_path, touch="stream") as machine:
        one, address = arena(machine)
        one.do(f"set {address} {USED}")
        wait_until(lambda: working_sets(machine) == [USED], "what was set is used")
        machine.restart()
        wait_until(lambda: working_sets(machine) == [USED], "it is told again")

"""Memory that a program allocates in stream order can be evicted where the driver has managed pools."""

from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, GIB, MIB, OUT_OF_MEMORY, Program, Programs
from nvshare.wire.messages import MemUpdate, UpdateLimit
from support.waiting import wait_until

CUDA_12 = {"NVSHARE_SIM_CUDA_VERSION": "12080"}
SIZE = 5 * GIB
FOREVER = 1_000_000


def test_memory_of_the_default_pool_is_swappable_until_the_pool_returns_it(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program = on_card.start()
    peer = scheduler.join(program)
    address = program.do(f"async {GIB}")[0]
    before = peer.expect(MemUpdate, such=lambda m: m.swappable == GIB)
    program.do(f"freeasync {address}")
    program.do("sync")  # the pool returns what nobody uses
    program.do("info")
    after = peer.expect(MemUpdate, such=lambda m: m.swappable == 0)
    assert after.unswappable == before.unswappable


@pytest.mark.parametrize("environment", [CUDA_12, {"NVSHARE_MEMORY_MODE": "native"}], ids=["CUDA 12", "native mode"])
def test_without_managed_pools_such_memory_stays_native(
    on_card: Programs, scheduler: FakeScheduler, environment: dict[str, str]
) -> None:
    program = on_card.start(**environment)
    peer = scheduler.join(program)
    program.do(f"async {GIB}")
    assert peer.expect(MemUpdate, such=lambda m: m.unswappable >= GIB).swappable == 0


def test_the_limit_counts_memory_of_a_managed_pool(on_card: Programs, scheduler: FakeScheduler) -> None:
    program = on_card.start()
    peer = scheduler.join(program)
    peer.deliver(UpdateLimit(0, 64 * MIB))
    program.do(f"async {32 * MIB}")
    assert program.ask(f"async {64 * MIB}")[0] == str(OUT_OF_MEMORY)


def test_the_default_pool_shows_what_the_pool_that_stands_in_has(on_card: Programs, scheduler: FakeScheduler) -> None:
    """A release threshold that was set before is kept: the memory stays reserved after it was freed."""
    program = on_card.start()
    scheduler.join(program)
    program.do(f"threshold {GIB}")
    address = program.do(f"async {32 * MIB}")[0]
    assert program.do("poolinfo") == [str(32 * MIB), str(32 * MIB)]
    program.do(f"freeasync {address}")
    program.do("sync")
    assert program.do("poolinfo") == [str(32 * MIB), "0"]
    program.do("trim")
    assert program.do("poolinfo") == ["0", "0"]


def test_flags_of_reuse_that_were_set_before_the_first_allocation_are_kept(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program = on_card.start()
    scheduler.join(program)
    program.do("reuse 2 0")
    assert program.do("reuses") == ["1", "0", "1"]
    program.do(f"async {32 * MIB}")
    assert program.do("reuses") == ["1", "0", "1"]
    program.do("reuse 3 0")
    assert program.do("reuses") == ["1", "0", "0"]


def start(machine: Machine, **environment: str) -> tuple[Program, list[str]]:
    program = machine.start(CHECKS / "lib_mover", **environment)
    program.do("init")
    return program, program.ask(f"allocasync {SIZE}")


def test_two_programs_whose_memory_is_all_from_pools_take_turns(tmp_path: Path) -> None:
    """They do not fit on the card together. Their memory moves in bulk at a switch."""
    with Machine(tmp_path, "--switch-time-mode=fixed", "--switch-time-fixed=1", memory="8Gi") as machine:
        for program, (result, address) in (start(machine), start(machine)):
            assert result == "0"
            program.say(f"touch {address} {SIZE} {FOREVER}")

        def both_have_moved() -> bool:
            moved = [client["moved"] for client in machine.clients()]
            return len(moved) == 2 and all(one["in_bytes"] and one["out_bytes"] for one in moved)

        wait_until(both_have_moved, "both have moved memory both ways", 60)


def test_on_an_older_driver_the_second_one_gets_no_memory(tmp_path: Path) -> None:
    with Machine(tmp_path, memory="8Gi") as machine:
        (one, first), (other, second) = start(machine, **CUDA_12), start(machine, **CUDA_12)
        assert (first[0], second[0]) == ("0", str(OUT_OF_MEMORY))
        assert [program.said().count("backend:native") for program in (one, other)] == [0, 1], "it names the setting"


def test_a_second_program_with_mapped_memory_is_told_what_to_set(tmp_path: Path) -> None:
    with Machine(tmp_path, memory="8Gi") as machine:
        one, other = machine.client(), machine.client()
        one.do(f"create {5 << 30}")
        for _ in range(2):
            assert other.ask(f"create {5 << 30}")[0] == str(OUT_OF_MEMORY)
        assert [program.said().count("expandable_segments:False") for program in (one, other)] == [0, 1]

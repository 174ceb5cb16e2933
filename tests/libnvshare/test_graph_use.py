"""Programs that use their memory by graphs alone: a launch names no memory, the nodes of the graph do."""

from pathlib import Path

import pytest

from libnvshare.machine import Machine
from libnvshare.programs import CHECKS, GIB, MIB, Program
from nvshare.simgpu.trace import Kind
from support.waiting import wait_until

ARENA = 12 * GIB
USED = 2 * GIB
MORE = 256 * MIB
FOREVER = 1_000_000


def arena(machine: Machine) -> tuple[Program, int]:
    """A program with an arena of which it has used a part; its address."""
    started = machine.start(CHECKS / "lib_mover")
    started.do("init")
    address = int(started.do(f"alloc {ARENA}")[0])
    started.do(f"set {address} {USED}")
    wait_until(lambda: working_sets(machine) == [USED], "what was set is used")
    return started, address


def working_sets(machine: Machine) -> list[int | None]:
    return [client["working_set_bytes"] for client in machine.clients()]


def with_array_at(place: int) -> int:
    """The working set of an arena whose first part is used, and an array at this place, as long as the gap below it."""
    return place + 2 * MIB + place - USED


def await_use(machine: Machine, expected: int) -> None:
    wait_until(lambda: working_sets(machine) == [expected], "the scheduler knows what the graph uses")


def test_a_captured_graph_leaves_the_working_set_known(tmp_path: Path) -> None:
    with Machine(tmp_path, touch="stream") as machine:
        one, address = arena(machine)
        one.do(f"capture {address} {USED}")
        one.do("replay 3")
        one.do(f"alloc {MORE}")  # it is looked at again; nothing is known of this one, so it counts in full
        await_use(machine, USED + MORE)


@pytest.mark.parametrize("how", ["build", "nest"])
def test_a_launch_uses_what_the_kernels_of_the_graph_point_to(tmp_path: Path, how: str) -> None:
    with Machine(tmp_path, touch="stream") as machine:
        one, address = arena(machine)
        if how == "nest":
            one.do("nest")
        one.do(f"build {address + 4 * GIB} {GIB}")
        one.do("replay 3")
        await_use(machine, with_array_at(4 * GIB))


KERNEL, ANY_NODE, GRAPH, CHILD = range(4)


@pytest.mark.parametrize(
    ("call", "nested"), [(KERNEL, False), (ANY_NODE, False), (GRAPH, False), (GRAPH, True), (CHILD, True)]
)
def test_an_instance_that_was_changed_uses_what_its_new_parameters_point_to(
    tmp_path: Path, call: int, nested: bool
) -> None:
    with Machine(tmp_path, touch="stream") as machine:
        one, address = arena(machine)
        if nested:
            one.do("nest")
        one.do(f"build {address} {USED}")
        one.do("replay 1")
        one.do(f"retarget {address + 5 * GIB} {GIB} {call}")
        one.do("replay 1")
        await_use(machine, with_array_at(5 * GIB))


def test_of_a_graph_that_cannot_be_read_nothing_is_known(tmp_path: Path) -> None:
    with Machine(tmp_path, touch="stream") as machine:
        one, _ = arena(machine)
        one.do("unreadable")
        one.do("replay 1")
        wait_until(lambda: working_sets(machine) == [None], "the working set is not known")


def test_a_graph_that_was_destroyed_is_forgotten(tmp_path: Path) -> None:
    """The driver gives its handle to the next one."""
    with Machine(tmp_path, touch="stream") as machine:
        one, address = arena(machine)
        for _ in range(3):
            one.do("unreadable")
            one.do("forget")
        one.do(f"build {address + 4 * GIB} {GIB}")
        one.do("replay 1")
        await_use(machine, with_array_at(4 * GIB))


def both_have_moved(machine: Machine) -> bool:
    moved = [client["moved"] for client in machine.clients()]
    return len(moved) == 2 and all(one["in_bytes"] and one["out_bytes"] for one in moved)


def test_what_a_graph_uses_moves_in_bulk_at_a_switch(tmp_path: Path) -> None:
    """Nothing but launches of graphs shows that the programs use their memory."""
    size = 5 * GIB
    with Machine(tmp_path, "--switch-time-mode=fixed", "--switch-time-fixed=1", memory="8Gi") as machine:
        for _ in range(2):
            one = machine.start(CHECKS / "lib_mover")
            one.do("init")
            address = int(one.do(f"alloc {size}")[0])
            one.do(f"build {address} {size}")
            one.say(f"replay {FOREVER}")
        wait_until(lambda: both_have_moved(machine), "both have moved memory both ways", 60)
        for trace in machine.traces():
            assert {record.detail for record in trace.of_kind(Kind.PREFETCH)} == {0, 1}

"""Programs that use little of what they allocate, on simulated cards under the real scheduler."""

import re
from pathlib import Path

from libnvshare.machine import Looked, Machine
from libnvshare.programs import CHECKS, GIB, MIB, Program
from nvshare.simgpu.trace import Kind
from support.waiting import wait_until

ARENA = 12 * GIB
USED = 2 * GIB


def program_with(machine: Machine, size: int, **environment: str) -> tuple[Program, int]:
    """A program with one allocation; its address."""
    started = machine.start(CHECKS / "lib_mover", **environment)
    started.do("init")
    return started, int(started.do(f"alloc {size}")[0])


def arena(machine: Machine, **environment: str) -> tuple[Program, int]:
    return program_with(machine, ARENA, **environment)


def moved(machine: Machine) -> list[tuple[int, int]]:
    """Bytes that each client moved out and in."""
    return [(one["moved"]["out_bytes"], one["moved"]["in_bytes"]) for one in machine.clients()]


def working_sets(machine: Machine) -> list[int | None]:
    return [client["working_set_bytes"] for client in machine.clients()]


def test_a_program_reports_what_it_has_used_of_its_arena(tmp_path: Path) -> None:
    with Machine(tmp_path, touch="stream") as machine:
        one, address = arena(machine)
        wait_until(lambda: working_sets(machine) == [ARENA], "nothing is known of it yet")
        one.do(f"set {address} {USED}")
        one.do(f"touch {address} {USED} 1")
        wait_until(lambda: working_sets(machine) == [USED], "what was set is used")


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


FOREVER = 1_000_000
OPTIONS = ("--switch-time-mode=fixed", "--switch-time-fixed=1")


def causes(machine: Machine) -> set[str]:
    """Why locks were taken back."""
    return set(re.findall(r"taken back \((\w+)\)", machine.daemon.log.text))


def states(machine: Machine) -> list[str]:
    return [client["state"] for client in machine.clients()]


def use(program: Program, address: int, machine: Machine, used: int) -> None:
    """The last program shows that it has an arena of which it uses a part."""
    program.do(f"set {address} {used}", timeout=60)
    wait_until(lambda: working_sets(machine)[-1] == used, "the scheduler knows it")


def two_arenas(machine: Machine, used: int) -> list[tuple[Program, int]]:
    """The second takes a turn first, because nothing is known of it. From then on both run."""
    both = []
    for _ in range(2):
        program, address = arena(machine)
        use(program, address, machine, used)
        both.append((program, address))
    both[0][0].do(f"touch {both[0][1]} 1 1", timeout=60)
    wait_until(lambda: states(machine) == ["running"] * 2, "both run", 60)
    return both


def test_two_arenas_of_which_little_is_used_run_side_by_side_and_nothing_moves(tmp_path: Path) -> None:
    with Machine(tmp_path, *OPTIONS, touch="stream") as machine:
        both = two_arenas(machine, USED)
        turns = [client["turns"] for client in machine.clients()]
        for one, address in both:
            one.say(f"touch {address} {USED} 3000")
        for one, _ in both:
            one.answer(timeout=60)
        assert states(machine) == ["running"] * 2
        assert [client["turns"] for client in machine.clients()] == turns
        assert [trace.of_kind(Kind.PREFETCH) for trace in machine.traces()] == [[], []]


def test_an_arena_of_which_little_is_used_costs_little_on_the_card_and_on_the_host(tmp_path: Path) -> None:
    """Two others need more than the card has, so that as much as possible moves out at each switch. If the arena took
    more than was used of it on the host, its program would be killed."""
    size, others, host = 15 * GIB, 20 * GIB, USED + 64 * MIB
    with Looked(tmp_path, *OPTIONS, memory="24Gi", touch="stream") as machine:
        one, address = program_with(machine, size, NVSHARE_SIM_HOST_MEMORY=str(host))
        one.do(f"set {address} {USED}", timeout=60)
        one.say(f"touch {address} {USED} {FOREVER}")
        big = [program_with(machine, others) for _ in range(2)]
        for other, there in big:
            other.say(f"touch {there} {others} {FOREVER}")
        wait_until(lambda: min(moved(machine)[0]) >= 2 * USED, "it moved out and in, twice", 60)
        for other, _ in big:
            other.process.kill()
        wait_until(lambda: [client["state"] for client in machine.clients()] == ["running"], "it is alone", 60)
        wait_until(lambda: machine.used() == USED, "the card has what it uses", 60)
        assert one.process.poll() is None, one.said()
        (trace,) = (trace for trace in machine.traces() if trace.pid == one.process.pid)
        touched = {record.address for record in trace.of_kind(Kind.PREFETCH)}
        assert min(touched) >= address
        assert max(touched) < address + USED


def test_when_both_begin_to_use_all_of_it_they_take_turns(tmp_path: Path) -> None:
    with Machine(tmp_path, *OPTIONS, touch="stream") as machine:
        both = two_arenas(machine, USED)
        for one, address in both:
            one.say(f"set {address} {ARENA}")
            one.say(f"touch {address} {ARENA} {FOREVER}")
        wait_until(lambda: sorted(states(machine)) == ["running", "waiting"], "they take turns", 60)
        assert "thrash" not in causes(machine)  # by what they say, and not by how slow they are
        turns = [client["turns"] for client in machine.clients()]
        wait_until(
            lambda: all(client["turns"] > had + 1 for client, had in zip(machine.clients(), turns, strict=True)),
            "they go on taking turns",
            60,
        )


def test_a_program_that_uses_more_than_it_says_is_sent_back(tmp_path: Path) -> None:
    """Its kernels have no pointers among their parameters, and touch all of its memory."""
    with Machine(tmp_path, *OPTIONS, scale=1, fault_bandwidth="40G", evict_bandwidth="80G") as machine:
        (one, _), (other, _) = two_arenas(machine, 2 * MIB)
        one.say(f"spin 100 {FOREVER}")
        held = machine.clients()[0]["held_seconds"]
        wait_until(lambda: machine.clients()[0]["held_seconds"] > held + 3, "its pace is known", 60)
        other.say(f"spin 100 {FOREVER}")
        wait_until(lambda: "thrash" in causes(machine), "one is sent back", 60)
        wait_until(lambda: sorted(states(machine)) == ["running", "waiting"], "they take turns", 60)

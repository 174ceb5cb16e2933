"""A context that is being destroyed: the driver has freed its memory, and other threads are given that memory."""

from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.loads import Pipe
from libnvshare.programs import MIB, Program, Programs
from libnvshare.test_memory import used
from libnvshare.test_moves_in_contexts import each_order, moves, uses_memory
from nvshare.wire.messages import Message
from support.waiting import wait_until

WAYS = {"destroy 0": [], "greendestroy 0": ["green 0", "usegreen"], "releaseprimary 0": ["retain 0"]}


def has_address_of_a_dying_context(program: Program, pipe: Pipe, kind: str, end: str) -> str:
    """Allocates in the context that is current, ends that in another thread, and is given the address in a new one."""
    (address, _) = program.do(f"{kind} {64 * MIB}")
    program.do("init 0")
    program.say(f"aside-{end}")
    wait_until(pipe.is_read, "the driver has freed the memory")
    assert program.do(f"{kind} {64 * MIB}")[0] == address
    pipe.let_end()
    assert program.answer() == ["0"]
    return address


@pytest.mark.parametrize("kind", ["alloc", "managed"])
@pytest.mark.parametrize("end", WAYS)
def test_memory_that_has_the_address_of_a_dying_contexts_is_counted_once(
    on_card: Programs, scheduler: FakeScheduler, tmp_path: Path, kind: str, end: str
) -> None:
    with Pipe(tmp_path / "end") as pipe:
        program = on_card.start(NVSHARE_SIM_CONTEXT_END=str(pipe.path))
        scheduler.join(program)
        for command in WAYS[end]:
            program.do(command)
        address = has_address_of_a_dying_context(program, pipe, kind, end)
        assert used(program) == 64 * MIB
        program.do(f"free {address}")
        assert used(program) == 0
        program.finish()


@each_order
def test_memory_moves_in_another_context_while_one_is_being_destroyed(
    on_card: Programs, scheduler: FakeScheduler, tmp_path: Path, order: Message
) -> None:
    with Pipe(tmp_path / "end") as pipe:
        program = on_card.start(NVSHARE_SIM_CONTEXT_END=str(pipe.path))
        peer = scheduler.join(program)
        program.do("init 0")
        uses_memory(program, peer, 1)
        program.say("aside-destroy 0")
        wait_until(pipe.is_read, "the driver destroys a context")
        moves(peer, order)
        pipe.let_end()
        assert program.answer() == ["0"]
        program.finish()

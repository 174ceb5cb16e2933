"""Memory moves in a context of the program: in one as long as it lives, never with the streams of an earlier one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from libnvshare.conftest import own_socket
from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.loads import INVALID_IMAGE, Load
from libnvshare.programs import MIB, Program, Programs
from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.trace import Kind, read_traces
from nvshare.wire.messages import (
    DropLock,
    KeepOnHost,
    LockOk,
    LockReleased,
    Message,
    MoveOut,
    OnHost,
    ReqLock,
    RoomMade,
)

SIZE = 64 * MIB
ANSWERS: dict[type[Message], type[Message]] = {MoveOut: RoomMade, KeepOnHost: OnHost}


@pytest.fixture
def on_cards(tmp_path: Path) -> Iterator[Programs]:
    """Two cards whose driver ends a program that uses a destroyed handle."""
    (tmp_path / "gpus").mkdir()
    cards = SimGpu().with_values(
        directory=str(tmp_path / "gpus"), gpus=2, memory="16Gi", scale=0.01, trace=1, stale_handles="crash"
    )
    with Programs(tmp_path, {**cards.environment({}), **own_socket(tmp_path)}) as started:
        yield started


def uses_memory(program: Program, peer: LibraryConnection, lock: int) -> None:
    """Allocates, uses the memory in a turn, and gives the lock back."""
    (address, _) = program.do(f"alloc {SIZE}")
    program.say(f"touch {address} {SIZE}")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, lock))
    assert program.answer() == ["0"]
    program.do("sync")
    peer.send(DropLock(0, 1, 10_000, lock))
    assert peer.expect(LockReleased).lock == lock


def moves(peer: LibraryConnection, order: Message) -> None:
    peer.send(order)
    peer.expect(ANSWERS[type(order)])
    if isinstance(order, KeepOnHost):
        peer.send(KeepOnHost(0, 0))
        assert peer.expect(OnHost).held == 0


def streams(programs: Programs) -> set[int]:
    """Those that memory moved in."""
    traces = read_traces(programs.directory / "gpus")
    return {record.stream for trace in traces for record in trace.of_kind(Kind.PREFETCH)}


each_order = pytest.mark.parametrize("order", [MoveOut(0, 0, SIZE), KeepOnHost(0, SIZE)], ids=["move", "hold"])


@each_order
@pytest.mark.parametrize("end", ["releaseprimary 0", "unseenreset 0"])
def test_memory_moves_in_a_primary_context_that_was_reset_and_made_again(
    on_cards: Programs, scheduler: FakeScheduler, order: Message, end: str
) -> None:
    program = on_cards.start()
    program.say("retain 0")
    peer, _ = scheduler.welcome()
    program.answer()
    uses_memory(program, peer, 1)
    moves(peer, order)
    program.do(end)
    program.do("retain 0")
    uses_memory(program, peer, 2)
    moves(peer, order)
    program.finish()


@each_order
def test_memory_moves_in_one_context_as_long_as_it_lives(
    on_cards: Programs, scheduler: FakeScheduler, order: Message
) -> None:
    """Another context ends, and the library's list of them changes its order."""
    program = on_cards.start()
    program.say("init 1")
    peer, _ = scheduler.welcome()
    program.answer()
    program.do("init 0")
    program.do("init 0")
    uses_memory(program, peer, 1)
    moves(peer, order)
    program.do("destroy 0")
    moves(peer, order)
    assert len(streams(on_cards)) == 1
    program.finish()


@each_order
def test_memory_waits_for_a_context_that_may_end_instead_of_moving_in_another_one(
    on_cards: Programs, scheduler: FakeScheduler, tmp_path: Path, order: Message
) -> None:
    with Load(tmp_path, has_looks=False) as load:
        program = on_cards.start(**load.environment)
        program.say("retain 0")
        peer, _ = scheduler.welcome()
        program.answer()
        program.do("retain 0")
        program.do("init 0")
        uses_memory(program, peer, 1)
        moves(peer, order)
        load.begin(program)
        program.say("releaseprimary 0")  # one reference is left, but this is known only when the driver has answered
        assert program.waits()
        answers = len(peer.heard(ANSWERS[type(order)]))
        peer.deliver(order)
        assert len(peer.heard(ANSWERS[type(order)])) == answers
        load.let_end()
        assert sorted(program.answer() for _ in range(2)) == [["0"], [str(INVALID_IMAGE)]]
        peer.expect(ANSWERS[type(order)])
    assert len(streams(on_cards)) == 1
    program.finish()

"""A program in memory mode checkpoint, and a scheduler that suspends it."""

from pathlib import Path

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.programs import GIB, Program, Programs
from nvshare.wire.messages import DropLock, LockOk, LockReleased, Moved, ReqLock

CHECKPOINT = {"NVSHARE_MEMORY_MODE": "checkpoint"}


def start(
    on_card: Programs, scheduler: FakeScheduler, *command: str | Path, **environment: str
) -> tuple[Program, LibraryConnection, str]:
    """A program that has its first turn, and the address of a GiB that it has."""
    program = on_card.start(*command, **CHECKPOINT, **environment)
    program.say("init 0")
    peer, _ = scheduler.welcome()
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0", program.said()
    (address, *_) = program.do(f"alloc {GIB}")
    program.do(f"poke {address} 5")
    return program, peer, address


def suspend(peer: LibraryConnection, lock: int = 1) -> None:
    peer.send(DropLock(0, 1, 60000, lock))
    assert peer.expect(LockReleased).lock == lock
    assert [moved for moved in peer.heard(Moved) if moved.to_host]

"""What the library sends goes to the scheduler and to nobody else, and says nothing that it does not mean."""

import time
from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.programs import MIB, Program, Programs
from nvshare.wire.codec import encode
from nvshare.wire.messages import DropLock, LockOk, LockReleased, MemUpdate, ReqLock

SAFETY_NET_S = 4.0
"""Less than the time after which the helper looks by itself (helper/session.c)."""


def sockets(program: Program) -> dict[int, str]:
    """The library's sockets by number, which is high: both ends of its wake-up, then the connection."""
    fds = Path(f"/proc/{program.process.pid}/fd")
    high = sorted(int(fd.name) for fd in fds.iterdir() if int(fd.name) > 900)
    return {number: str((fds / str(number)).readlink()) for number in high}


def peer_after(scheduler: FakeScheduler, peer: LibraryConnection) -> LibraryConnection:
    """The connection that the library has now: the same one, or a new one if it noticed that the old one was lost."""
    try:
        peer.expect(MemUpdate, timeout=60, such=lambda update: update.swappable == MIB)
    except EOFError:
        peer, _ = scheduler.welcome(timeout=60)
    return peer


def turn_s(program: Program, peer: LibraryConnection, lock: int) -> float:
    """How long it takes until a program that wants a turn has asked for it."""
    began = time.monotonic()
    program.say("spin 1 1")
    peer.expect(ReqLock)
    took = time.monotonic() - began
    peer.send(LockOk(0, False, lock))
    assert program.answer()[0] == "0"
    peer.send(DropLock(0, 1, 1000, lock))
    peer.expect(LockReleased)
    return took


@pytest.mark.parametrize("which", [[0], [1], [2], [0, 1], [1, 2], [0, 1, 2]])
def test_a_program_that_puts_its_own_socket_over_ours_hears_nothing_and_is_served_on(
    programs: Programs, scheduler: FakeScheduler, which: list[int]
) -> None:
    program = programs.start()
    peer = scheduler.join(program)
    peer.deliver()
    ours = sockets(program)
    numbers = list(ours)
    assert len(ours) == 3
    for at in which:
        program.do(f"cover {numbers[at]} {numbers[at] + 1}")
    program.do(f"alloc {MIB}")
    peer = peer_after(scheduler, peer)
    assert max(turn_s(program, peer, lock) for lock in (1, 2, 3)) < SAFETY_NET_S  # each needs a wake-up of the helper
    peer.deliver()
    useless = ours[numbers[0]], ours[numbers[1]]  # one end without the other: a poll of it never waits
    assert which == [2] or not set(useless) & set(sockets(program).values())
    assert program.do("overheard") == ["0"]


def test_a_program_that_covers_every_descriptor_hears_nothing_and_is_joined_again(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program = programs.start()
    peer = scheduler.join(program)
    peer.deliver()  # it has joined: its first allocation does not wait for that
    program.do("cover 3 4096")
    program.do(f"alloc {MIB}")
    with pytest.raises(EOFError):
        peer.drain()
    program.do("closeall")  # or there is no number left for a new connection
    peer, register = scheduler.welcome(timeout=60)
    if not register.entries[0].swappable:  # it had joined again before the allocation
        assert peer.expect(MemUpdate).swappable == MIB


def test_every_byte_of_a_frame_is_meant(programs: Programs, scheduler: FakeScheduler) -> None:
    """A frame that is decoded and encoded again is the same: no stray byte of the program's memory is in it."""
    program = programs.start()
    program.say("init 0")
    peer, register = scheduler.welcome()
    program.answer()
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, True, 1))
    program.answer()
    program.do(f"alloc {MIB}")
    peer.expect(MemUpdate)
    peer.deliver(DropLock(0, 1, 1000, 1))
    peer.heard(LockReleased)
    assert peer.data == b"".join(encode(message) for message in peer.seen + peer.waiting)
    assert register in peer.seen

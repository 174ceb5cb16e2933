"""Memory mode checkpoint where no more threads can be started."""

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import Programs
from libnvshare.suspended import start, suspend
from nvshare.wire.messages import DropLock, LockOk, LockReleased, MemoryKind, MemoryMode, Moved, ReqLock
from support.waiting import wait_until


def test_a_program_that_can_start_no_thread_stays_on_the_card(on_card: Programs, scheduler: FakeScheduler) -> None:
    """The driver's calls could hang, and the helper must answer the scheduler."""
    program, peer, address = start(on_card, scheduler)
    program.do("refusethreads")
    peer.deliver(DropLock(0, 1, 60000, 1))
    assert peer.expect(LockReleased).lock == 1
    assert peer.heard(Moved) == []
    assert peer.heard(MemoryMode)[-1] == MemoryMode(0, MemoryKind.NOT_SUSPENDED)
    assert program.said().count("no thread can be started to suspend this process") == 1
    program.say(f"peek {address}")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 2))
    assert program.answer() == ["0", "5"]


def test_a_suspended_program_that_can_start_no_thread_comes_back(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer, address = start(on_card, scheduler)
    suspend(peer)
    wait_until(lambda: program.has_thread("nvshare-away"), "the thread waits for the way back")
    program.do("refusethreads")
    program.say(f"peek {address}")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 2))
    assert program.answer() == ["0", "5"]
    assert [moved.to_host for moved in peer.heard(Moved)] == [True, False]

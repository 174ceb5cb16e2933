"""The library's own threads start in programs that leave them little room."""

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import CHECKS, LIBRARY, Programs
from nvshare.wire.messages import DropLock, LockOk, LockReleased, ReqLock
from support.waiting import wait_until


def test_threads_start_in_a_program_with_much_thread_local_data(programs: Programs, scheduler: FakeScheduler) -> None:
    """More than a thread has as its stack by default (8 MiB)."""
    program = programs.start(LD_PRELOAD=f"{LIBRARY}:{CHECKS / 'liblarge_tls.so'}")
    peer = scheduler.join(program)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"
    peer.send(DropLock(0, 1, 1000, 1))
    assert peer.expect(LockReleased).lock == 1
    wait_until(lambda: program.has_thread("nvshare-deputy"), "the deputy has started for the drain")
    assert program.said() == ""

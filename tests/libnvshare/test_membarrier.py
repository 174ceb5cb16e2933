"""A program that may not use membarrier from some point on: each thread executes a fence instead."""

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import Programs
from nvshare.wire.messages import DropLock, LockOk, LockReleased, ReqLock

SAID = "membarrier does not work any more"


def test_locks_are_released_and_the_change_is_made_once(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVSHARE_DEBUG="1")
    peer = scheduler.join(program)
    for lock in range(1, 5):
        program.say("spin 1 100")
        peer.expect(ReqLock)
        peer.send(LockOk(0, False, lock))
        assert program.answer()[0] == "0"
        if lock == 2:
            program.do("refusemembarrier")
        peer.send(DropLock(0, 1, 60000, lock))
        assert peer.expect(LockReleased).lock == lock
        assert program.said().count(SAID) == (lock >= 2)

"""A waiting client asks whether the scheduler is there, runs while it hangs, and keeps its place."""

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import Programs
from nvshare.wire.messages import Contended, DropLock, LockOk, LockReleased, Ping, Pong, ReqLock, WaitForMem

SILENCE_MS = "5000"
"""The test answers a PING within two fifths of it."""


def test_a_waiter_runs_while_the_scheduler_hangs_and_keeps_its_connection_and_its_place(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program = programs.start(NVSHARE_SILENCE_MS=SILENCE_MS)
    peer = scheduler.join(program)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.expect(Ping)
    assert program.answer()[0] == "0"
    assert program.said().count("does not answer") == 1
    peer.deliver(Pong(0))  # it only hung: the gate closes again, and the request of before still stands
    program.say("spin 1 1")
    assert program.waits()
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"
    assert len(peer.heard(ReqLock)) == 1
    peer.send(DropLock(0, 1, 1000, 1))
    assert peer.expect(LockReleased).lock == 1


def test_a_waiter_whose_pings_are_answered_waits_on(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVSHARE_SILENCE_MS=SILENCE_MS)
    peer = scheduler.join(program)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(WaitForMem(0, 1))
    for _ in range(3):  # longer than the silence that it takes for a hung scheduler
        peer.expect(Ping)
        peer.send(Pong(0))
    assert program.waits()
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"
    assert program.said() == ""


def test_a_holder_pings_from_when_its_lock_is_contended(programs: Programs, scheduler: FakeScheduler) -> None:
    """That it sends none before is checked in virtual time, in tests/client_machine."""
    program = programs.start(NVSHARE_SILENCE_MS="100")
    peer = scheduler.join(program)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    program.answer()
    peer.deliver()  # a PING from the time when it waited for its lock has been read
    peer.send(Contended(0, True))
    peer.expect(Ping)

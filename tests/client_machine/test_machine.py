"""libnvshare's client machine by itself: what it says and does, second by second."""

import pytest

from client_machine.helper import GIB, MILLISECOND, SECOND, Helper
from nvshare.client_machine.library import TurnState, Wait
from nvshare.wire import messages as wire


def test_a_waiting_client_knows_what_it_waits_for() -> None:
    helper = Helper()
    gpu = helper.machine.gpus[0]
    assert gpu.wait == Wait.NONE
    helper.want()
    assert gpu.wait == Wait.ANSWER
    helper.hear(wire.WaitForMem(0, 3))
    assert gpu.wait == Wait.MEMORY
    helper.hear(wire.MemAvailable(0))
    assert gpu.wait == Wait.LOCK
    helper.hear(wire.LockOk(0, False, 7))
    assert gpu.wait == Wait.NONE
    helper.hear(wire.MemAvailable(0))  # it waits for nothing
    assert gpu.wait == Wait.NONE


def test_a_silent_scheduler_is_asked_after_10_and_20_seconds_and_counts_as_hung_after_25() -> None:
    helper = Helper()
    helper.want()
    helper.pass_time(10 * SECOND - 1)
    assert helper.count(wire.Ping) == 0
    helper.pass_time(1)
    assert helper.count(wire.Ping) == 1
    helper.pass_time(10 * SECOND)
    assert helper.count(wire.Ping) == 2
    helper.pass_time(5 * SECOND - 1)
    assert helper.machine.state(0) is TurnState.WAITING
    helper.pass_time(1)
    assert helper.machine.state(0) is TurnState.UNATTENDED
    assert helper.done == ["hung", "stop draining", "open"]
    helper.pass_time(3600 * SECOND)
    assert helper.count(wire.Ping) == 2
    helper.hear(wire.Pong(0))
    assert helper.machine.state(0) is TurnState.WAITING
    assert helper.done == ["hung", "stop draining", "open", "close"]
    assert helper.count(wire.ReqLock) == 1


@pytest.mark.parametrize(
    "message", [wire.Pong(0), wire.LongWait(0, 1, 1, 0, 0, b""), wire.ExpectedStart(0, 1), wire.UpdateLimit(0, GIB)]
)
def test_whatever_the_scheduler_says_is_a_sign_of_life(message: wire.Message) -> None:
    helper = Helper()
    helper.want()
    for _ in range(20):
        helper.pass_time(24 * SECOND)
        helper.hear(message)
    assert helper.machine.state(0) is TurnState.WAITING


def test_an_hour_of_answered_pings_is_a_wait_and_nothing_else() -> None:
    helper = Helper()
    helper.want()
    for _ in range(360):
        helper.pass_time(10 * SECOND)
        helper.hear(wire.Pong(0))
    assert helper.done == []
    assert (helper.count(wire.Ping), helper.count(wire.ReqLock), helper.count(wire.Register)) == (360, 1, 0)


def test_a_client_that_was_stopped_itself_asks_again_before_it_judges() -> None:
    helper = Helper()
    helper.want()
    helper.pass_time(11 * SECOND)
    helper.tick(later=3600 * SECOND)
    assert helper.machine.state(0) is TurnState.WAITING
    assert helper.count(wire.Ping) == 2


def test_a_scheduler_of_version_1_is_never_asked() -> None:
    helper = Helper(version=1)
    helper.want()
    helper.pass_time(3600 * SECOND)
    assert [type(message) for message in helper.sent] == [wire.ReqLock]
    assert helper.done == []


def test_a_process_that_waits_for_nothing_has_no_deadline() -> None:
    helper = Helper()
    assert helper.machine.next_deadline() is None
    helper.want()
    helper.hear(wire.LockOk(0, False, 7))
    helper.machine.seen[0].waiters = 0
    helper.tick()
    assert helper.machine.next_deadline() is None
    helper.tick(later=3600 * SECOND)
    helper.hear(wire.Contended(0, True))
    assert helper.count(wire.Ping) == 0
    assert helper.machine.next_deadline() == helper.now + 10 * SECOND
    helper.pass_time(10 * SECOND)
    assert helper.count(wire.Ping) == 1
    helper.hear(wire.Contended(0, False))
    assert helper.machine.next_deadline() is None


def test_memory_is_reported_after_10_ms_or_at_once_after_64_mib() -> None:
    helper = Helper()
    helper.machine.reserve(0, 1 << 20)
    helper.tick()
    helper.pass_time(10 * MILLISECOND - 1)
    assert helper.sent == []
    helper.pass_time(1)
    assert helper.sent == [wire.MemUpdate(0, 0, 1 << 20, 0)]
    helper.machine.reserve(0, GIB)
    helper.tick()
    assert helper.sent[1:] == [wire.MemUpdate(0, 0, GIB + (1 << 20), 0)]


def test_a_hung_scheduler_gets_one_report_when_it_is_back() -> None:
    helper = Helper()
    helper.want()
    helper.pass_time(25 * SECOND)
    helper.sent.clear()
    for _ in range(1000):
        helper.machine.reserve(0, 1 << 20)
        helper.tick(later=20 * MILLISECOND)
    assert helper.sent == []
    helper.hear(wire.Pong(0))
    helper.tick()
    helper.pass_time(10 * MILLISECOND)
    assert helper.sent == [wire.MemUpdate(0, 0, 1000 << 20, 0)]


def holding(helper: Helper, lock: int) -> None:
    helper.want()
    helper.hear(wire.LockOk(0, True, lock))
    helper.machine.seen[0].waiters = 0
    helper.moves.clear()


def test_memory_comes_in_when_the_lock_is_held_and_goes_out_when_it_is_released() -> None:
    helper = Helper()
    holding(helper, 7)
    helper.hear(wire.MoveIn(0, 7, 3 * GIB))
    helper.hear(wire.MoveOut(0, 7, 2 * GIB))
    helper.hear(wire.DropLock(0, wire.DropReason.QUANTUM, 1000, 7))
    assert helper.moves == [("in", 3 * GIB)]
    helper.machine.drained(helper.now, 0, again=False)
    assert helper.moves == [("in", 3 * GIB), ("out", 2 * GIB)]


def test_a_request_to_move_memory_counts_for_its_own_lock_only() -> None:
    helper = Helper()
    holding(helper, 7)
    helper.hear(wire.MoveIn(0, 6, GIB))
    helper.hear(wire.MoveOut(0, 6, GIB))
    helper.hear(wire.DropLock(0, wire.DropReason.QUANTUM, 1000, 7))
    helper.hear(wire.MoveIn(0, 7, GIB))
    helper.machine.drained(helper.now, 0, again=False)
    assert helper.moves == []


def test_what_was_to_go_out_stays_if_the_lock_was_not_released() -> None:
    helper = Helper()
    holding(helper, 7)
    helper.hear(wire.MoveOut(0, 7, GIB))
    helper.hear(wire.DropLock(0, wire.DropReason.QUANTUM, 1000, 7))
    helper.hear(wire.LockOk(0, True, 8))  # 7 was revoked meanwhile
    helper.hear(wire.DropLock(0, wire.DropReason.QUANTUM, 1000, 8))
    helper.machine.drained(helper.now, 0, again=False)
    assert helper.moves == []


@pytest.mark.parametrize(("version", "reports"), [(wire.MOVES_SINCE - 1, 0), (wire.MOVES_SINCE, 1)])
def test_a_move_is_reported_to_a_scheduler_that_knows_moves(version: int, reports: int) -> None:
    helper = Helper(version)
    helper.machine.move_ended(0, to_host=False, moved=GIB, took_ns=90 * MILLISECOND)
    helper.machine.move_ended(0, to_host=False, moved=0, took_ns=MILLISECOND)
    assert helper.count(wire.Moved) == reports
    assert not reports or helper.sent == [wire.Moved(0, False, GIB, 90 * MILLISECOND)]


def test_what_is_left_on_the_card_is_reported_after_every_move_to_the_host_without_a_lock() -> None:
    helper = Helper()
    helper.machine.move_ended(0, to_host=True, moved=GIB, took_ns=90 * MILLISECOND, left=5)
    helper.machine.move_ended(0, to_host=True, moved=0, took_ns=0, left=GIB)
    assert helper.sent == [wire.RoomMade(0, 5), wire.Moved(0, True, GIB, 90 * MILLISECOND), wire.RoomMade(0, GIB)]
    helper.want()
    helper.hear(wire.LockOk(0, False, 7))
    helper.machine.move_ended(0, to_host=True, moved=0, took_ns=0, left=GIB)
    assert helper.count(wire.RoomMade) == 2


def reports_of(helper: Helper) -> list[wire.Message]:
    return [message for message in helper.sent if isinstance(message, (wire.WorkingSet, wire.Slowed))]


def test_a_working_set_is_reported_when_it_is_known_and_when_it_has_changed() -> None:
    helper = Helper()
    for used in (None, 0, 63 << 20, 64 << 20, 100 << 20, 0, None, None, 5):
        helper.machine.working_set(0, used)
    assert reports_of(helper) == [
        wire.WorkingSet(0, True, 0),
        wire.WorkingSet(0, True, 64 << 20),
        wire.WorkingSet(0, True, 0),
        wire.WorkingSet(0, False, 0),
        wire.WorkingSet(0, True, 5),
    ]


def test_a_working_set_is_reported_again_on_a_new_connection() -> None:
    helper = Helper()
    helper.machine.working_set(0, GIB)
    helper.machine.lost(helper.now)
    helper.machine.working_set(0, GIB)
    helper.machine.connected()
    helper.hear(wire.SchedOn(0, wire.PROTOCOL_VERSION, 1))
    helper.machine.working_set(0, GIB)
    assert helper.count(wire.WorkingSet) == 2


def test_slow_work_is_reported_once_a_second_and_only_by_a_holder() -> None:
    helper = Helper()
    helper.machine.slowed(helper.now, 0, 8)
    assert reports_of(helper) == []
    holding(helper, 7)
    for after in (1, 0.5, 0.5):
        helper.now += int(after * 1000) * MILLISECOND
        helper.machine.slowed(helper.now, 0, 8)
    assert reports_of(helper) == [wire.Slowed(0, 8), wire.Slowed(0, 8)]


def test_a_scheduler_that_does_not_know_working_sets_is_sent_none() -> None:
    helper = Helper(wire.WORKING_SETS_SINCE - 1)
    helper.machine.working_set(0, GIB)
    holding(helper, 7)
    helper.machine.slowed(helper.now, 0, 8)
    assert reports_of(helper) == []


def test_a_client_says_once_on_each_connection_that_it_does_not_move_memory() -> None:
    helper = Helper()
    for state in (wire.MoverState.MOVES, wire.MoverState.NO_EFFECT, wire.MoverState.NO_EFFECT):
        helper.machine.mover(0, state)
    helper.machine.lost(helper.now)
    helper.machine.connected()
    helper.hear(wire.SchedOn(0, wire.PROTOCOL_VERSION, 1))
    helper.machine.mover(0, wire.MoverState.NO_EFFECT)
    assert [one for one in helper.sent if isinstance(one, wire.Mover)] == [wire.Mover(0, 4)] * 2
    old = Helper(wire.MOVER_SINCE - 1)
    old.machine.mover(0, wire.MoverState.NO_EFFECT)
    assert old.count(wire.Mover) == 0

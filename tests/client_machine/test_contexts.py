"""What a process does with a lock when its last context on the GPU has ended."""

import pytest

from client_machine.helper import SECOND, Helper
from nvshare.client_machine.library import TurnState
from nvshare.wire import messages as wire


def last_context_ends(helper: Helper) -> None:
    helper.machine.set_contexts(0, 0)
    helper.tick()


def lock_comes(helper: Helper, number: int) -> None:
    helper.hear(wire.LockOk(0, False, number))
    helper.tick()


def test_a_thread_that_waits_when_the_last_context_ends_does_not_leave_a_lock_behind() -> None:
    helper = Helper()
    helper.machine.set_contexts(0, 1)
    helper.want()
    last_context_ends(helper)
    lock_comes(helper, 7)
    assert helper.machine.state(0) is TurnState.HOLDING, "the thread passes the gate first"
    helper.machine.seen[0].waiters = 0
    helper.tick()
    assert helper.machine.state(0) is TurnState.DRAINING


@pytest.mark.parametrize("has_answered", [True, False])
def test_a_lock_that_comes_after_the_last_context_is_gone_is_released(has_answered: bool) -> None:
    """It ran without the lock because the scheduler hung, and has ended its work on the GPU since."""
    helper = Helper()
    helper.machine.set_contexts(0, 1)
    helper.want()
    helper.pass_time(30 * SECOND)
    assert helper.machine.state(0) is TurnState.UNATTENDED
    helper.machine.seen[0].waiters = 0
    if has_answered:
        helper.hear(wire.Pong(0))
    last_context_ends(helper)
    lock_comes(helper, 7)
    assert helper.machine.state(0) is TurnState.DRAINING


def test_a_lock_that_was_not_asked_for_is_released_if_there_is_no_context() -> None:
    """A member of a gang gets locks on all its GPUs, also where its last context has ended."""
    helper = Helper()
    helper.machine.set_contexts(0, 1)
    helper.tick()
    last_context_ends(helper)
    lock_comes(helper, 7)
    assert helper.machine.state(0) is TurnState.DRAINING


def test_a_lock_that_comes_while_an_earlier_one_is_drained_is_released_if_no_context_is_left() -> None:
    """Its claim came too late, so the scheduler gives it another lock, which crosses the release of the first."""
    helper = Helper()
    helper.machine.set_contexts(0, 1)
    helper.want()
    helper.hear(wire.LockOk(0, False, 7))
    helper.machine.seen[0].waiters = 0
    last_context_ends(helper)
    assert helper.machine.state(0) is TurnState.DRAINING
    lock_comes(helper, 8)
    assert helper.machine.state(0) is TurnState.DRAINING
    helper.machine.drained(helper.now, 0, again=False)
    helper.tick()
    assert helper.sent[-1] == wire.LockReleased(0, False, 8)
    assert helper.machine.state(0) is TurnState.NONE


def test_a_lock_that_was_to_be_released_when_the_connection_was_lost_is_released_on_the_next_one() -> None:
    """It is kept meanwhile: nobody is there to have it."""
    helper = Helper()
    helper.machine.set_contexts(0, 1)
    helper.want()
    helper.machine.seen[0].waiters = 0
    helper.hear(wire.LockOk(0, False, 7))
    last_context_ends(helper)
    assert helper.machine.state(0) is TurnState.DRAINING
    helper.tick()
    helper.machine.lost(helper.now)
    helper.tick(SECOND)
    assert helper.machine.state(0) is TurnState.HOLDING
    helper.hear(wire.SchedOn(0, wire.PROTOCOL_VERSION, 1))
    helper.tick()
    assert helper.machine.state(0) is TurnState.DRAINING

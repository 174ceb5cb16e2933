"""Questions about budget that the scheduler does not answer."""

import pytest

from client_machine.helper import GIB, MILLISECOND, SECOND, Helper
from nvshare.client_machine.library import AskFate, TurnState
from nvshare.wire import messages as wire


def ask(helper: Helper, number: int) -> None:
    helper.machine.ask(helper.now, 0, number, GIB)
    helper.tick()


def fate(helper: Helper) -> AskFate:
    return helper.machine.ask_fate


def test_after_ten_seconds_without_an_answer_or_a_message_questions_are_refused_until_the_scheduler_speaks() -> None:
    helper = Helper()
    ask(helper, 1)
    helper.pass_time(10 * SECOND - 1)
    assert (fate(helper), helper.count(wire.Ping)) == (AskFate.SENT, 0)
    helper.pass_time(1)
    assert (fate(helper), helper.count(wire.Ping)) == (AskFate.REFUSED, 1)
    helper.pass_time(3600 * SECOND)
    assert fate(helper) is AskFate.REFUSED
    helper.hear(wire.Pong(0))
    assert fate(helper) is AskFate.SENT


def test_questions_that_follow_do_not_extend_the_wait() -> None:
    helper = Helper()
    ask(helper, 1)
    helper.pass_time(9 * SECOND)
    ask(helper, 2)
    helper.pass_time(SECOND)
    assert fate(helper) is AskFate.REFUSED


def test_a_scheduler_that_speaks_may_take_longer_for_an_answer() -> None:
    helper = Helper()
    ask(helper, 1)
    for number in range(2, 100):
        helper.pass_time(9 * SECOND)
        helper.hear(wire.Pong(0))
        helper.pass_time(SECOND)
        ask(helper, number)
        assert fate(helper) is AskFate.SENT


def test_a_scheduler_that_speaks_once_and_then_hangs_is_mute_ten_seconds_after_its_last_message() -> None:
    helper = Helper()
    ask(helper, 1)
    helper.pass_time(SECOND)
    helper.hear(wire.Pong(0))
    helper.pass_time(9 * SECOND)
    ask(helper, 2)
    helper.pass_time(SECOND - 1)
    assert fate(helper) is AskFate.SENT
    helper.pass_time(1)
    assert fate(helper) is AskFate.REFUSED
    helper.pass_time(3600 * SECOND)
    assert fate(helper) is AskFate.REFUSED


def test_the_answer_to_one_of_two_questions_does_not_end_the_wait_for_the_other() -> None:
    helper = Helper()
    ask(helper, 1)
    ask(helper, 2)
    helper.hear(wire.Budget(0, 0, 1, GIB, 0))
    helper.pass_time(10 * SECOND)
    assert fate(helper) is AskFate.REFUSED
    helper.hear(wire.Budget(0, 0, 2, GIB, 0))
    helper.pass_time(3600 * SECOND)
    assert fate(helper) is AskFate.SENT


def test_the_configured_time_counts_and_a_ping_is_sent_at_its_end() -> None:
    """So a scheduler that is only slow is heard, and asked again, without delay."""
    helper = Helper()
    helper.machine._client.config.ask_ns = 300 * MILLISECOND
    ask(helper, 1)
    helper.pass_time(300 * MILLISECOND)
    assert (fate(helper), helper.count(wire.Ping)) == (AskFate.REFUSED, 1)


def test_a_scheduler_counts_as_hung_also_if_only_a_question_waits_for_it() -> None:
    helper = Helper()
    ask(helper, 1)
    helper.pass_time(25 * SECOND - 1)
    assert (helper.machine.is_hung, helper.count(wire.Ping)) == (False, 2)
    helper.pass_time(1)
    assert helper.machine.is_hung
    helper.want()
    assert helper.machine.state(0) is TurnState.UNATTENDED
    helper.hear(wire.Budget(0, 0, 1, GIB, 0))
    assert (helper.machine.is_hung, helper.machine.state(0)) == (False, TurnState.WAITING)


@pytest.mark.parametrize("end", [wire.Budget(0, 0, 1, GIB, 0), None])
def test_nothing_depends_on_the_scheduler_after_the_answer_or_the_end_of_the_connection(end: wire.Message) -> None:
    helper = Helper()
    ask(helper, 1)
    assert helper.machine.next_deadline() == helper.now + 10 * SECOND
    if end:
        helper.hear(end)
    else:
        helper.machine.lost(helper.now)
        helper.tick(later=SECOND)
        helper.hear(wire.SchedOn(0, wire.PROTOCOL_VERSION, 2))
    assert helper.machine.next_deadline() is None
    helper.pass_time(3600 * SECOND)
    assert (fate(helper), helper.count(wire.Ping)) == (AskFate.SENT, 0)


def test_the_silence_of_a_scheduler_of_version_1_has_no_meaning() -> None:
    helper = Helper(version=1)
    ask(helper, 1)
    helper.pass_time(3600 * SECOND)
    assert (fate(helper), helper.count(wire.Ping)) == (AskFate.SENT, 0)

"""How long the client machine expects a scheduler that went away."""

from client_machine.helper import SECOND, Helper
from nvshare.client_machine.library import AskFate
from nvshare.wire import messages as wire


def test_a_scheduler_that_went_away_is_expected_for_five_seconds() -> None:
    helper = Helper()
    helper.is_away = True
    helper.machine.lost(helper.now)
    expected = []
    for time_ns in (0, 5 * SECOND - 1, 1):
        helper.pass_time(time_ns)
        expected.append(helper.machine.ask_fate is AskFate.WAITS)
    assert expected == [True, True, False]


def test_a_scheduler_that_answers_is_no_longer_expected_but_there() -> None:
    helper = Helper()
    helper.machine.lost(helper.now)
    helper.tick(SECOND)
    helper.hear(wire.SchedOn(0, wire.PROTOCOL_VERSION, 2))
    assert helper.machine.is_registered
    assert helper.machine.ask_fate is not AskFate.WAITS


def test_a_scheduler_that_never_answered_is_not_expected() -> None:
    helper = Helper(is_answered=False)
    helper.machine.lost(helper.now)
    assert helper.machine.ask_fate is not AskFate.WAITS

"""The core limit that the environment of a client wants."""

from client_machine.helper import Helper
from nvshare.client_machine.library import Config
from nvshare.wire import messages as wire


def answered(version: int, **settings: int) -> list[wire.Message]:
    """What a client says when a scheduler of this version has answered twice, and again on a new connection."""
    helper = Helper(version, is_answered=False, config=Config(**settings))
    helper.hear(wire.SchedOn(0, version, 1))
    helper.hear(wire.SchedOff(0, version, 1))
    helper.machine.lost(helper.now)
    helper.machine.connected()
    helper.hear(wire.SchedOn(0, version, 1))
    return [message for message in helper.sent if isinstance(message, wire.CoreLimit)]


def test_each_scheduler_is_told_the_core_limit_once() -> None:
    assert answered(wire.PROTOCOL_VERSION, core_limit=30) == [wire.CoreLimit(0, 30)] * 2


def test_without_a_core_limit_nothing_is_said() -> None:
    assert answered(wire.PROTOCOL_VERSION) == []


def test_a_scheduler_that_does_not_know_core_limits_is_not_told() -> None:
    assert answered(wire.GPU_TIME_SINCE - 1, core_limit=30) == []

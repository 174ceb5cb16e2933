"""Memory that the client machine keeps on the host."""

from client_machine.helper import Helper
from nvshare.core.model import GIB
from nvshare.wire import messages as wire


def test_what_is_kept_on_the_host_is_reported_when_it_has_changed_and_on_a_new_connection() -> None:
    helper = Helper()
    helper.hear(wire.KeepOnHost(0, 2 * GIB))
    assert helper.moves == [("hold", 2 * GIB)]
    for held in (GIB, GIB, 2 * GIB):
        helper.machine.held(0, held)
    helper.machine.lost(helper.now)
    helper.machine.connected()
    helper.hear(wire.SchedOn(0, wire.PROTOCOL_VERSION, 1))
    helper.hear(wire.SchedOff(0, wire.PROTOCOL_VERSION, 1))
    reports = [message for message in helper.sent if isinstance(message, wire.OnHost)]
    assert reports == [wire.OnHost(0, GIB), wire.OnHost(0, 2 * GIB), wire.OnHost(0, 2 * GIB)]


def test_a_scheduler_that_does_not_know_it_is_not_told_what_is_on_the_host() -> None:
    helper = Helper(wire.HOLDS_SINCE - 1)
    helper.machine.held(0, GIB)
    assert helper.count(wire.OnHost) == 0

"""Amounts of memory that a broken or lying scheduler states."""

import pytest

from client_machine.helper import GIB, Helper
from nvshare.client_machine.library import Verdict
from nvshare.wire import messages as wire
from nvshare.wire.codec import encode

TOO_MUCH = (1 << 64) - 1


@pytest.mark.parametrize(
    ("message", "move"),
    [
        (wire.KeepOnHost(0, TOO_MUCH), "hold"),
        (wire.MoveIn(0, 1, TOO_MUCH), "in"),
        (wire.MoveOut(0, 0, TOO_MUCH), "out"),
    ],
)
def test_no_more_is_moved_or_kept_than_any_card_has(message: wire.Message, move: str) -> None:
    helper = Helper()
    if move == "in":
        helper.want()
        helper.hear(wire.LockOk(0, False, 1))
    helper.hear(message)
    assert helper.moves == [(move, wire.MAX_BYTES)]


def test_memory_that_moves_after_a_lock_was_released_is_no_more_either() -> None:
    helper = Helper()
    helper.want()
    helper.hear(wire.LockOk(0, False, 1))
    helper.hear(wire.MoveOut(0, 1, TOO_MUCH))
    helper.hear(wire.DropLock(0, 1, 10_000, 1))
    helper.machine.drained(helper.now, 0, again=False)
    assert helper.moves == [("out", wire.MAX_BYTES)]


def test_the_next_scheduler_accepts_the_claim_of_a_client_that_was_told_a_false_limit() -> None:
    helper = Helper()
    helper.hear(wire.UpdateLimit(0, TOO_MUCH))
    helper.machine.lost(helper.now)
    helper.machine.connected()
    (register,) = [message for message in helper.sent if isinstance(message, wire.Register)]
    assert register.entries[0].limit == wire.MAX_BYTES


@pytest.mark.parametrize("context", [TOO_MUCH, wire.MAX_BYTES, 1 << 63])
def test_contexts_that_take_more_than_the_card_leave_no_room(context: int) -> None:
    helper = Helper()
    helper.hear(wire.Capacity(0, TOO_MUCH, context))
    helper.machine.seen[0].contexts = 256
    account = helper.machine.accounts[0]
    account.contexts = 256
    account.oversubscribe = 0
    assert account.reserve(GIB) is Verdict.REFUSE
    helper.hear(wire.Capacity(0, TOO_MUCH, 0))
    assert account.reserve(16 * GIB) is Verdict.CHARGED


def test_amounts_that_are_possible_are_taken_as_they_are() -> None:
    helper = Helper()
    helper.hear(wire.KeepOnHost(0, wire.MAX_BYTES))
    helper.hear(wire.KeepOnHost(0, wire.MAX_BYTES - 1))
    helper.hear(wire.UpdateLimit(0, 0))
    assert helper.moves == [("hold", wire.MAX_BYTES), ("hold", wire.MAX_BYTES - 1)]
    assert helper.machine.accounts[0].limit == 0
    assert len(encode(wire.KeepOnHost(0, TOO_MUCH))) == len(encode(wire.KeepOnHost(0, 0)))

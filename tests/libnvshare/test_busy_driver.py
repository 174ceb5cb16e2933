"""A driver that is busy, as while it compiles a kernel: the scheduler is answered all the same."""

import time

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import OUT_OF_MEMORY, Program, Programs
from nvshare.wire.messages import Contended, DropLock, LockOk, LockReleased, Message, ReqLock, UpdateLimit

LOAD = "200s"  # two seconds on a card a hundred times faster
LIMIT = 64 << 20
ANSWER_S = 0.1


def loads_a_module(program: Program) -> None:
    """Another thread has the lock of the context from now on."""
    program.say("aside-load 0")


@pytest.mark.parametrize("order", [DropLock(0, 1, 10_000, 1), Contended(0, True)], ids=["drain", "watch"])
def test_limits_and_recalls_are_answered_while_a_module_is_loaded(
    on_card: Programs, scheduler: FakeScheduler, order: Message
) -> None:
    program = on_card.start(NVSHARE_SIM_MODULE_LOAD=LOAD)
    peer = scheduler.join(program)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"
    loads_a_module(program)
    time.sleep(0.2)  # there is no sign of a thread that has come to the middle of the driver's call
    peer.send(order)
    for _ in range(5):  # the helper is in the driver by now
        began = time.monotonic()
        peer.settle(UpdateLimit(0, LIMIT))
        assert not program.hear(0), f"answered after the module was loaded, {time.monotonic() - began:.2f} s"
        assert time.monotonic() - began < ANSWER_S
        assert not any(isinstance(message, LockReleased) for message in peer.seen)
        time.sleep(0.1)
    assert program.answer()[0] == "0"
    if isinstance(order, DropLock):
        assert peer.expect(LockReleased).lock == 1
    assert program.ask(f"alloc {2 * LIMIT}")[0] == str(OUT_OF_MEMORY)

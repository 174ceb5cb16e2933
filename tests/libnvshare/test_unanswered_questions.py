"""Questions about budget that the scheduler does not answer: a call waits once, and calls after it do not."""

import os
import signal
import time

import pytest

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.programs import GIB, OUT_OF_MEMORY, Program, Programs
from nvshare.wire.messages import Budget, BudgetAsk, Ping, Pong, UpdateLimit

REFUSED = str(OUT_OF_MEMORY)
ASK_MS = 500
LONGER_S = 0.2
"""By how much a pause is longer than the time that a question may wait: if the pause counted, none would be left."""
NO_OTHER_PINGS = {"NVSHARE_SILENCE_MS": "3600000"}


def with_budget(programs: Programs, scheduler: FakeScheduler, **environment: str) -> tuple[Program, LibraryConnection]:
    """A program that has to ask when it needs more than 1 GiB, and for its free memory."""
    program = programs.start(**environment)
    peer = scheduler.join(program)
    peer.deliver(UpdateLimit(0, 4 * GIB), Budget(0, 1, 0, GIB, GIB))
    return program, peer


def test_all_questions_of_an_allocation_wait_once_together(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = with_budget(programs, scheduler, NVSHARE_ASK_MS=str(ASK_MS))
    program.say(f"alloc {2 * GIB}")
    asked = 0
    while not program.hear(0) and (message := peer.next(0.1 if asked else 60.0)):
        if isinstance(message, BudgetAsk):
            asked += 1
            time.sleep(ASK_MS / 1000 / 2)
            peer.send(Budget(0, 0, message.ask, 4 * GIB, 0))  # a yes that changes nothing: it is asked again
    assert program.answer()[0] == REFUSED
    assert asked <= 3


@pytest.mark.parametrize("command", ["info", f"alloc {2 * GIB}"])
def test_after_one_question_was_not_answered_none_waits_until_the_scheduler_speaks(
    programs: Programs, scheduler: FakeScheduler, command: str
) -> None:
    program, peer = with_budget(programs, scheduler, NVSHARE_ASK_MS=str(ASK_MS), **NO_OTHER_PINGS)
    program.ask(command)
    peer.expect(Ping)  # the library has noticed it
    for _ in range(10):
        program.ask(command)
        assert program.ask(f"alloc {2 * GIB}")[0] == REFUSED
        program.do("info")
    assert len(peer.heard(BudgetAsk)) == 1
    peer.deliver(Pong(0))
    program.say(f"alloc {2 * GIB}")
    peer.send(Budget(0, 3, peer.expect(BudgetAsk).ask, 2 * GIB, GIB))
    assert program.answer()[0] == "0"


def test_no_question_waits_once_a_scheduler_hangs_that_spoke_after_the_first(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = with_budget(programs, scheduler, NVSHARE_ASK_MS=str(ASK_MS), **NO_OTHER_PINGS)
    program.say(f"alloc {2 * GIB}")
    peer.expect(BudgetAsk)
    peer.send(Pong(0))
    assert program.answer()[0] == REFUSED
    peer.expect(Ping)  # the library has noticed it, although nothing was asked after that message
    for _ in range(10):
        assert program.ask(f"alloc {2 * GIB}")[0] == REFUSED
        program.do("info")
    assert len(peer.heard(BudgetAsk)) == 1


def test_an_answer_that_comes_while_the_process_is_stopped_counts(programs: Programs, scheduler: FakeScheduler) -> None:
    """Some processes, as the thread and the helper run at the same time afterwards: one process may be lucky."""
    ask_s = 3
    started = [with_budget(programs, scheduler, NVSHARE_ASK_MS=str(ask_s * 1000)) for _ in range(6)]
    for program, peer in started:
        program.say(f"alloc {2 * GIB}")
        ask = peer.expect(BudgetAsk)
        os.kill(program.process.pid, signal.SIGSTOP)
        peer.send(Budget(0, 3, ask.ask, 2 * GIB, GIB))
    time.sleep(ask_s + LONGER_S)
    for program, _ in started:
        os.kill(program.process.pid, signal.SIGCONT)
    assert [program.answer()[0] for program, _ in started] == ["0"] * len(started)


def test_time_in_which_the_process_is_stopped_is_no_time_of_waiting(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    ask_s = 5
    program, peer = with_budget(programs, scheduler, NVSHARE_ASK_MS=str(ask_s * 1000))
    program.say(f"alloc {2 * GIB}")
    ask = peer.expect(BudgetAsk)
    os.kill(program.process.pid, signal.SIGSTOP)
    peer.send(Budget(0, 0, ask.ask, 4 * GIB, 0))  # a yes that changes nothing: it is asked again
    time.sleep(ask_s + LONGER_S)
    os.kill(program.process.pid, signal.SIGCONT)
    peer.send(Budget(0, 3, peer.expect(BudgetAsk).ask, 2 * GIB, GIB))
    assert program.answer()[0] == "0"


def test_a_hung_scheduler_is_noticed_while_an_allocation_waits_for_its_answer(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = with_budget(programs, scheduler, NVSHARE_ASK_MS="60000", NVSHARE_SILENCE_MS="1000")
    program.say(f"alloc {2 * GIB}")
    peer.expect(BudgetAsk)
    peer.expect(Ping)
    assert program.answer(timeout=50)[0] == REFUSED

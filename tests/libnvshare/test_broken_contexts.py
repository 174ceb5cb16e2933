"""Contexts that end, fail or come into being behind the library's back: no crash, and no lock that is lost."""

import pytest

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.programs import GIB, Program, Programs
from libnvshare.test_memory import used
from nvshare.wire.messages import Contended, DropLock, Idle, LockOk, LockReleased, ReqLock

INVALID_CONTEXT = "201"
LAUNCH_FAILED = "719"


def starts(on_card: Programs, scheduler: FakeScheduler) -> tuple[Program, LibraryConnection]:
    """A program whose driver ends it when a destroyed handle is used."""
    program = on_card.start(NVSHARE_SIM_STALE_HANDLES="crash")
    return program, scheduler.join(program)


def gets_the_lock(program: Program, peer: LibraryConnection, number: int, work: str) -> str:
    """What the driver answers to the work once the lock is given."""
    program.say(work)
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, number))
    return program.answer()[0]


def gives_it_back(peer: LibraryConnection, number: int) -> None:
    peer.send(DropLock(0, 1, 10_000, number))
    assert peer.expect(LockReleased).lock == number


def gives_it_back_when_held_work_ends(program: Program, peer: LibraryConnection) -> None:
    """Lock 1; the work waits for the program's flag."""
    peer.deliver(DropLock(0, 1, 10_000, 1))
    assert not peer.heard(LockReleased)
    program.do("flag 1")
    assert peer.expect(LockReleased).lock == 1


@pytest.mark.parametrize("stream", [0, 1], ids=["default stream", "stream"])
def test_after_a_fault_every_call_fails_and_the_lock_comes_back(
    on_card: Programs, scheduler: FakeScheduler, stream: int
) -> None:
    program, peer = starts(on_card, scheduler)
    program.do("stream 1")
    assert gets_the_lock(program, peer, 1, f"spin 1 1 {stream}") == "0"
    gives_it_back(peer, 1)
    assert gets_the_lock(program, peer, 2, f"spin 1 1 {stream}") == "0"
    program.do("trap")
    assert program.ask("sync") == [LAUNCH_FAILED]
    for call in (f"spin 1 1 {stream}", "alloc 1048576", "stream 1"):
        assert program.ask(call)[0] == LAUNCH_FAILED, call
    peer.send(Contended(0, True))
    peer.expect(Idle)
    gives_it_back(peer, 2)
    program.say("spin 1 1")
    assert program.answer()[0] == LAUNCH_FAILED
    program.finish()


def test_a_primary_context_that_was_reset_unseen_and_made_again_has_no_old_streams_or_events(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = starts(on_card, scheduler)
    program.do("retain 0")
    program.do("stream 1")
    assert gets_the_lock(program, peer, 1, "spin 1 3000 1") == "0"
    gives_it_back(peer, 1)  # the stream has events of the library from now on
    assert gets_the_lock(program, peer, 2, "spin 1 3000 1") == "0"
    program.do("unseenreset 0")
    program.do("retain 0")
    program.do("stream 1")
    program.do("spin 1 3000 2")
    gives_it_back(peer, 2)
    assert gets_the_lock(program, peer, 3, "spin 1 3000 2") == "0"
    gives_it_back(peer, 3)
    program.finish()


def test_memory_in_a_primary_context_that_was_made_unseen_is_counted_until_it_ends(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, _ = starts(on_card, scheduler)
    program.do("unseenretain 0")
    program.do(f"alloc {GIB}")
    assert used(program) == GIB
    program.do("releaseprimary 0")
    program.do("use 0")
    assert used(program) == 0


@pytest.mark.parametrize("names", ["oldnames", "detaches"])
def test_a_context_that_ended_by_a_function_of_cuda_3_is_not_used(
    on_card: Programs, scheduler: FakeScheduler, names: str
) -> None:
    program, peer = starts(on_card, scheduler)
    program.do(names)
    program.do("init 0")
    assert gets_the_lock(program, peer, 1, "spin 1 3000") == "0"
    gives_it_back(peer, 1)
    assert gets_the_lock(program, peer, 2, "spin 1 3000") == "0"
    program.do("destroy 1")
    gives_it_back(peer, 2)
    program.do("use 0")
    assert gets_the_lock(program, peer, 3, "spin 1 3000") == "0"
    gives_it_back(peer, 3)
    program.finish()


def test_a_detached_context_that_is_on_the_stack_twice_is_not_used(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer = starts(on_card, scheduler)
    program.do("detaches")
    program.do("push 0")
    assert gets_the_lock(program, peer, 1, "spin 1 3000") == "0"
    program.do("destroy 0")
    gives_it_back(peer, 1)
    program.finish()


def test_a_stream_that_was_destroyed_by_its_function_of_cuda_3_is_not_used(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = starts(on_card, scheduler)
    program.do("oldnames")
    program.do("stream 1")
    assert gets_the_lock(program, peer, 1, "spin 1 3000 1") == "0"
    program.do("streamdestroy 0")
    gives_it_back(peer, 1)
    program.finish()


def test_work_in_the_second_context_that_the_function_of_cuda_3_made_is_drained(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = starts(on_card, scheduler)
    assert gets_the_lock(program, peer, 1, "spin 1 3000") == "0"
    program.do("oldnames")
    program.do("init 0")
    program.do("hold")
    gives_it_back_when_held_work_ends(program, peer)
    program.finish()


@pytest.mark.parametrize(("names", "result"), [("oldnames", "1"), ("detaches", "0")])
def test_a_context_that_lives_on_keeps_its_charges_and_its_work_is_drained(
    on_card: Programs, scheduler: FakeScheduler, names: str, result: str
) -> None:
    """It is attached a second time: cuCtxDestroy of CUDA 3 refuses it, and cuCtxDetach only counts."""
    program, peer = starts(on_card, scheduler)
    program.do(names)
    program.do("attach")
    program.do(f"alloc {GIB}")
    assert gets_the_lock(program, peer, 1, "hold") == "0"
    assert program.ask("destroy 0")[0] == result
    assert used(program) == GIB
    gives_it_back_when_held_work_ends(program, peer)
    program.finish()


def test_a_primary_context_that_the_driver_does_not_destroy_keeps_its_charges_and_its_work_is_drained(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = starts(on_card, scheduler)
    program.do("retain 0")
    program.do(f"alloc {GIB}")
    assert gets_the_lock(program, peer, 1, "hold") == "0"
    assert program.ask("destroy 1")[0] == INVALID_CONTEXT
    assert used(program) == GIB
    gives_it_back_when_held_work_ends(program, peer)
    program.finish()


def test_a_green_context_that_ends_returns_its_charges(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, _ = starts(on_card, scheduler)
    program.do("green 0")
    program.do("usegreen")
    program.do(f"alloc {GIB}")
    assert used(program) == GIB
    program.do("greendestroy")
    program.do("use 0")
    assert used(program) == 0
    program.finish()


def test_work_on_the_default_stream_of_a_green_context_is_drained(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer = starts(on_card, scheduler)
    assert gets_the_lock(program, peer, 1, "spin 1 3000") == "0"
    program.do("green 0")
    program.do("usegreen")
    program.do("hold")
    gives_it_back_when_held_work_ends(program, peer)
    program.finish()


def test_work_in_a_context_that_no_call_has_shown_is_gated_and_drained(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = starts(on_card, scheduler)
    program.do("unseeninit 0")
    assert gets_the_lock(program, peer, 1, "hold") == "0"
    gives_it_back_when_held_work_ends(program, peer)
    program.finish()


def test_work_that_no_call_has_shown_disturbs_nothing(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer = starts(on_card, scheduler)
    program.do("unseenspin 100000")
    assert gets_the_lock(program, peer, 1, "spin 1 1") == "0"
    program.do("unseenspin 100000")
    gives_it_back(peer, 1)
    program.do("unseenspin 1")
    assert gets_the_lock(program, peer, 2, "spin 1 1") == "0"
    program.finish()


def test_work_in_a_green_context_is_gated_and_drained(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer = starts(on_card, scheduler)
    program.do("green 0")  # no context is current from now on
    program.do("holdhost 1")
    assert gets_the_lock(program, peer, 1, "spin 1 1 1") == "0"
    gives_it_back_when_held_work_ends(program, peer)
    assert gets_the_lock(program, peer, 2, "spin 1 1 1") == "0"
    program.do("greendestroy")
    gives_it_back(peer, 2)
    program.finish()

"""Memory: what is counted, what is refused, what the program is told; pod-wide budgets as the wire defines them."""

import time

import pytest

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.programs import GIB, MIB, OUT_OF_MEMORY, Program, Programs
from nvshare.wire.messages import (
    Budget,
    BudgetAsk,
    BudgetRecall,
    BudgetReturn,
    MemUpdate,
    Register,
    SchedOn,
    UpdateLimit,
)

REFUSED = str(OUT_OF_MEMORY)
REPORT_S = 0.01  # little changes are reported together, after this long


def start(programs: Programs, scheduler: FakeScheduler, **environment: str) -> tuple[Program, LibraryConnection]:
    program = programs.start(**environment)
    peer = scheduler.join(program)
    return program, peer


def limit(program: Program, peer: LibraryConnection, limit: int, budget: int | None = None, others: int = 0) -> None:
    """Tells a limit and waits until it has arrived."""
    peer.deliver(UpdateLimit(0, limit), Budget(0, 1, 0, limit if budget is None else budget, others))


def used(program: Program) -> int:
    free, total, _ = map(int, program.do("info"))
    return total - free


@pytest.mark.parametrize("how", ["alloc", "managed", "async", "create", "array", "pitch"])
def test_every_way_to_device_memory_is_counted_and_limited(
    programs: Programs, scheduler: FakeScheduler, how: str
) -> None:
    program, peer = start(programs, scheduler)
    limit(program, peer, GIB)
    big = {"array": "array 16384 32768", "pitch": f"pitch {2 * MIB} 1024"}.get(how, f"{how} {2 * GIB}")
    small = {"array": "array 1024 131072", "pitch": f"pitch {MIB} 512"}.get(how, f"{how} {GIB // 2}")
    release = {"array": "arraydestroy", "create": "release", "async": "freeasync"}.get(how, "free")
    assert program.ask(big)[0] == REFUSED
    assert used(program) == 0
    taken = int(program.do(small)[0])
    assert used(program) == GIB // 2
    program.do(f"{release} {taken}")
    assert used(program) == 0


def test_the_same_process_succeeds_after_its_limit_is_raised_twenty_times(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler)
    for _ in range(20):
        limit(program, peer, GIB)
        assert program.ask(f"alloc {2 * GIB}")[0] == REFUSED
        limit(program, peer, 4 * GIB)
        program.do(f"free {int(program.do(f'alloc {2 * GIB}')[0])}")
    limit(program, peer, 0)
    assert used(program) == 0
    program.do(f"alloc {2 * GIB}")


def test_the_program_is_told_what_it_may_have(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    assert program.do("info") == [str(64 * GIB)] * 3
    limit(program, peer, 4 * GIB)
    program.do(f"alloc {GIB}")
    assert program.do("info") == [str(3 * GIB), str(4 * GIB), str(4 * GIB)]
    limit(program, peer, GIB // 2)  # below what is in use: nothing is lost, nothing underflows
    assert program.do("info") == ["0", str(GIB // 2), str(GIB // 2)]


def test_memory_mapped_lives_until_the_last_handle_and_mapping_are_gone(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, _ = start(programs, scheduler)
    handle = int(program.do(f"create {GIB}")[0])
    address = int(program.do(f"map {handle} {GIB}")[0])
    program.do(f"release {handle}")
    assert used(program) == GIB
    program.do(f"unmap {address} {GIB}")
    assert used(program) == 0


def test_a_contexts_end_frees_what_was_in_it(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    program.do(f"alloc {GIB}")
    peer.expect(MemUpdate, such=lambda m: m.swappable == GIB)
    program.do("destroy 0")
    peer.expect(MemUpdate, such=lambda m: m.swappable == 0 and m.contexts == 0)


def test_much_memory_is_reported_at_once_and_little_in_one_message(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler)
    before = len(peer.heard(MemUpdate))
    began = time.monotonic()
    program.say("\n".join([f"alloc {MIB}"] * 50))
    peer.expect(MemUpdate, such=lambda m: m.swappable == 50 * MIB)
    most = 2 + (time.monotonic() - began) / REPORT_S
    assert len(peer.heard(MemUpdate)) - before <= most
    for _ in range(50):
        program.answer()
    program.say(f"alloc {GIB}")
    assert peer.expect(MemUpdate).swappable > GIB


def test_one_process_may_use_the_card_and_more_only_if_asked_for(programs: Programs, scheduler: FakeScheduler) -> None:
    program, _ = start(programs, scheduler)
    assert program.ask(f"alloc {65 * GIB}")[0] == REFUSED
    more, _ = start(programs, scheduler, NVSHARE_ENABLE_SINGLE_OVERSUB="1")
    more.do(f"alloc {65 * GIB}")


def test_native_mode_counts_as_unswappable(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler, NVSHARE_MEMORY_MODE="native")
    program.do(f"alloc {GIB}")
    assert peer.expect(MemUpdate, such=lambda m: m.unswappable > 0) == MemUpdate(0, 1, 0, GIB)


def test_the_environments_limit_holds_until_the_scheduler_speaks(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(
        NVSHARE_GPU_MEMORY_LIMIT="1Gi", NVSHARE_PRIORITY="7", NVSHARE_WEIGHT="3", NVSHARE_NAME="job"
    )
    program.say("init 0")
    peer = scheduler.accept()
    register = peer.expect(Register)
    assert (register.own_limit, register.priority, register.weight) == (GIB, 7, 3)
    assert register.name.rstrip(b"\0") == b"job"
    peer.send(SchedOn(0, 1, 1))
    program.answer()
    assert program.ask(f"alloc {2 * GIB}")[0] == REFUSED
    limit(program, peer, 3 * GIB)
    program.do(f"alloc {2 * GIB}")


def test_a_bad_limit_changes_nothing_and_is_said_once(programs: Programs, scheduler: FakeScheduler) -> None:
    program, _ = start(programs, scheduler, NVSHARE_GPU_MEMORY_LIMIT="4GB")
    program.do(f"alloc {8 * GIB}")
    assert program.said().count('NVSHARE_GPU_MEMORY_LIMIT="4GB" is not understood') == 1


def test_debug_shows_a_changed_limit_as_documented(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler, NVSHARE_DEBUG="1")
    limit(program, peer, 2147483648)
    assert "Received UPDATE_LIMIT: 2147483648 bytes" in program.said()


def test_more_than_the_budget_is_asked_for_and_less_is_not(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    limit(program, peer, 4 * GIB, budget=GIB, others=GIB)
    program.do(f"alloc {GIB // 2}")
    program.say(f"alloc {GIB}")
    ask = peer.expect(BudgetAsk)
    assert ask.need == GIB // 2 + GIB
    peer.send(Budget(0, 3, ask.ask, 2 * GIB, GIB))
    assert program.answer()[0] == "0"
    program.say(f"alloc {GIB}")
    ask = peer.expect(BudgetAsk)
    peer.send(Budget(0, 0, ask.ask, 2 * GIB, 2 * GIB))  # no
    assert program.answer()[0] == REFUSED
    assert program.ask(f"alloc {5 * GIB}")[0] == REFUSED  # over the limit: nobody needs to be asked
    assert len(peer.heard(BudgetAsk)) == 2


@pytest.mark.parametrize("kept", [0, GIB // 2])
def test_a_refusal_is_not_final_while_another_thread_frees(
    programs: Programs, scheduler: FakeScheduler, kept: int
) -> None:
    """What was refused was the need of the question. It has become smaller since, so the allocation may fit."""
    program, peer = start(programs, scheduler)
    limit(program, peer, 4 * GIB, budget=2 * GIB, others=2 * GIB)
    address = int(program.do(f"alloc {GIB}")[0])
    program.do(f"alloc {GIB}")
    program.say(f"aside-alloc {GIB + kept}")
    ask = peer.expect(BudgetAsk)
    assert ask.need == 3 * GIB + kept
    program.do(f"free {address}")
    peer.send(Budget(0, 0, ask.ask, 2 * GIB, 2 * GIB))  # no
    if kept:  # It still needs more than its budget: another question, for less.
        ask = peer.expect(BudgetAsk)
        assert ask.need == 2 * GIB + kept
        peer.send(Budget(0, 3, ask.ask, 2 * GIB + kept, 0))
    assert program.answer()[0] == "0"


def test_a_pool_is_freed_while_an_allocation_from_it_waits_for_an_answer(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    """Otherwise a free that would make room waits for the refusal."""
    program, peer = start(programs, scheduler)
    limit(program, peer, 4 * GIB, budget=2 * GIB, others=2 * GIB)
    address = int(program.do(f"async {GIB}")[0])
    program.do(f"async {GIB}")
    program.say(f"aside-async {GIB}")
    ask = peer.expect(BudgetAsk)
    program.do(f"freeasync {address}")
    program.do("sync")
    peer.send(Budget(0, 0, ask.ask, 2 * GIB, 2 * GIB))  # no
    assert program.answer()[0] == "0"


def test_a_recall_is_answered_with_what_pools_have_returned(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(on_card, scheduler)
    limit(program, peer, 4 * GIB)
    address = int(program.do(f"async {GIB}")[0])
    program.do(f"freeasync {address}")
    program.do("sync")  # the driver returns the memory here, without a call that the library sees
    peer.send(BudgetRecall(0, 5, 0))
    assert peer.expect(BudgetReturn) == BudgetReturn(0, 5, 0, 0)


def test_a_question_is_asked_again_of_the_next_scheduler(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler, NVSHARE_RECONNECT_MS="20")
    limit(program, peer, 4 * GIB, budget=GIB, others=GIB)
    program.say(f"alloc {2 * GIB}")
    peer.expect(BudgetAsk)
    peer.close()
    peer, _ = scheduler.welcome()
    ask = peer.expect(BudgetAsk)
    assert ask.need == 2 * GIB
    peer.send(Budget(0, 3, ask.ask, 2 * GIB, GIB))
    assert program.answer()[0] == "0"


def test_without_a_scheduler_an_allocation_waits_for_one_for_a_bounded_time(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler, NVSHARE_ORPHAN_WAIT_MS="2000")
    limit(program, peer, 4 * GIB, budget=GIB, others=GIB)
    scheduler.die()
    assert program.ask(f"alloc {2 * GIB}")[0] == REFUSED
    assert program.ask("info")[0] == "0"
    # It has been away for longer. If each allocation waited, all of them would for 200 s.
    program.say("\n".join([f"alloc {2 * GIB}"] * 100))
    end = time.monotonic() + 60
    assert {program.answer(end - time.monotonic())[0] for _ in range(100)} == {REFUSED}


def test_free_memory_is_asked_for_when_others_share_the_limit(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    limit(program, peer, 4 * GIB, budget=GIB, others=GIB)
    program.say("info")
    ask = peer.expect(BudgetAsk)
    assert ask.need == 0
    peer.send(Budget(0, 0, ask.ask, GIB, 3 * GIB))
    assert program.answer() == ["0", str(GIB), str(4 * GIB), str(4 * GIB)]


def test_a_recall_gives_back_what_is_unused_and_each_free_gives_more(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler)
    limit(program, peer, 4 * GIB)
    address = int(program.do(f"alloc {2 * GIB}")[0])
    peer.send(BudgetRecall(0, 5, GIB))
    assert peer.expect(BudgetReturn) == BudgetReturn(0, 5, 2 * GIB, 2 * GIB)
    program.do(f"free {address}")
    program.say(f"alloc {GIB + MIB}")  # the budget has fallen to what may be kept
    ask = peer.expect(BudgetAsk)
    assert ask.need == GIB + MIB
    peer.send(Budget(0, 0, ask.ask, GIB, 0))
    assert program.answer()[0] == REFUSED
    program.do(f"alloc {GIB}")


def test_threads_cannot_race_past_a_limit(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler)
    limit(program, peer, GIB)
    assert program.do(f"fill 8 {3 * MIB}") == [str(GIB // (3 * MIB))]


def test_without_an_answer_an_allocation_is_refused_in_bounded_time(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(programs, scheduler, NVSHARE_ASK_MS="300")
    limit(program, peer, 4 * GIB, budget=GIB)
    assert program.ask(f"alloc {2 * GIB}")[0] == REFUSED


def test_budgets_hold_while_the_scheduler_is_away(programs: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(programs, scheduler, NVSHARE_ORPHAN_WAIT_MS="200")
    limit(program, peer, 4 * GIB, budget=GIB)
    scheduler.die()
    program.do(f"alloc {GIB}")
    assert program.ask(f"alloc {MIB}")[0] == REFUSED

"""Memory that is charged or freed in a special way: pools, heap and stacks of kernels, frees in stream order."""

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import GIB, MIB, Programs
from libnvshare.test_memory import REFUSED, limit, start, used
from nvshare.wire.messages import LockOk, MemUpdate, ReqLock

INVALID_VALUE = "1"
LAUNCH_FAILED = "719"
HOST = 2  # CU_MEM_LOCATION_TYPE_HOST
HEAP, STACK = 2, 0  # CU_LIMIT_MALLOC_HEAP_SIZE, CU_LIMIT_STACK_SIZE
THREADS = 108 * 2048  # of the simulated card


def test_all_of_many_pools_are_counted(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, _ = start(on_card, scheduler)
    program.do(f"pools 200 {2 * MIB} 1")
    assert used(program) == 200 * 2 * MIB


def test_a_pool_on_the_host_is_not_charged_to_the_gpu(on_card: Programs, scheduler: FakeScheduler) -> None:
    program, peer = start(on_card, scheduler)
    limit(program, peer, GIB)
    program.do(f"pools 1 {2 * GIB} {HOST}")
    assert used(program) == 0


@pytest.mark.parametrize(("which", "value", "charge"), [(HEAP, GIB + 8 * MIB, GIB), (STACK, 5 * 1024, 4096 * THREADS)])
def test_the_heap_and_the_stacks_of_kernels_are_counted_and_limited(
    on_card: Programs, scheduler: FakeScheduler, which: int, value: int, charge: int
) -> None:
    program, peer = start(on_card, scheduler)
    program.do(f"setlimit {which} {value}")
    peer.expect(MemUpdate, such=lambda m: m.unswappable == charge)
    program.do(f"setlimit {which} {value}")  # not counted twice
    assert used(program) == charge
    limit(program, peer, GIB)
    assert program.ask(f"setlimit {which} {4 * value}")[0] == REFUSED
    program.do(f"setlimit {which} 1024")
    assert used(program) == 0
    limit(program, peer, 0)
    program.do(f"setlimit {which} {value}")
    program.do("destroy 0")
    peer.expect(MemUpdate, such=lambda m: m.unswappable == 0 and m.contexts == 0)


def test_a_limit_that_several_threads_set_is_charged_as_the_driver_has_it(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, _ = start(on_card, scheduler)
    for _ in range(10):
        program.do(f"setlimits 4 500 {HEAP} {16 * MIB}")
        assert used(program) == int(program.do(f"getlimit {HEAP}")[0]) - 8 * MIB
    program.do(f"setlimit {HEAP} {8 * MIB}")
    assert used(program) == 0


def test_a_pool_that_the_driver_does_not_answer_for_stays_charged(on_card: Programs, scheduler: FakeScheduler) -> None:
    """A kernel has failed in the context of the default pool. The program goes on in another context."""
    program, peer = start(on_card, scheduler)
    program.do(f"threshold {GIB}")
    program.do(f"freeasync {int(program.do(f'async {GIB}')[0])}")
    program.do("sync")
    assert used(program) == GIB  # the pool keeps it
    program.do("retain 0")
    program.say("trap")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"
    assert program.ask("sync")[0] == LAUNCH_FAILED
    program.do("use 0")
    assert program.ask("poolinfo")[0] == LAUNCH_FAILED
    assert used(program) == GIB
    assert program.ask(f"async {2 * GIB}")[0] == LAUNCH_FAILED
    assert used(program) == GIB


def test_memory_from_cu_mem_alloc_is_freed_in_stream_order(on_card: Programs, scheduler: FakeScheduler) -> None:
    """The driver refuses to free managed memory in stream order, which this memory is."""
    program, peer = start(on_card, scheduler)
    address = int(program.do(f"alloc {GIB}")[0])
    program.say("hold")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"
    program.do(f"freeasync {address}")
    for how in ("free", "freeasync"):
        assert program.ask(f"{how} {address}")[0] == INVALID_VALUE
    assert used(program) == GIB  # the kernel is still running
    program.do("flag 1")
    program.do("sync")
    assert used(program) == 0
    program.do(f"freeasync {int(program.do(f'alloc {GIB}')[0])}")
    program.do("destroy 0")  # with a free that is due
    peer.expect(MemUpdate, such=lambda m: m.swappable == 0 and m.contexts == 0)


def test_a_free_in_stream_order_outlasts_a_reference_to_the_primary_context(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer = start(on_card, scheduler)
    program.do("retain 0")
    address = int(program.do(f"alloc {GIB}")[0])
    program.say("hold")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"
    program.do(f"freeasync {address}")
    program.do("retain 0")
    program.do("releaseprimary 0")  # not the last reference
    assert used(program) == GIB  # the kernel is still running
    program.do("flag 1")
    program.do("sync")
    assert used(program) == 0
    assert program.ask(f"free {address}")[0] == INVALID_VALUE  # the driver has taken it back

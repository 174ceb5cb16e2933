"""What must stay native memory: small allocations, and all memory of a program that encodes video."""

import shutil
from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.machine import Machine
from libnvshare.programs import BUILD, CHECKS, MIB, Program, Programs
from nvshare.wire.messages import MemUpdate

INVALID_VALUE = "1"
SMALL = MIB - 4096
MAX_SMALL = 64 * MIB


def allocate(program: Program, size: int) -> int:
    return int(program.do(f"alloc {size}")[0])


def test_a_stream_writes_to_a_small_allocation_and_not_to_a_big_one(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program = on_card.start()
    scheduler.join(program)
    program.do(f"writevalue {allocate(program, 4096)}")
    assert program.ask(f"writevalue {allocate(program, MIB)}") == [INVALID_VALUE]


def test_small_pitched_memory_is_native_too(on_card: Programs, scheduler: FakeScheduler) -> None:
    program = on_card.start()
    scheduler.join(program)
    program.do(f"writevalue {program.do('pitch 100 16')[0]}")
    assert program.ask(f"writevalue {program.do('pitch 4096 4096')[0]}") == [INVALID_VALUE]


def test_a_small_allocation_is_native_and_unswappable_until_it_is_freed(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program = programs.start()
    peer = scheduler.join(program)
    small, big = allocate(program, SMALL), allocate(program, MIB)
    peer.expect(MemUpdate, such=lambda m: (m.swappable, m.unswappable) == (MIB, SMALL))
    program.do(f"free {small}")
    program.do(f"free {big}")
    peer.expect(MemUpdate, such=lambda m: (m.swappable, m.unswappable) == (0, 0))


def test_many_small_allocations_are_swappable_again(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start()
    peer = scheduler.join(program)
    count = MAX_SMALL // SMALL + 10
    addresses = [allocate(program, SMALL) for _ in range(count)]
    native = MAX_SMALL // SMALL * SMALL
    peer.expect(MemUpdate, such=lambda m: (m.swappable, m.unswappable) == (count * SMALL - native, native))
    for address in addresses:
        program.do(f"freeasync {address}")
    allocate(program, SMALL)  # there is room for it again
    peer.expect(MemUpdate, such=lambda m: (m.swappable, m.unswappable) == (0, SMALL))


def test_a_context_that_ends_makes_room_for_small_allocations(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start()
    peer = scheduler.join(program)
    for _ in range(MAX_SMALL // SMALL):
        allocate(program, SMALL)
    program.do("destroy 0")
    program.do("init 0")
    allocate(program, SMALL)
    peer.expect(MemUpdate, such=lambda m: (m.swappable, m.unswappable) == (0, SMALL))


def test_a_small_allocation_is_managed_if_the_card_is_full_of_native_memory(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program = on_card.start()
    peer = scheduler.join(program)
    other = on_card.start(NVSHARE_DISABLE="1")
    other.do("init 0")
    for size in (1024 * MIB, 64 * MIB, 4 * MIB, MIB // 4, 16384, 4096, 512):
        while other.ask(f"alloc {size}")[0] == "0":
            pass
    allocate(program, 4096)
    peer.expect(MemUpdate, such=lambda m: (m.swappable, m.unswappable) == (4096, 0))


def test_the_first_handle_that_fails_names_the_setting(on_card: Programs, scheduler: FakeScheduler) -> None:
    program = on_card.start()
    scheduler.join(program)
    big = allocate(program, 2 * MIB)
    for _ in range(2):
        assert program.ask(f"ipchandle {big}") == [INVALID_VALUE]
    assert program.said().count("Start this program with NVSHARE_MEMORY_MODE=native") == 1
    program.do(f"ipchandle {allocate(program, 4096)}")


def test_a_program_that_uses_the_video_encoder_gets_native_memory(on_card: Programs, scheduler: FakeScheduler) -> None:
    path = f"{BUILD / 'encoder'}:{on_card.environment['LD_LIBRARY_PATH']}"
    program = on_card.start(CHECKS / "lib_client", "dlsym", LD_LIBRARY_PATH=path)
    peer = scheduler.join(program)
    program.do("encoder")
    big = allocate(program, 2 * MIB)
    peer.expect(MemUpdate, such=lambda m: (m.swappable, m.unswappable) == (0, 2 * MIB))
    program.do(f"writevalue {big}")


@pytest.mark.parametrize("name", ["libnvidia-encode.so.1", "libnvidia-encode.so.580.65"])
def test_a_program_that_is_linked_with_the_video_encoder_gets_native_memory(
    programs: Programs, scheduler: FakeScheduler, tmp_path: Path, name: str
) -> None:
    """It is known by its SONAME, whatever its file is called."""
    encoder = Path(shutil.copy(BUILD / "encoder" / "libnvidia-encode.so.1", tmp_path / name))
    program = programs.start(LD_PRELOAD=f"{programs.environment['LD_PRELOAD']} {encoder}")
    peer = scheduler.join(program)
    allocate(program, 2 * MIB)
    peer.expect(MemUpdate, such=lambda m: (m.swappable, m.unswappable) == (0, 2 * MIB))


def test_two_processes_share_memory_and_events_by_handle_in_native_mode(tmp_path: Path) -> None:
    """As CUDA tensors in a queue of PyTorch: the consumer waits for the producer's event and reads its memory."""
    with Machine(tmp_path) as machine:
        assert machine.start(CHECKS / "lib_ipc", NVSHARE_MEMORY_MODE="native").answer() == ["0", "0"]

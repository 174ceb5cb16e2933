"""Memory mode checkpoint, with a scheduler that the test controls: programs that exit, a slow NVML, programs that are
linked with the driver."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler, LibraryConnection
from libnvshare.programs import CHECKS, GIB, MIB, OUT_OF_MEMORY, ROOT, Program, Programs
from libnvshare.suspended import start, suspend
from nvshare.simgpu.config import library_directory
from nvshare.wire.messages import Capacity, DropLock, LockOk, LockReleased, MemoryKind, MemoryMode, Moved, ReqLock
from support.waiting import wait_until

DEINITIALIZED = 4
SLOW_EXIT = (CHECKS / "lib_client", "dlsym", "slowexit")


def test_a_suspended_program_had_no_more_on_the_card_than_the_card_has_whatever_the_scheduler_states(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer, address = start(on_card, scheduler)
    peer.deliver(Capacity(0, 16 * GIB, (1 << 64) - 1))
    suspend(peer)
    assert [moved.moved for moved in peer.heard(Moved)] == [16 * GIB]
    program.say(f"peek {address}")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 2))
    assert program.answer() == ["0", "5"]


def begin_to_exit(program: Program) -> None:
    program.say("exit 5")
    assert program.answer()[-1] == "exiting", program.said()


def end(program: Program) -> None:
    program.say("exit 0")
    assert program.process.wait(60) == 5, program.said()


def test_a_turn_that_comes_while_a_suspended_program_exits_is_given_back(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer, _ = start(on_card, scheduler, *SLOW_EXIT)
    suspend(peer)
    program.say("aside-alloc 4096")
    peer.expect(ReqLock)
    program.say("exit 5")
    exiting, refused = sorted([program.answer(), program.answer()])
    assert exiting == ["0", "exiting"]
    assert refused[0] == str(DEINITIALIZED)
    peer.send(LockOk(0, False, 2))
    assert peer.expect(LockReleased).lock == 2
    assert not [moved for moved in peer.heard(Moved) if not moved.to_host]
    end(program)


@pytest.mark.parametrize("leaves", [True, False])
def test_an_exit_waits_for_the_checkpoint_or_restore_under_way(
    on_card: Programs, scheduler: FakeScheduler, leaves: bool
) -> None:
    """The driver's exit handler frees the state that it works on; the simulated driver ends such a program."""
    program, peer, _ = start(on_card, scheduler, *SLOW_EXIT, NVSHARE_SIM_COPY_BANDWIDTH="10M")
    if leaves:
        peer.deliver(DropLock(0, 1, 60000, 1))
    else:
        suspend(peer)
        program.say("aside-alloc 4096")
        peer.expect(ReqLock)
        peer.deliver(LockOk(0, False, 2))
    wait_until(lambda: program.has_thread("nvshare-leave" if leaves else "nvshare-return"), "the driver is at it")
    program.say("exit 5")
    assert ["0", "exiting"] in [program.answer() for _ in range(1 if leaves else 2)], program.said()
    end(program)


def test_work_of_an_exit_handler_runs_in_the_turn_that_the_restore_was_for(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer, address = start(on_card, scheduler, *SLOW_EXIT, NVSHARE_SIM_COPY_BANDWIDTH="10M")
    suspend(peer)
    program.say("aside-alloc 4096")
    peer.expect(ReqLock)
    peer.deliver(LockOk(0, False, 2))
    wait_until(lambda: program.has_thread("nvshare-return"), "the driver is at it")
    program.say("exit 5")
    assert ["0", "exiting"] in [program.answer(), program.answer()], "the other is of the thread"
    assert program.do(f"peek {address}") == ["5"]
    assert program.do("spin 1 1")
    end(program)


def test_a_lock_that_is_taken_back_during_exit_is_released_with_memory_that_stays(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer, _ = start(on_card, scheduler, *SLOW_EXIT)
    program.do("sync")
    begin_to_exit(program)
    peer.deliver(DropLock(0, 1, 60000, 1))
    program.say("spin 1 1")  # a thread of the program asks the driver whether its work has finished
    assert peer.expect(LockReleased).lock == 1
    told = [message for message in peer.seen if isinstance(message, MemoryMode | LockReleased)]
    assert told[-2:] == [MemoryMode(0, MemoryKind.NOT_SUSPENDED), LockReleased(0, True, 1)], (
        "it knows what is still there"
    )
    peer.send(LockOk(0, False, 2))
    assert program.answer()[0] == "0"
    end(program)


def test_what_was_charged_for_a_context_is_given_back_if_the_checkpoint_that_should_make_room_fails(
    on_card: Programs, scheduler: FakeScheduler
) -> None:
    program, peer, address = start(on_card, scheduler, NVSHARE_SIM_CHECKPOINT="checkpoint-fails")
    stranger = on_card.start(CHECKS / "simgpu_worker", LD_PRELOAD="")
    assert stranger.answer() == ["ready"]
    assert stranger.ask(f"native {14 * GIB + 300 * MIB}") == ["0"], "too little is left for a context"
    program.say("init 0")
    assert peer.expect(LockReleased).lock == 1
    assert program.answer()[0] == str(OUT_OF_MEMORY), program.said()
    peer.send(LockOk(0, False, 2), DropLock(0, 1, 60000, 2))
    assert peer.expect(LockReleased).lock == 2
    program.say(f"peek {address}")
    assert peer.expect(ReqLock).unswappable == GIB
    peer.send(LockOk(0, False, 3))
    assert program.answer() == ["0", "5"]


def test_a_slow_nvml_keeps_nobody_from_an_answer(on_card: Programs, scheduler: FakeScheduler, tmp_path: Path) -> None:
    pipe = tmp_path / "nvml"
    os.mkfifo(pipe)
    program, peer, address = start(on_card, scheduler, NVSHARE_SIM_NVML_INIT=str(pipe))
    suspend(peer)
    program.say(f"peek {address}")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 2))
    with_writer = opened_to_write(pipe)
    peer.deliver()
    os.close(with_writer)
    assert program.answer() == ["0", "5"]


def opened_to_write(pipe: Path) -> int:
    """The pipe's descriptor, once it has been opened to read."""
    opened: list[int] = []

    def is_read() -> bool:
        try:
            opened.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        return bool(opened)

    wait_until(is_read, "NVML is asked")
    return opened[0]


CALLED = """
extern int {name}(const char *, const char *, int);
int never(void) {{ return {name}(0, 0, 0); }}
"""
TAKEN = """
extern int {name}(const char *, const char *, int);
void *address(void) {{ return (void *){name}; }}
"""
UNKNOWN = "cuProfilerInitialize"


def importing(tmp_path: Path, name: str, *flags: str) -> Path:
    """A library that is linked with this function of the driver, bound when it is called."""
    source, library = tmp_path / "imports.c", tmp_path / "imports.so"
    source.write_text(CALLED.format(name=name))
    lazy = ["-shared", "-fPIC", "-Wl,-z,lazy", "-Wl,--unresolved-symbols=ignore-all"]
    subprocess.run(["cc", *lazy, *flags, str(source), "-o", str(library)], check=True)
    return library


def program_importing(tmp_path: Path, text: str, *flags: str) -> Path:
    """lib_client as a program at a fixed address that is linked with this function of the driver."""
    source, program = tmp_path / "imports.c", tmp_path / "program"
    source.write_text(text.format(name=UNKNOWN))
    sources = [f"-I{ROOT}/native/include", str(ROOT / "tests" / "native" / "lib_client.c"), str(source)]
    driver = [str(library_directory() / "libcuda.so.1"), "-ldl", "-lpthread"]
    options = ["-no-pie", "-D_GNU_SOURCE", "-Wl,-z,lazy", "-Wl,--allow-shlib-undefined", *flags]
    subprocess.run(["cc", *options, *sources, *driver, "-o", str(program)], check=True)
    return program


def keeps_native_memory(
    program: Program, peer: LibraryConnection, address: str, reason: str = f"{UNKNOWN}, which it is linked with"
) -> None:
    peer.send(DropLock(0, 1, 60000, 1))
    assert peer.expect(LockReleased).lock == 1
    told = [message for message in peer.seen if isinstance(message, MemoryMode | LockReleased)]
    assert told[-2:] == [MemoryMode(0, MemoryKind.NOT_SUSPENDED), LockReleased(0, False, 1)]
    assert peer.heard(Moved) == []
    assert program.said().count(reason) == 1
    assert program.said().count("cannot be suspended") == 1
    program.say(f"peek {address}")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 2))
    assert program.answer() == ["0", "5"]


NO_EXPORTS = "-fvisibility=hidden"
GNU_ONLY = "-Wl,--hash-style=gnu"


@pytest.mark.parametrize("flags", [(), (NO_EXPORTS, GNU_ONLY), (NO_EXPORTS, "-Wl,--hash-style=both")], ids=" ".join)
def test_a_program_that_is_linked_with_an_unknown_function_of_the_driver_is_not_suspended(
    on_card: Programs, scheduler: FakeScheduler, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    library = importing(tmp_path, UNKNOWN, *flags)
    preload = f"{on_card.environment['LD_PRELOAD']}:{library}"
    keeps_native_memory(*start(on_card, scheduler, LD_PRELOAD=preload))


@pytest.mark.parametrize("code", ["-fPIC", "-fno-pie"])
@pytest.mark.parametrize("text", [CALLED, TAKEN], ids=["called", "taken"])
def test_a_program_at_a_fixed_address_that_is_linked_with_an_unknown_function_is_not_suspended(
    on_card: Programs, scheduler: FakeScheduler, tmp_path: Path, text: str, code: str
) -> None:
    """With -fPIC it exports nothing; otherwise, an import whose address it takes is in the hash table."""
    program = program_importing(tmp_path, text, code)
    keeps_native_memory(*start(on_card, scheduler, program, "dlsym"))


def test_a_program_with_a_library_that_does_not_tell_the_number_of_its_symbols_is_not_suspended(
    on_card: Programs, scheduler: FakeScheduler, tmp_path: Path
) -> None:
    source, library = tmp_path / "empty.c", tmp_path / "empty.so"
    source.write_text("int empty(void) { return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", NO_EXPORTS, GNU_ONLY, source, "-o", library], check=True)
    preload = f"{on_card.environment['LD_PRELOAD']}:{library}"
    keeps_native_memory(*start(on_card, scheduler, LD_PRELOAD=preload), "a library whose imports nvshare cannot read")


@pytest.mark.parametrize("flags", [(), (NO_EXPORTS,)], ids=" ".join)
def test_a_program_that_is_linked_with_known_functions_is_suspended(
    on_card: Programs, scheduler: FakeScheduler, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    library = importing(tmp_path, "cuProfilerStart", *flags)
    program, peer, _ = start(on_card, scheduler, LD_PRELOAD=f"{on_card.environment['LD_PRELOAD']}:{library}")
    suspend(peer)
    assert "cannot be suspended" not in program.said()

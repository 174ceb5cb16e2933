"""Living through everything: no daemon, a dying one, a hostile one, fork, closed descriptors, and not being wanted."""

import contextlib
import random
import socket
import sys
import time
from pathlib import Path

import pytest
from fake_scheduler import FakeScheduler
from programs import CHECKS, MIB, Programs, wait_until

from nvshare.wire.codec import encode
from nvshare.wire.messages import ClaimState, DropLock, LockOk, LockReleased, Register, ReqLock, SchedOn, WaitForMem


def test_without_a_daemon_the_program_runs_says_so_once_and_joins_when_there_is_one(
    programs: Programs, tmp_path: Path
) -> None:
    program = programs.start(NVSHARE_RECONNECT_MS="50")
    program.do("init 0")
    program.do("spin 1 100")
    program.do(f"alloc {MIB}")
    assert program.said().count("running unshared") == 1
    with FakeScheduler(tmp_path / "scheduler.sock") as scheduler:
        peer, register = scheduler.welcome()
        assert register.entries[0].state == ClaimState.UNSHARED
        assert register.entries[0].swappable == MIB
        program.do("spin 1 1")  # still open: LOCK_OK follows
        peer.send(LockOk(0, False, 3), DropLock(0, 1, 1000, 3))
        assert peer.expect(LockReleased).lock == 3
        program.say("spin 1 1")
        peer.expect(ReqLock)
        assert program.is_silent(0.1)
    wait_until(lambda: len(program.said().splitlines()) == 2, what="two lines: alone, and lost")


def test_a_daemon_that_does_not_answer_is_waited_for_briefly(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVSHARE_JOIN_MS="200")
    program.say("init 0")
    peer = scheduler.accept()
    peer.expect(Register)
    program.answer()
    began = time.monotonic()
    program.do("spin 1 1")
    assert time.monotonic() - began < 2
    peer.send(SchedOn(0, 1, 1), LockOk(0, False, 4), DropLock(0, 1, 1000, 4))  # it only was slow
    assert peer.expect(LockReleased).lock == 4


def test_a_daemon_too_crowded_to_take_the_call_is_waited_for_briefly(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    scheduler.server.listen(0)
    with contextlib.ExitStack() as crowd:
        for _ in range(64):
            one = crowd.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
            with contextlib.suppress(BlockingIOError):
                one.connect(str(scheduler.path))
        program = programs.start(NVSHARE_JOIN_MS="200")
        program.do("init 0")
        program.do("spin 1 1", timeout=5)


def test_a_waiter_goes_on_in_bounded_time_when_the_daemon_dies(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVSHARE_ORPHAN_WAIT_MS="300")
    program.say("init 0")
    peer, _ = scheduler.welcome()
    program.answer()
    program.say("spin 1 1")
    peer.expect(ReqLock)
    began = time.monotonic()
    scheduler.die()
    assert program.answer(timeout=5)[0] == "0"
    assert 0.2 < time.monotonic() - began < 2
    program.do("spin 1 1")


def test_a_daemon_that_stops_answering_is_taken_for_dead(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVSHARE_SILENCE_MS="300", NVSHARE_ORPHAN_WAIT_MS="200", NVSHARE_RECONNECT_MS="5000")
    program.say("init 0")
    peer, _ = scheduler.welcome()
    program.answer()
    program.say("spin 1 1")
    peer.expect(ReqLock)
    assert program.answer(timeout=10)[0] == "0"
    assert program.said().count("does not answer") == 1


def test_a_daemon_that_answers_is_waited_for_longer(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVSHARE_SILENCE_MS="100", NVSHARE_ORPHAN_WAIT_MS="100")
    program.say("init 0")
    peer, _ = scheduler.welcome()
    program.answer()
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(WaitForMem(0, 1))
    assert program.is_silent(0.6)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"


def test_who_gave_its_lock_back_before_the_daemon_died_claims_none_and_asks_again(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program = programs.start()
    program.say("init 0")
    peer, _ = scheduler.welcome()
    program.answer()
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 9))
    program.answer()
    peer.send(DropLock(0, 1, 1000, 9))
    peer.expect(LockReleased)
    peer.close()
    peer, register = scheduler.welcome()
    assert register.entries[0].state == ClaimState.IDLE
    program.say("spin 1 1")
    peer.expect(ReqLock)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x00" * 16,
        b"\xff\xff\x05\x00" * 8,
        b"\x04\x00\x05\x00",  # a LOCK_OK without its lock
        encode(LockOk(9, False, 1)),  # a GPU that there is not
        encode(ReqLock(0, 0, 0, 0)),  # a client's message
        encode(SchedOn(0, 1, 1))[:7],  # half a frame, and then nothing
        random.Random(4096).randbytes(4096),
    ],
)
def test_a_daemon_that_talks_nonsense_is_left_and_asked_again(
    programs: Programs, scheduler: FakeScheduler, nonsense: bytes
) -> None:
    program = programs.start(NVSHARE_JOIN_MS="200")
    program.say("init 0")
    peer, _ = scheduler.welcome()
    program.answer()
    peer.connection.sendall(nonsense)
    peer.connection.shutdown(1)
    peer, _ = scheduler.welcome()
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"
    program.finish()


def test_frames_a_byte_at_a_time_are_read(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start()
    program.say("init 0")
    peer = scheduler.accept()
    peer.expect(Register)
    for byte in encode(SchedOn(0, 1, 1)):
        peer.connection.sendall(bytes([byte]))
        time.sleep(0.001)
    program.answer()
    program.say("spin 1 1")
    peer.expect(ReqLock)
    for byte in encode(LockOk(0, False, 1)):
        peer.connection.sendall(bytes([byte]))
    assert program.answer()[0] == "0"


def test_a_forked_child_is_a_client_of_its_own_and_the_parent_is_undisturbed(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program = programs.start()
    program.say("init 0")
    parent, _ = scheduler.welcome()
    program.answer()
    program.say("fork")
    child, register = scheduler.welcome()
    assert register.entries[0].contexts <= 1
    answers = {tuple(program.answer()) for _ in range(2)}
    assert ("0", "0") in answers
    with pytest.raises(EOFError):  # the child leaves, and only the child
        child.drain()
    program.say("spin 1 1")
    parent.expect(ReqLock)
    parent.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"


def test_a_program_that_closes_all_descriptors_is_joined_again_and_its_files_stay_clean(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program = programs.start()
    program.say("init 0")
    peer, _ = scheduler.welcome()
    program.answer()
    program.do("closeall")
    with pytest.raises(EOFError):
        peer.drain()
    peer, _ = scheduler.welcome(timeout=10)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"


def test_disabled_it_is_as_if_not_there(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVSHARE_DISABLE="1")
    program.do("init 0")
    program.do("spin 1 10")
    assert len(list(Path(f"/proc/{program.process.pid}/task").iterdir())) == 1
    with pytest.raises(TimeoutError):
        scheduler.accept(timeout=0.2)
    program.finish()
    assert program.said() == ""


def test_a_program_without_cuda_has_no_thread_no_socket_and_no_line(programs: Programs) -> None:
    script = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None)\n"
        "assert libc.getpid() == os.getpid()\n"
        "assert not hasattr(libc, 'cuInit')\n"  # no driver is there: a program that looks must not be fooled
        "fds = [f'/proc/self/fd/{f}' for f in os.listdir('/proc/self/fd') if int(f) > 2]\n"
        "links = [os.readlink(fd) for fd in fds if os.path.exists(fd)]\n"
        "print(len(os.listdir('/proc/self/task')), sum('socket' in link for link in links))\n"
    )
    done = programs.run(sys.executable, "-c", script, LD_LIBRARY_PATH="")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 0\n", "")


@pytest.mark.parametrize("way", ["exit 3", "abort", "kill"])
def test_ending_never_hangs_and_tells_the_daemon(programs: Programs, scheduler: FakeScheduler, way: str) -> None:
    program = programs.start()
    program.say("init 0")
    peer, _ = scheduler.welcome()
    program.answer()
    program.say("spin 1 1")
    peer.expect(ReqLock)  # also from within a wait at the gate
    if way == "kill":
        program.process.kill()
    elif way == "abort":
        program.process.send_signal(6)
    else:
        peer.send(LockOk(0, False, 1))
        program.say(way)
    program.process.wait(5)
    with pytest.raises((EOFError, ConnectionResetError)):
        peer.drain()


def test_a_daemonising_program_keeps_a_high_descriptor_out_of_the_way(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program = programs.start(CHECKS / "lib_client", "dlsym")
    program.say("init 0")
    scheduler.welcome()
    program.answer()
    fds = Path(f"/proc/{program.process.pid}/fd")
    wait_until(lambda: any("socket" in str(fd.readlink()) for fd in fds.iterdir()))
    assert min(int(fd.name) for fd in fds.iterdir() if "socket" in str(fd.readlink())) > 900


MULTIPROCESSING = """
import ctypes, multiprocessing, sys
from ctypes import byref, c_size_t, c_void_p

def work(number):
    driver = ctypes.CDLL("libcuda.so.1")
    context, memory = c_void_p(), c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuCtxCreate_v2(byref(context), 0, 0) == 0
    assert driver.cuMemAlloc_v2(byref(memory), c_size_t(1 << 20)) == 0
    assert driver.cuMemsetD8_v2(memory, 1, c_size_t(4096)) == 0
    return number * number

if __name__ == "__main__":
    work(0)  # the parent is a CUDA program itself
    with multiprocessing.get_context(sys.argv[1]).Pool(4) as pool:
        print(sum(pool.map(work, range(16))))
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_works_by_every_method(programs: Programs, tmp_path: Path, method: str) -> None:
    (tmp_path / "pool.py").write_text(MULTIPROCESSING)
    done = programs.run(sys.executable, tmp_path / "pool.py", method)
    assert done.stdout == "1240\n", done.stderr


RAW_CLONE = """
import ctypes, os, signal
from ctypes import byref, c_size_t, c_void_p
libc, driver = ctypes.CDLL(None, use_errno=True), ctypes.CDLL("libcuda.so.1")
def use():
    context, memory = c_void_p(), c_void_p()
    ready = driver.cuInit(0), driver.cuCtxCreate_v2(byref(context), 0, 0)
    return (*ready, driver.cuMemAlloc_v2(byref(memory), c_size_t(4096)), driver.cuMemsetD8_v2(memory, 1, c_size_t(16)))
assert use() == (0, 0, 0, 0)
clone = 56 if os.uname().machine == "x86_64" else 220  # past every handler that fork would run
child = libc.syscall(clone, signal.SIGCHLD, 0, 0, 0, 0)
if child == 0:
    os._exit(0 if use() == (0, 0, 0, 0) else 1)
_, status = os.waitpid(child, 0)
print(status, use())
"""


def test_a_child_made_by_a_bare_clone_is_noticed(programs: Programs) -> None:
    done = programs.run(sys.executable, "-c", RAW_CLONE, timeout=20)
    assert done.stdout == "0 (0, 0, 0, 0)\n", done.stderr


def test_a_program_that_executes_another_leaves_nothing_to_it(programs: Programs, scheduler: FakeScheduler) -> None:
    script = (
        "import ctypes, os, sys\n"
        "driver = ctypes.CDLL('libcuda.so.1')\n"
        "assert driver.cuInit(0) == 0\n"
        "sys.stdin.readline()\n"
        "os.execv('/bin/sh', ['sh', '-c', 'ls -l /proc/$$/fd | grep -c socket; exit 4'])\n"
    )
    program = programs.start(sys.executable, "-c", script)
    peer, _ = scheduler.welcome()
    program.say("go")
    with pytest.raises(EOFError):
        peer.drain()
    assert program.answer() == ["0"]
    assert program.process.wait(10) == 4

"""Living through everything: no daemon, a dying one, a hostile one, fork, closed descriptors, and not being wanted."""

import contextlib
import errno
import random
import socket
import sys
import time
from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import CHECKS, MIB, Programs
from nvshare.wire.codec import encode
from nvshare.wire.messages import ClaimState, DropLock, LockOk, LockReleased, Register, ReqLock, SchedOn
from support.waiting import wait_until


def test_without_a_daemon_the_program_runs_says_so_once_and_joins_when_there_is_one(
    programs: Programs, tmp_path: Path
) -> None:
    program = programs.start(NVSHARE_RECONNECT_MS="50", NVSHARE_SOCKET=str(tmp_path / "later" / "scheduler.sock"))
    program.do("init 0")
    program.do("spin 1 100")
    program.do(f"alloc {MIB}")
    assert program.said().count("running unshared") == 1
    (tmp_path / "later").mkdir()
    with FakeScheduler(tmp_path / "later" / "scheduler.sock") as scheduler:
        peer, register = scheduler.welcome()
        assert register.entries[0].state == ClaimState.UNSHARED
        assert register.entries[0].swappable == MIB
        program.do("spin 1 1")  # still open: LOCK_OK follows
        peer.send(LockOk(0, False, 3), DropLock(0, 1, 1000, 3))
        assert peer.expect(LockReleased).lock == 3
        program.say("spin 1 1")
        peer.expect(ReqLock)
        assert program.waits()
    wait_until(lambda: len(program.said().splitlines()) == 2, what="two lines: alone, and lost")


def test_a_daemon_that_does_not_answer_is_waited_for_briefly(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVSHARE_JOIN_MS="200")
    program.say("init 0")
    peer = scheduler.accept()
    peer.expect(Register)
    program.answer()
    program.do("spin 1 1")
    peer.send(SchedOn(0, 1, 1), LockOk(0, False, 4), DropLock(0, 1, 1000, 4))  # it only was slow
    assert peer.expect(LockReleased).lock == 4


def test_a_daemon_too_crowded_to_take_the_call_is_waited_for_briefly(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    scheduler.server.listen(0)
    with contextlib.ExitStack() as crowd:
        newcomers = [crowd.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(64)]
        for one in newcomers:
            one.setblocking(False)
        answers = [one.connect_ex(str(scheduler.path)) for one in newcomers]
        assert errno.EAGAIN in answers, "the queue is full"
        program = programs.start(NVSHARE_JOIN_MS="200")
        program.do("init 0")
        program.do("spin 1 1")


def test_a_waiter_goes_on_in_bounded_time_when_the_daemon_dies(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVSHARE_ORPHAN_WAIT_MS="300")
    peer = scheduler.join(program)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    began = time.monotonic()
    scheduler.die()
    assert program.answer()[0] == "0"
    assert time.monotonic() - began > 0.2
    program.do("spin 1 1")


def test_a_client_that_released_its_lock_before_the_daemon_died_claims_none_and_asks_again(
    programs: Programs, scheduler: FakeScheduler
) -> None:
    program = programs.start()
    peer = scheduler.join(program)
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
    program = programs.start()
    peer = scheduler.join(program)
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
    peer.send_bytewise(encode(SchedOn(0, 1, 1)))
    program.answer()
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send_bytewise(encode(LockOk(0, False, 1)))
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
    peer = scheduler.join(program)
    program.do("closeall")
    with pytest.raises(EOFError):
        peer.drain()
    peer, _ = scheduler.welcome(timeout=60)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    peer.send(LockOk(0, False, 1))
    assert program.answer()[0] == "0"


def test_disabled_it_is_as_if_not_there(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(NVSHARE_DISABLE="1")
    program.do("init 0")
    program.do("spin 1 10")
    assert len(list(Path(f"/proc/{program.process.pid}/task").iterdir())) == 1
    program.finish()
    assert program.said() == ""
    with pytest.raises(BlockingIOError):
        scheduler.accept(timeout=0)


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
    peer = scheduler.join(program)
    program.say("spin 1 1")
    peer.expect(ReqLock)  # also from within a wait at the gate
    if way == "kill":
        program.process.kill()
    elif way == "abort":
        program.process.send_signal(6)
    else:
        peer.send(LockOk(0, False, 1))
        program.say(way)
    program.process.wait(60)
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
    wait_until(lambda: any("socket" in str(fd.readlink()) for fd in fds.iterdir()), "it has a socket")
    assert min(int(fd.name) for fd in fds.iterdir() if "socket" in str(fd.readlink())) > 900

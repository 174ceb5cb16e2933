"""Ctrl-C and `kill` on a program that waits for its turn: what docs/troubleshooting.md says."""

import signal
import sys
from pathlib import Path

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import Programs
from nvshare.wire.messages import LockOk, ReqLock
from support.interrupts import sigint_is_not_ignored as sigint_is_not_ignored
from support.waiting import wait_until

PYTHON = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert cuda.cuInit(0) == 0 and cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0
cuda.cuMemsetD8_v2(ctypes.c_uint64(0), 0, ctypes.c_size_t(1))
print("it went on", flush=True)
"""


def test_a_program_without_a_handler_ends_at_once(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start()
    peer = scheduler.join(program)
    program.say("spin 1 1")
    peer.expect(ReqLock)
    program.process.send_signal(signal.SIGINT)
    assert program.process.wait(20) == -signal.SIGINT


def test_python_is_interrupted_when_its_turn_comes(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(sys.executable, "-c", PYTHON)
    peer, _ = scheduler.welcome()
    peer.expect(ReqLock)
    program.process.send_signal(signal.SIGINT)
    status = Path(f"/proc/{program.process.pid}/status")
    wait_until(lambda: "ShdPnd:\t0000000000000000" in status.read_text(), "Python has taken the signal")
    peer.deliver()
    assert program.process.poll() is None
    peer.send(LockOk(0, False, 1))
    assert program.process.wait(20) == -signal.SIGINT
    assert "KeyboardInterrupt" in program.said()


def test_a_python_program_that_waits_is_ended_by_sigterm(programs: Programs, scheduler: FakeScheduler) -> None:
    program = programs.start(sys.executable, "-c", PYTHON)
    peer, _ = scheduler.welcome()
    peer.expect(ReqLock)
    program.process.terminate()
    assert program.process.wait(20) == -signal.SIGTERM

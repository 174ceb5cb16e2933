"""Programs that make other processes: by multiprocessing, by a bare clone, by executing another."""

import sys
from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import CHECKS, NOT_INSTALLED, Programs

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
    done = programs.run(sys.executable, tmp_path / "pool.py", method, NVSHARE_SOCKET=NOT_INSTALLED)
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
    done = programs.run(sys.executable, "-c", RAW_CLONE, timeout=60, NVSHARE_SOCKET=NOT_INSTALLED)
    assert done.stdout == "0 (0, 0, 0, 0)\n", done.stderr


@pytest.mark.parametrize("moment", ["options", "setup"])
def test_a_child_that_is_forked_while_the_library_is_being_set_up_sets_itself_up(
    programs: Programs, scheduler: FakeScheduler, moment: str
) -> None:
    program = programs.start(CHECKS / "lib_fork", moment)
    child, _ = scheduler.welcome()
    assert program.answer() == ["used"]
    child.deliver()
    program.say("go")
    scheduler.welcome()  # the program itself goes on
    assert program.answer() == ["1"], program.said()


@pytest.mark.parametrize("moment", ["clone", "handler"])
def test_a_child_that_uses_the_driver_twice_at_once_or_in_a_handler_and_after_it_is_set_up_once(
    programs: Programs, scheduler: FakeScheduler, moment: str
) -> None:
    program = programs.start(CHECKS / "lib_fork", moment)
    scheduler.welcome()
    child, _ = scheduler.welcome()
    assert program.answer() == ["used"]
    child.deliver()
    program.say("go")
    assert program.answer() == ["1"], program.said()


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
    assert program.process.wait(60) == 4

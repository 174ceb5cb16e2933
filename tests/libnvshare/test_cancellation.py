"""A program may cancel its threads at any time: no lock of ours is left behind, and nothing is counted that is gone."""

import re
from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import CHECKS, Programs
from libnvshare.restless import Restless

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", ["deferred", "asynchronous"])
def test_threads_cancelled_in_the_middle_of_calls_leave_no_lock_and_no_count_behind(
    programs: Programs, scheduler: FakeScheduler, kind: str
) -> None:
    restless = Restless(scheduler, seed=7)
    done = programs.run_until(lambda: restless.drops >= 100, CHECKS / "lib_cancel", kind)
    assert done.returncode == 0, done.stdout + done.stderr
    restless.thread.join(60)
    assert restless.drops >= 100


CANCELLATION_POINTS = re.compile(
    r"(?<![\w.>])(accept|close|connect|fsync|nanosleep|open|openat|poll|ppoll|pread|pwrite|read|readv|recv|recvfrom|recvmsg"
    r"|select|send|sendmsg|sendto|sleep|usleep|wait|waitpid|write|writev)\("
)
NOT_CODE = re.compile(r'/\*.*?\*/|"[^"\n]*"', re.DOTALL)
OWN_THREADS = {"helper/session.c", "helper/deputy.c", "base/options.c"}
"""Threads of the library, which nobody cancels; and its start, before the program has threads."""


def test_threads_of_the_program_meet_no_cancellation_point_of_libc() -> None:
    """glibc 2.36: in one of these, a signal that was sent before the library deferred cancellation ends the thread,
    whatever locks it holds."""
    library = ROOT / "native" / "libnvshare"
    found = {
        f"{path.relative_to(library)}: {call.group(1)}"
        for path in library.rglob("*.[ch]")
        if str(path.relative_to(library)) not in OWN_THREADS
        for call in CANCELLATION_POINTS.finditer(NOT_CODE.sub("", path.read_text()))
    }
    assert found == set()

"""A program may cancel its threads at any time: no lock of ours is left behind, and nothing is counted that is gone."""

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import CHECKS, Programs
from libnvshare.restless import Restless


@pytest.mark.parametrize("kind", ["deferred", "asynchronous"])
def test_threads_cancelled_in_the_middle_of_calls_leave_no_lock_and_no_count_behind(
    programs: Programs, scheduler: FakeScheduler, kind: str
) -> None:
    restless = Restless(scheduler, seed=7)
    done = programs.run_until(lambda: restless.drops >= 100, CHECKS / "lib_cancel", kind)
    assert done.returncode == 0, done.stdout + done.stderr
    restless.thread.join(60)
    assert restless.drops >= 100

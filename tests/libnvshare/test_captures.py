"""Captures under a scheduler that takes the lock back every few milliseconds, on a simulated driver that minds."""

import re

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import CHECKS, GIB, Programs
from libnvshare.restless import Restless


@pytest.mark.parametrize(("how", "threads"), [("threads", 2), ("legacy", 1)])
def test_hundreds_of_captures_in_each_mode_survive_locks_dropped_at_random(
    on_card: Programs, scheduler: FakeScheduler, how: str, threads: int
) -> None:
    restless = Restless(scheduler, seed=600)
    command = CHECKS / "lib_capture", "600", str(2 * GIB), how
    done = on_card.run_until(lambda: restless.drops >= 100, *command, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    captures = re.search(r"captures by mode: (\d+) (\d+) (\d+)", done.stdout)
    assert captures is not None
    assert all(int(count) >= threads * 200 for count in captures.groups())
    assert restless.drops >= 100

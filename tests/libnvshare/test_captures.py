"""Captures under a scheduler that takes the lock back every few milliseconds, on a simulated driver that minds."""

import pytest
from fake_scheduler import FakeScheduler
from programs import CHECKS, GIB, Programs
from restless import Restless


@pytest.mark.parametrize(("how", "times", "modes"), [("threads", 600, "400 400 400"), ("legacy", 600, "200 200 200")])
def test_a_thousand_captures_in_all_modes_survive_locks_dropped_at_random(
    on_card: Programs, scheduler: FakeScheduler, how: str, times: int, modes: str
) -> None:
    restless = Restless(scheduler, seed=times)
    done = on_card.run(CHECKS / "lib_capture", str(times), str(2 * GIB), how, timeout=90)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"captures by mode: {modes}" in done.stdout
    assert restless.drops >= 50

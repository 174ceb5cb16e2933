"""Threads that do everything at once under a scheduler that takes the lock back every few milliseconds: not one kernel,
copy or memset may run outside a turn. The card's trace says when each ran, the scheduler when each turn was."""

from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import CHECKS, Programs
from libnvshare.restless import Restless
from nvshare.simgpu.trace import Kind, read_traces, trespasses


@pytest.mark.parametrize(("threads", "seed"), [(1, 11), (2, 12), (8, 13)])
def test_nothing_runs_outside_a_turn(
    on_card: Programs, scheduler: FakeScheduler, tmp_path: Path, threads: int, seed: int
) -> None:
    restless = Restless(scheduler, seed)
    command = CHECKS / "lib_storm", str(threads), str(seed)
    done = on_card.run_until(lambda: restless.drops >= 200, *command, NVSHARE_SIM_TRACE="1")
    assert done.returncode == 0, done.stdout + done.stderr
    restless.thread.join(60)
    (trace,) = read_traces(tmp_path / "gpus")
    work = trace.of_kind(Kind.KERNEL, Kind.COPY, Kind.MEMSET)
    outside = trespasses(
        [trace], {(trace.process, trace.uuids[0]): restless.holds}, (Kind.KERNEL, Kind.COPY, Kind.MEMSET)
    )
    assert len(work) >= 200
    assert restless.drops >= 200
    assert outside == [], f"{len(outside)} of {len(work)}"

"""Threads that do everything at once under a scheduler that takes the lock back every few milliseconds: not one kernel,
copy or memset may run outside a turn. The card's trace says when each ran, the scheduler when each turn was."""

from pathlib import Path

import pytest
from fake_scheduler import FakeScheduler
from programs import CHECKS, Programs
from restless import Restless

from nvshare.simgpu.trace import Kind, read_traces, trespasses


@pytest.mark.parametrize(("threads", "seed"), [(1, 11), (2, 12), (8, 13)])
def test_nothing_runs_outside_a_turn(
    on_card: Programs, scheduler: FakeScheduler, tmp_path: Path, threads: int, seed: int
) -> None:
    restless = Restless(scheduler, seed)
    done = on_card.run(CHECKS / "lib_storm", str(threads), "2500", str(seed), timeout=60, NVSHARE_SIM_TRACE="1")
    assert done.returncode == 0, done.stdout + done.stderr
    restless.thread.join(10)
    (trace,) = read_traces(tmp_path / "gpus")
    work = trace.of_kind(Kind.KERNEL, Kind.COPY, Kind.MEMSET)
    outside = trespasses(
        [trace], {(trace.process, trace.uuids[0]): restless.holds}, (Kind.KERNEL, Kind.COPY, Kind.MEMSET)
    )
    assert len(work) > 200
    assert restless.drops > 50
    assert outside == [], f"{len(outside)} of {len(work)}"

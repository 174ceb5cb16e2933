"""Simulated worlds keep their laws, repeat exactly, and notice when a law is broken."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.gpu import Gpu
from nvshare.core.limits import SharedLimit
from nvshare.core.model import SECOND
from nvshare.sim.worlds import gate
from nvshare.sim.worlds.faults import BrokenWorldError, play
from nvshare.sim.worlds.process import Process
from nvshare.sim.worlds.world import World

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(6))
def test_no_law_is_broken(seed: int) -> None:
    assert play(seed, 1500).steps >= 1500


def test_a_seed_gives_the_same_world_again() -> None:
    assert play(3, 800) == play(3, 800)
    assert play(3, 800).digest != play(4, 800).digest


def broken(seeds: range, steps: int = 1200) -> BrokenWorldError | None:
    for seed in seeds:
        try:
            play(seed, steps)
        except BrokenWorldError as error:
            return error
    return None


def test_a_core_that_gives_a_budget_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    recall = SharedLimit._recall

    def forget(self: SharedLimit, now: int, share: object, keep: int, out: list[ac.Action]) -> None:
        recall(self, now, share, keep, out)  # type: ignore[arg-type]
        share.budget = share.used  # type: ignore[attr-defined]

    monkeypatch.setattr(SharedLimit, "_recall", forget)
    error = broken(range(20), 600)
    assert error is not None
    assert "believes in more budget" in str(error)
    assert f"seed {error.seed}, step {error.step}" in str(error)


def test_a_core_that_forgets_a_waiting_client_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    switch = Gpu._switch
    monkeypatch.setattr(Gpu, "_switch", lambda self, now, out: None)
    assert switch is not Gpu._switch
    assert broken(range(20)) is not None


def test_a_gate_that_keeps_what_it_never_claimed_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As libnvshare's once did."""

    def keep(self: gate.Turn, first: bool) -> None:
        if not (first and self.state in (gate.State.HOLDING, gate.State.UNSHARED)):
            self._become(gate.State.NONE)

    monkeypatch.setattr(gate.Turn, "scheduling_on", keep)
    error = broken(range(60))
    assert error is not None
    assert "UNSHARED" in str(error)


def test_a_lock_given_back_to_nobody_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As libnvshare once did when the last context went while the scheduler was away."""

    def give_back(self: Process, gpu: str) -> None:
        place = self.places[gpu]
        if place.had_contexts and not place.contexts and not place.has_waiters and place.turn.give_back():
            self._drain(gpu)
        place.had_contexts = place.contexts > 0

    monkeypatch.setattr(Process, "look_at_contexts", give_back)
    error = broken(range(60))
    assert error is not None
    assert "speaks to nobody" in str(error)


def test_a_lock_kept_while_the_scheduler_was_away_is_given_back_when_it_is_there_again() -> None:
    world = World(0)
    process = Process(99, "run/a", 0, ["g0"], world)
    world.processes = {99: process}
    world.connect(process)
    process.work("g0")
    world.is_calm = True
    world.play(until=world.now + 2 * SECOND)
    process.work("g0")
    world.play(until=world.now + SECOND)
    lock = process.places["g0"].turn.lock
    world.kill_daemon()
    process.end_contexts("g0")
    assert lock
    assert process.places["g0"].turn.is_open
    world.start_daemon()
    world.play(until=world.now + 5 * SECOND)
    released = [event for _, event, _ in world.journal if isinstance(event, ev.LockReleased)]
    assert [(event.lock, event.again) for event in released] == [(lock, False)]
    assert process.places["g0"].turn.state is gate.State.NONE


def test_soak_plays_the_world_of_a_seed() -> None:
    words = [sys.executable, ROOT / "tools" / "soak.py", "--seed", "0", "--steps", "100"]
    paths = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=dict(os.environ) | paths)
    assert done.returncode == 0, done.stderr
    assert "1 worlds" in done.stdout


def test_worlds_are_no_idle_ones() -> None:
    """Every kind of action is seen within a few worlds."""
    seen: set[str] = set()

    class Watched(World):
        def tell_node(self, event: object) -> None:
            super().tell_node(event)  # type: ignore[arg-type]
            if self.node is not None:
                seen.update(type(action).__name__ for action in self.journal[-1][2])

    from nvshare.sim.worlds import faults

    for seed in range(4):
        world = Watched(seed)
        faults._fail_soon(world)
        world.play(steps=1500)
    wanted = {"GiveLock", "DropLock", "QueueClient", "AnnounceRoom", "TellContended", "UpdateLimit", "GiveBudget",
              "RecallBudget", "EndTurn", "SwitchScheduling", "ReportLimit"}  # fmt: skip
    assert wanted <= seen

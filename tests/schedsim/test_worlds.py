"""Simulated worlds keep their laws, repeat exactly, and notice when a law is broken."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nvshare.client_machine.library import TurnState
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.gpu import Gpu
from nvshare.core.limits.claim_sharing import ClaimSharing
from nvshare.core.limits.limit_members import Share
from nvshare.core.limits.shared_limit import SharedLimit
from nvshare.core.model import GIB, MIB, SECOND
from nvshare.core.node import Node
from nvshare.core.queue.preemption import Preemption
from nvshare.schedsim.worlds import faults
from nvshare.schedsim.worlds.daemon import Daemon
from nvshare.schedsim.worlds.faults import BrokenWorldError, play
from nvshare.schedsim.worlds.mover import Mover
from nvshare.schedsim.worlds.process import Process
from nvshare.schedsim.worlds.week import Week
from nvshare.schedsim.worlds.world import GPUS, LONG_QUANTUM_NS, World

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("seed", range(6))
def test_no_law_is_broken(seed: int) -> None:
    assert play(seed, 1500).steps >= 1500


def test_a_seed_gives_the_same_world_again() -> None:
    assert play(3, 800) == play(3, 800)
    assert play(3, 800).digest != play(4, 800).digest


def test_a_scheduler_that_starts_with_its_clock_set_back_far_breaks_no_law() -> None:
    world = World(3)
    world.daemon.kill()
    world.daemon.clock_error = 3600 * SECOND
    world.daemon.start()
    world.play(until=20 * SECOND)
    assert world.daemon.node is not None
    assert world.daemon.node.clients


def broken(seeds: range, steps: int = 1200) -> BrokenWorldError | None:
    for seed in seeds:
        try:
            play(seed, steps)
        except BrokenWorldError as error:
            return error
    return None


def test_a_core_that_gives_a_budget_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    recall = SharedLimit._recall

    def forget(self: SharedLimit, share: Share, keep: int, out: list[ac.Action]) -> None:
        recall(self, share, keep, out)
        self.members.change(share, budget=share.used, used=share.used, keep=keep)

    monkeypatch.setattr(SharedLimit, "_recall", forget)
    error = broken(range(20), 600)
    assert error is not None
    assert "believes in more budget" in str(error)
    assert f"seed {error.seed}, step {error.step}" in str(error)


def test_a_core_whose_pods_do_not_share_a_claim_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClaimSharing, "_merge", lambda self, group, gpu: None)
    error = broken(range(1, 20, 4), 600)
    assert error is not None
    assert "does not share" in str(error)


def test_a_core_that_forgets_a_waiting_client_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Preemption, "switch", lambda self, now, out: None)
    assert broken(range(20)) is not None


def test_a_core_that_tells_a_lock_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it once did when a request crossed its lock."""
    note = Node._note_requested

    def tell_again(self: Node, now: int, event: ev.LockRequested, out: list[ac.Action]) -> None:
        note(self, now, event, out)
        seat = self.clients[event.client].seats[event.gpu]
        if seat.lock:
            out.append(ac.GiveLock(event.client, event.gpu, seat.lock, False))

    monkeypatch.setattr(Node, "_note_requested", tell_again)
    error = broken(range(60))
    assert error is not None
    assert "was given twice" in str(error)


def test_a_core_that_counts_a_move_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    note = Gpu.note

    def count_again(self: Gpu, now: int, event: ev.MemoryMoved) -> None:
        note(self, now, event)
        if isinstance(event, ev.MemoryMoved):
            note(self, now, event)

    monkeypatch.setattr(Gpu, "note", count_again)
    error = broken(range(20))
    assert error is not None
    assert "counted were" in str(error)


def test_worlds_fail_while_memory_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process dies while it moves out, a scheduler while somebody does, and memory is freed while it moves."""
    seen: set[str] = set()

    def watch(owner: type, name: str, moves: Callable[..., list[Mover]]) -> None:
        real = getattr(owner, name)

        def watched(self: Any, *args: Any) -> None:
            seen.update(f"{owner.__name__} {name} {mover.to_host}" for mover in moves(self, *args) if mover.is_moving)
            real(self, *args)

        monkeypatch.setattr(owner, name, watched)

    watch(World, "kill", lambda _, process: [use.mover for use in process.uses.values()])
    watch(Process, "free", lambda process, gpu, _: [process.uses[gpu].mover])
    worlds: list[World] = []
    watch(Daemon, "kill", lambda _: [use.mover for one in worlds[-1].processes.values() for use in one.uses.values()])
    wanted = {"World kill True", "Daemon kill True", "Process free True", "Process free False"}
    for seed in range(40):
        if not wanted <= seen:
            worlds.append(World(seed))
            faults._fail_soon(worlds[-1])
            worlds[-1].play(steps=1500)
    assert wanted <= seen


def test_a_lock_kept_while_the_scheduler_was_away_is_given_back_when_it_is_there_again() -> None:
    world = World(0)
    for process in list(world.processes.values()):
        world.kill(process)
    process = Process(99, "run/a", 0, [GPUS[0]], world)
    world.processes[99] = process
    process.work(GPUS[0])
    world.chance.is_calm = True
    world.play(until=world.now + 2 * SECOND)
    process.work(GPUS[0])
    world.play(until=world.now + SECOND)
    lock = process.machine.turns[0].lock
    world.daemon.kill()
    process.end_contexts(GPUS[0])
    assert lock
    assert process.uses[GPUS[0]].is_open
    world.daemon.start()
    world.play(until=world.now + 5 * SECOND)
    released = [event for _, event, _ in world.daemon.journal if isinstance(event, ev.LockReleased)]
    assert [(event.lock, event.again) for event in released] == [(lock, False)]
    assert process.machine.state(0) is TurnState.NONE


def test_hours_with_many_clients_end_with_all_agreed_and_nothing_left() -> None:
    """The short form of `python tools/soak.py --week`."""
    week = Week(2, clients=200)
    hours = list(week.hours(6))
    assert max(hour.clients for hour in hours) == 200
    assert all(hour.longest_wait_s > 3600 for hour in hours[1:])  # not only until the first ones have finished
    assert hours[-1].memory_bytes - hours[0].memory_bytes < MIB
    week.end()


def test_a_wait_of_an_hour_keeps_its_place() -> None:
    """Four programs of 60 GiB on a card of 80 GiB, turns of 1200 s: a client that waits is admitted within the core's
    own bound."""

    class Big(World):
        card = 80 * GIB

    world = Big(6)
    world.chance.is_calm = True
    for process in list(world.processes.values()):
        world.kill(process)
    node = world.daemon.node
    assert node is not None
    world.daemon.tell(ev.GpuFound(GPUS[0], Big.card))
    world.daemon.tell(ev.QuantumSet(LONG_QUANTUM_NS))
    processes = [Process(100 + number, f"run/{number}", 0, [GPUS[0]], world) for number in range(4)]
    for process in processes:
        world.processes[process.pid] = process
        process.allocate(GPUS[0], 60 * GIB)
        process.work(GPUS[0])
    began = world.now
    turns = {process.pid: process.uses[GPUS[0]] for process in processes}
    bound = node.gpus[GPUS[0]].longest_wait_ns(len(processes))
    assert bound > 3600 * SECOND
    connections = None
    longest = 0
    while world.now < began + 3 * bound:
        world.play(until=world.now + 60 * SECOND)
        connections = connections or [process.connection for process in processes]
        waits = [world.now - use.waits_since for use in turns.values() if use.waits_since is not None]
        longest = max([longest, *waits])
    assert 3600 * SECOND - 60 * SECOND <= longest <= bound
    assert [process.connection for process in processes] == connections
    assert min(use.worked for use in turns.values()) >= 2


def test_soak_plays_the_world_of_a_seed() -> None:
    words = [sys.executable, str(ROOT / "tools" / "soak.py"), "--seed", "0", "--steps", "100"]
    paths = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=dict(os.environ) | paths)
    assert done.returncode == 0, done.stderr
    assert "1 worlds" in done.stdout


def test_worlds_are_no_idle_ones() -> None:
    """Every kind of action is seen within a few worlds."""
    seen: set[str] = set()
    for seed in range(4):
        world = World(seed)
        faults._fail_soon(world)
        while world.daemon.steps < 1500:
            world.play(steps=world.daemon.steps + 1)
            seen.update(type(action).__name__ for _, _, actions in world.daemon.journal for action in actions)
    wanted = {"GiveLock", "DropLock", "QueueClient", "AnnounceRoom", "TellContended", "UpdateLimit", "GiveBudget",
              "RecallBudget", "EndTurn", "SwitchScheduling", "ReportLimit", "MoveIn", "MoveOut"}  # fmt: skip
    assert wanted <= seen

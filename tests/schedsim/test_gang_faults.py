"""A process of a job dies, hangs, leaves its GPU or loses its connection, in every phase of a turn. Everybody else goes
on within the bound of core.modes.mode, and no healthy process loses a lock by revocation.

A job of four processes on a GPU each, beside a client on each; no two fit together. They always have work. The member
to which something happens takes longest to drain, so the others let work through meanwhile."""

from collections import deque
from uuid import UUID

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND, SECOND
from nvshare.core.node import Node
from nvshare.schedsim.worlds.gpu_use import GpuUse
from nvshare.schedsim.worlds.process import Process
from nvshare.schedsim.worlds.world import CARD, World

CARDS = [f"GPU-{UUID(int=number)}" for number in (1, 2, 3, 4)]
QUANTUM_NS = 2 * SECOND
DRAIN_NS = 5 * MILLISECOND
LONG_DRAIN_NS = 50 * MILLISECOND
FCFS_SEED = 1
"""A world of policy fcfs, whose horizon is 0."""
LOOK_NS = 200 * MILLISECOND
VICTIM = 2
CLIENTS = 2 * len(CARDS)


class JobWorld(World):
    """Nothing fails by itself."""

    def __init__(self, *, are_stuck: bool = False) -> None:
        self.members: list[Process] = []
        super().__init__(FCFS_SEED)
        for process in list(self.processes.values()):
            self.kill(process)
        self.chance.is_calm = True
        self.are_stuck = are_stuck
        """Once something has happened to the victim, kernels of the other members wait for it for ever."""
        self.has_happened = False
        self.daemon.journal = deque()
        for gpu in CARDS:
            self.daemon.tell(ev.GpuFound(gpu, CARD))
        self.daemon.tell(ev.QuantumSet(QUANTUM_NS))
        self.members = [self._start(100 + number, "run/job", gpu) for number, gpu in enumerate(CARDS)]
        for member in self.members:
            member.machine.use_collectives()
        self.others = [self._start(200 + number, f"run/{number}", gpu) for number, gpu in enumerate(CARDS)]
        self.victim = self.members[VICTIM]

    def _start(self, pid: int, group: str, gpu: str) -> Process:
        process = self.processes[pid] = Process(pid, group, 0, [gpu], self)
        process.allocate(gpu, 10 * GIB)
        process.work(gpu)
        return process

    def drain_later(self, process: Process, use: GpuUse) -> None:
        if self.has_happened and self.are_stuck and process in self.members:
            return
        is_victim = process in self.members[VICTIM : VICTIM + 1]
        number = use.drains
        drain_ns = LONG_DRAIN_NS if is_victim else DRAIN_NS
        self.timeline.at(drain_ns, lambda: process.do(lambda: process.drained(use, number)))

    @property
    def node(self) -> Node:
        assert self.daemon.node is not None
        return self.daemon.node

    def states(self) -> dict[str, str]:
        """Of the job's seats by GPU."""
        jobs = [gang for gang in self.node.gangs.all.values() if gang.is_job]
        return {uuid: seat.state for gang in jobs for uuid, seat in gang.seats.items()}

    def actions(self) -> list[ac.Action]:
        return [action for _, _, actions in self.daemon.journal for action in actions]

    def last(self) -> list[tuple[int, ev.Event, tuple[ac.Action, ...]]]:
        """The last step."""
        return [self.daemon.journal[-1]] if self.daemon.journal else []

    def revoked(self) -> set[str]:
        return {
            one.gpu + " job" * (one.client in {m.connection.client for m in self.members if m.connection})
            for one in self.actions()
            if isinstance(one, ac.EndTurn) and one.end == "revoked"
        }


def is_in(world: JobWorld, phase: str) -> bool:
    states = world.states()
    if len(states) < len(CARDS):
        return False
    if phase == "letting work through":
        return any(isinstance(action, ac.LetOne) for _, _, actions in world.last() for action in actions)
    if phase == "draining":
        return states[CARDS[VICTIM]] == "dropping"
    return set(states.values()) == {{"waiting": "waiting", "granted": "staying"}[phase]}


def reach(world: JobWorld, phase: str) -> None:
    """After some turns, so that all know each other."""
    world.play(until=world.now + 8 * SECOND)
    world.daemon.journal.clear()
    end = world.now + 60 * SECOND
    while not is_in(world, phase):
        assert world.now < end, f"{phase} is not reached: {world.states()}"
        world.play(steps=world.daemon.steps + 1)


def happen(world: JobWorld, fault: str) -> None:
    victim = world.victim
    world.has_happened = True
    if fault == "dies":
        world.kill(victim)
    elif fault == "is stopped":
        victim.stop()
    elif fault == "leaves its GPU":
        victim.end_contexts(CARDS[VICTIM])
        victim.stop_working(CARDS[VICTIM])
    else:
        world.daemon.cut(victim)


def longest_ns(world: JobWorld, graces: int) -> int:
    """The bound of core.modes.mode if so many drains take the grace time, so that the turns after them are longer, and
    all others take what they take here."""
    grace_ns = world.settings.grace_ns
    bound_ns = max(gpu.longest_gang_wait_ns(CLIENTS) for gpu in world.node.gpus.values())
    longer_ns = 2 * (world.node.gpus[CARDS[0]].turns.mode.longest_turn_ns - QUANTUM_NS) + grace_ns
    return bound_ns - (CLIENTS + 1) * (longer_ns - LONG_DRAIN_NS) + graces * longer_ns


def nobody_waits_longer(world: JobWorld, processes: list[Process], within_ns: int) -> None:
    """For twice that time. A client that waits at its end has had a turn meanwhile, or waits only since then."""
    uses = [(process, use) for process in processes for use in process.uses.values()]
    end = world.now + 2 * within_ns
    while world.now < end:
        world.play(until=world.now + LOOK_NS)
        waits = {
            process.pid: world.now - max(use.waits_since, process.went_on_at)
            for process, use in uses
            if use.waits_since is not None
        }
        assert max(waits.values(), default=0) <= within_ns, (waits, world.states())


PHASES = ("waiting", "granted", "draining", "letting work through")


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("fault", ["dies", "is stopped", "leaves its GPU", "loses its connection"])
def test_the_others_go_on_within_the_bound(fault: str, phase: str) -> None:
    world = JobWorld()
    reach(world, phase)
    world.daemon.journal.clear()
    happen(world, fault)
    is_silent = fault == "is stopped"
    healthy = [process for process in [*world.members, *world.others] if process is not world.victim]
    nobody_waits_longer(world, healthy, longest_ns(world, graces=is_silent))
    assert world.revoked() <= ({f"{CARDS[VICTIM]} job"} if is_silent else set())
    world.victim.go_on()
    if world.victim.is_alive:
        world.victim.work(CARDS[VICTIM])
        nobody_waits_longer(world, [world.victim, *healthy], longest_ns(world, graces=0))
        assert world.states().keys() == set(CARDS), "the job is complete again"


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("fault", ["dies", "is stopped"])
def test_other_clients_go_on_within_the_bound_beside_a_job_whose_kernels_never_end(fault: str, phase: str) -> None:
    """Kernels of the other members wait for one that is gone: each turn of theirs ends with the grace time."""
    world = JobWorld(are_stuck=True)
    reach(world, phase)
    world.daemon.journal.clear()
    happen(world, fault)
    nobody_waits_longer(world, world.others, longest_ns(world, graces=2))
    assert world.revoked()
    assert all(revoked.endswith("job") for revoked in world.revoked())


def test_a_wait_that_is_too_long_is_found_out() -> None:
    world = JobWorld()
    reach(world, "granted")
    with pytest.raises(AssertionError, match="waiting"):
        nobody_waits_longer(world, [*world.members, *world.others], QUANTUM_NS // 2)

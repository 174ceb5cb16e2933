"""Reading the state changes nothing, so a journal, which does not say who read it, replays with the same actions."""

import random

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot

REPORT_MS = 251
SMALL, BIG = Memory(10_000_000), Memory(9 * GIB)


class Story:
    """Clients with uneven weights and work. `steps` is what the core does and which ranks and tags clients have."""

    def __init__(self, clients: int) -> None:
        self.chance = random.Random(3)
        self.node = Node(
            Settings(policy="fair", quantum=QuantumRule("fixed", fixed_ns=SECOND)), epoch=1, is_paranoid=clients < 10
        )
        self.locks: dict[int, int] = {}
        self.steps: list[object] = []
        self.memory = {client: SMALL if client <= clients // 2 else BIG for client in range(1, clients + 1)}
        self.handle(0, ev.GpuFound("g0", 16 * GIB))
        for client, memory in self.memory.items():
            weight = self.chance.randrange(50, 400)
            claims = (Claim("g0", 16 * GIB),)
            self.handle(1, ev.ClientRegistered(client, f"run/{client}", "x", "x", claims, weight=weight))
            self.handle(1, ev.LockRequested(client, "g0", memory))

    def handle(self, ms: int, event: ev.Event) -> None:
        actions = self.node.handle(ms * MILLISECOND, event)
        for action in actions:
            if isinstance(action, ac.GiveLock):
                self.locks[action.client] = action.lock
            elif isinstance(action, ac.EndTurn):
                del self.locks[action.client]
        seats = self.node.gpus["g0"].turns.seats.values()
        self.steps.append((ms, event, actions, [(seat.rank, seat.won_rank, seat.tag) for seat in seats]))

    def pass_ms(self, ms: int) -> None:
        deadline = self.node.next_deadline()
        if deadline is not None and deadline <= ms * MILLISECOND:
            self.handle(ms, ev.AlarmRang())
        for client in self.memory:
            if (ms + 13 * client) % REPORT_MS == 0:
                busy = self.chance.getrandbits(REPORT_MS)
                self.handle(ms, ev.GpuTimeReported(client, "g0", ms - REPORT_MS, REPORT_MS, busy))
        if ms % 173 == 0 and self.locks:
            client = self.chance.choice(sorted(self.locks))
            self.handle(ms, ev.LockReleased(client, "g0", self.locks[client], bool(self.chance.randrange(2))))
        if ms % 89 == 0:
            client = self.chance.choice(list(self.memory))
            self.handle(ms, ev.LockRequested(client, "g0", self.memory[client]))


def steps(clients: int, reads_every_ms: int | None) -> list[object]:
    story = Story(clients)
    for ms in range(2, 6000):
        if reads_every_ms is not None and ms % reads_every_ms == 0:
            snapshot(story.node, ms * MILLISECOND)
        story.pass_ms(ms)
    return story.steps


@pytest.mark.parametrize("clients", [4, 40])
def test_no_decision_depends_on_who_reads_the_state(clients: int) -> None:
    """Of 40, more are busy than are divided up look by look (core.compute.look_bits.MOST_APART)."""
    undisturbed = steps(clients, None)
    assert steps(clients, 17) == undisturbed
    assert steps(clients, 97) == undisturbed


def test_the_gpu_time_that_is_read_after_it_was_asked_for_is_that_of_now() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", 16 * GIB))
    node.handle(0, ev.ClientRegistered(1, "run/1", "x", "x", (Claim("g0", 16 * GIB),)))
    node.handle(0, ev.LockRequested(1, "g0", SMALL))
    assert snapshot(node, 10 * SECOND).clients[0].seats[0].gpu_ns == 0
    assert node.handle(10 * SECOND, ev.GpuTimeAsked()) == []
    counted = snapshot(node, 10 * SECOND).clients[0].seats[0].gpu_ns
    assert 9 * SECOND < counted < 10 * SECOND

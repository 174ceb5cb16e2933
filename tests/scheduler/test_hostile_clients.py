"""Clients that say anything the wire can carry, in any order, against the core with all its checks on.

An AssertionError or KeyError that a client can cause ends the scheduler, so here is the search for one: what every
message means is asked of the real translation, and every action is turned into its frame."""

import random
from typing import Any

import pytest

from nvshare import translation
from nvshare.core import events as ev
from nvshare.core.actions import Action
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.model import SECOND, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot
from nvshare.journal import Step
from nvshare.scheduler.clients.identity import Peer, registrant_of
from nvshare.scheduler.observe.step_text import clients_of, describe
from nvshare.scheduler.observe.story import summary_of
from nvshare.wire import messages as wire
from nvshare.wire.codec import Decoder, encode
from support.client import GIB, entry, registration

SIZES = (0, 1, GIB, 3 * GIB, 8 * GIB, 15 * GIB, 16 * GIB, 1 << 56)
PODS = ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222")


class Receiver:
    """A client's side of a connection, as far as frames need it."""

    grace_ms = 10_000

    def __init__(self, gpus: tuple[str, ...]) -> None:
        self.gpus = gpus
        self.index_of = {gpu: index for index, gpu in enumerate(gpus)}
        self.locks = [0, 1]
        self.serials = [0, 1]
        self.decoder = Decoder(wire.FROM_SCHEDULER)

    def name_of(self, client: int) -> str:
        return f"\u00e9{client}" * 20

    def hear(self, frame: bytes) -> None:
        for message in self.decoder.feed(frame):
            if isinstance(message, (wire.LockOk, wire.DropLock)):
                self.locks.append(message.lock)
            if isinstance(message, (wire.Budget, wire.BudgetRecall)):
                self.serials.append(message.serial)


class Chaos:
    """One run: everything that happens is drawn from a seed."""

    def __init__(self, seed: int, policy: str) -> None:
        self.chance = random.Random(seed)
        rule = QuantumRule("fixed", fixed_ns=2 * SECOND) if seed % 2 else QuantumRule()
        settings = Settings(quantum=rule, policy=policy, grace_ns=SECOND, long_wait_ns=3 * SECOND)
        settles_at = 2 * SECOND if seed % 3 == 0 else None
        self.node = Node(settings, epoch=5, settles_at=settles_at, expects_pods=seed % 5 == 0, is_paranoid=True)
        self.now = 1
        self.clients: dict[int, Receiver] = {}
        self.ids = 0
        self.said: set[type[wire.Message]] = set()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.now += self.chance.choice((0, 1, 1000, SECOND // 10, SECOND, 5 * SECOND))
            self.ring()
            self.handle(self.event())
        for client in list(self.clients):
            self.handle(ev.ClientLeft(client))
            del self.clients[client]
        assert not self.node.clients

    def ring(self) -> None:
        """All alarms up to now, some of them late. Soon each moves the next one on, or the scheduler would spin."""
        rung_at, times = 0, 0
        while (deadline := self.node.next_deadline()) is not None and deadline <= self.now:
            at = max(rung_at, deadline if self.chance.random() < 0.8 else self.now)
            times = times + 1 if at == rung_at else 0
            rung_at = at
            self.handle(ev.AlarmRang(), at=at)
            assert times < 5, "the alarm rings again and again"

    def handle(self, event: ev.Event, at: int | None = None) -> None:
        actions = self.node.handle(self.now if at is None else at, event)
        for action in actions:
            self.perform(action)
        step = Step(self.now, 0.0, event, tuple(actions))
        assert all(line.isprintable() for line in describe(step))
        clients_of(step)
        if self.chance.random() < 0.05:
            seen = snapshot(self.node, self.now)
            for client in seen.clients:
                summary_of(seen, client.id)

    def perform(self, action: Action) -> None:
        frame_of = translation.FRAMES.get(type(action))
        if frame_of is not None:
            receiver = self.clients.get(action.client)  # type: ignore[attr-defined]
            if receiver is not None:
                receiver.hear(frame_of(action, receiver))

    def event(self) -> ev.Event:
        kinds = [self.joins, self.leaves, self.operates, self.annotates, self.measures]
        weights = [4, 2, 1, 1, 1]
        if self.clients:
            kinds.append(self.says)
            weights.append(60)
        return self.chance.choices(kinds, weights)[0]()

    def joins(self) -> ev.Event:
        chance = self.chance
        count = chance.choice((0, 1, 1, 2, 4))
        entries = [
            entry(
                number,
                state=chance.randrange(4),
                contexts=chance.choice((0, 1, 65535)),
                size=chance.choice(SIZES),
                lock=chance.choice((0, 1, 5 << 32 | 1, 5 << 32 | 7, (1 << 64) - 1)),
                swappable=chance.choice(SIZES),
                unswappable=chance.choice(SIZES),
                limit=chance.choice(SIZES),
                budget=chance.choice((*SIZES, wire.UNLIMITED, wire.UNLIMITED - 1)),
            )
            for number in chance.sample(range(4), count)
        ]
        message = registration(
            *entries,
            own_limit=chance.choice(SIZES),
            priority=chance.choice((-32768, 0, 32767)),
            weight=chance.choice((0, 1, 100, 65535)),
            name=chance.randbytes(48),
            run=chance.choice((bytes(16), b"a" * 16, b"b" * 16)),
        )
        peer = Peer(chance.randrange(1, 5), 0, -1, chance.choice((None, None, *PODS)), None, "python")
        self.ids += 1
        (heard,) = Decoder(wire.FROM_CLIENT).feed(encode(message))
        assert isinstance(heard, wire.Register)
        self.clients[self.ids] = Receiver(translation.gpus_of(heard))
        return translation.registration(registrant_of(self.ids, peer, heard.run, "uid/0"), heard)

    def leaves(self) -> ev.Event:
        if not self.clients:
            return self.joins()
        client = self.chance.choice(list(self.clients))
        del self.clients[client]
        return ev.ClientLeft(client)

    def says(self) -> ev.Event:
        chance = self.chance
        client = chance.choice(list(self.clients))
        receiver = self.clients[client]
        if not receiver.gpus:
            return self.leaves()
        index = chance.randrange(len(receiver.gpus))
        said = chance.choice(self.turn_messages(index, receiver) + self.other_messages(index))
        (message,) = Decoder(wire.FROM_CLIENT).feed(encode(said))
        self.said.add(type(message))
        event_of: Any = translation.EVENTS[type(message)]
        event: ev.Event = event_of(client, receiver.gpus[index], message)
        return event

    def turn_messages(self, index: int, receiver: Receiver) -> list[wire.Message]:
        """About locks and memory."""
        chance = self.chance
        memory = (chance.choice((0, 1, 65535)), chance.choice(SIZES), chance.choice(SIZES))
        serial = chance.choice(receiver.serials)
        return [
            wire.ReqLock(index, *memory),
            wire.ReqLock(index, 0, chance.choice(SIZES[:5]), 0),
            wire.LockReleased(index, chance.random() < 0.5, chance.choice(receiver.locks)),
            wire.LockReleased(index, chance.random() < 0.5, receiver.locks[-1]),
            wire.MemUpdate(index, *memory),
            wire.Idle(index),
            wire.Busy(index),
            wire.BudgetAsk(index, chance.randrange(1 << 32), chance.choice(SIZES)),
            wire.BudgetReturn(index, serial, chance.choice((*SIZES, wire.UNLIMITED)), chance.choice(SIZES)),
        ]

    def other_messages(self, index: int) -> list[wire.Message]:
        """About what the memory is, how it moves, and what the GPU does."""
        chance = self.chance
        now = self.now // LOOK_NS
        first = chance.choice((0, max(0, now - 300), now, now + 5, (1 << 64) - 1))
        busy = [chance.choice((0, (1 << 64) - 1, chance.getrandbits(64))) for _ in range(4)]
        took_ns = chance.choice((0, 1, SECOND // 1000, SECOND, (1 << 64) - 1))
        return [
            wire.Moved(index, chance.random() < 0.5, chance.choice(SIZES), took_ns),
            wire.RoomMade(index, chance.choice(SIZES)),
            wire.WorkingSet(index, chance.random() < 0.7, chance.choice(SIZES)),
            wire.Slowed(index, chance.choice((0, 1, 4, 8, 1000, 65535))),
            wire.OnHost(index, chance.choice(SIZES)),
            wire.Mover(index, chance.choice((0, 1, 2, 9))),
            wire.MemoryMode(index, chance.choice((0, 1, 2, 3, 77))),
            wire.Collective(index),
            wire.Drained(index),
            wire.GpuTime(index, chance.choice((0, 1, 100, wire.LOOKS_MOST)), first, *busy),
            wire.CoreLimit(index, chance.choice((0, 1, 5, 50, 99, 100))),
        ]

    def operates(self) -> ev.Event:
        chance = self.chance
        gpu = chance.choice((None, *self.node.gpus))
        group = chance.choice(list(self.node.groups) or ["pod/none"])
        events: list[ev.Event] = [
            ev.QuantumSet(chance.choice((1, 60)) * SECOND, gpu),
            ev.ModeSet("auto", gpu),
            ev.SchedulingSwitched(chance.random() < 0.7),
            ev.LimitSet(group, chance.choice((None, *SIZES))),
            ev.PolicySet(chance.choice(("fcfs", "fair", "priority"))),
            ev.WeightSet(group, chance.choice((None, 1, 1000))),
            ev.PrioritySet(group, chance.choice((None, -10, 10))),
            ev.PauseSet(chance.random() < 0.4, group),
            ev.PauseSet(chance.random() < 0.3, None, gpu or "GPU-none"),
            ev.YieldAsked(None, gpu),
        ]
        return chance.choice(events)

    def annotates(self) -> ev.Event:
        chance = self.chance
        limit = chance.choice((None, *SIZES))
        pod = chance.choice(PODS)
        events: list[ev.Event] = [
            ev.PodChanged(pod, "team/pod", limit, chance.choice((None, GIB)), chance.choice((None, 3)), None),
            ev.PodRemoved(pod),
            ev.ProcessEnded(chance.choice(list(self.node.groups) or ["process/none"])),
            ev.PodsListed(),
        ]
        return chance.choice(events)

    def measures(self) -> ev.Event:
        gpus = list(self.node.gpus)
        if not gpus:
            return self.joins()
        gpu = self.chance.choice(gpus)
        return self.chance.choice(
            (
                ev.MemoryMeasured(gpu, self.chance.choice(SIZES), self.chance.choice((None, 1 << 28))),
                ev.GpuFound(gpu, self.chance.choice(SIZES)),
            )
        )


@pytest.mark.parametrize("policy", ["fcfs", "fair", "priority"])
@pytest.mark.parametrize("seed", range(25))
def test_nothing_that_clients_say_breaks_the_core(seed: int, policy: str) -> None:
    Chaos(seed, policy).run(250)


def test_clients_say_all_that_the_wire_can_carry() -> None:
    chaos = Chaos(1, "fair")
    chaos.run(2000)
    assert chaos.said == set(translation.EVENTS)

"""A node, its clients and everything that may happen to them. Each step is checked against the naive account.

The caller decides what happens next, through `pick`: Hypothesis, which is good at small cruel stories, or a
seeded random walk, which is good at long ones."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from core.driven_clients import DrivenClient
from core.naive import Naive
from core.world_orders import Pick, WorldOrders
from core.world_work import WorldWork
from nvshare.client_machine.library import Config
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MIB, MILLISECOND, SECOND, HostRoom, Memory, ProcessMemory, QuantumRule, Settings
from nvshare.core.modes import MODES
from nvshare.core.node import Node
from nvshare.core.queue.policies import POLICIES
from nvshare.core.snapshots.snapshot import snapshot

GPUS = [f"GPU-{UUID(int=number)}" for number in (1, 2)]
CARD = 10 * GIB
MAX_CLIENTS = 7
MAX_QUANTUM = 60 * SECOND
EPOCH = 7
SIZES = [0, MIB, GIB, 2 * GIB, 3 * GIB, 4 * GIB, 5 * GIB, 9 * GIB, 9 * GIB + 1, 20 * GIB]
QUANTA = [SECOND, 10 * SECOND, MAX_QUANTUM]
PAUSES = [0, 1, 50 * MILLISECOND, SECOND, 3 * SECOND, 11 * SECOND, 31 * SECOND, 400 * SECOND]


class World(WorldOrders, WorldWork):
    """The methods without a leading underscore are what may happen."""

    def __init__(self, pick: Pick) -> None:
        self.now = 0
        self.peers: dict[int, DrivenClient] = {}
        self.last_client = 0
        mode = pick(list(MODES))
        rule = QuantumRule(mode=mode, fixed_ns=pick(QUANTA), most_ns=MAX_QUANTUM)
        settings = Settings(quantum=rule, policy=pick(list(POLICIES)))
        self._settles_at = settles_at = pick([None, settings.settle_ns])
        self._steps: list[tuple[int, ev.Event]] = []
        self.node = Node(settings, epoch=EPOCH, settles_at=settles_at, is_paranoid=True)
        self.naive = Naive(settings, settles_at)
        for gpu in GPUS:
            self.step(ev.GpuFound(gpu, CARD))
        for _ in range(4):
            self.join(pick)

    def replay(self) -> Node:
        """A node that does not check itself and has gone through the same."""
        node = Node(self.node.settings, epoch=EPOCH, settles_at=self._settles_at)
        for now, event in self._steps:
            node.handle(now, event)
        return node

    def step(self, event: ev.Event) -> None:
        self._steps.append((self.now, event))
        self.naive.before(self.now, event)
        actions = self.node.handle(self.now, event)
        self.naive.after(self.now, actions, self.node)
        for action in actions:
            client = getattr(action, "client", None)
            if client in self.peers and not isinstance(action, ac.EndTurn):
                self.peers[client].told.append(action)

    def _ring_until(self, then: int) -> None:
        """Every alarm rings on time. It may ring again at once for what its own step made due, but never for ever."""
        at_once = 0
        while (deadline := self.node.next_deadline()) is not None and deadline <= then:
            at_once = at_once + 1 if deadline <= self.now else 0
            assert at_once < 10, "the alarm never stops ringing"
            self.now = max(self.now, deadline)
            self.step(ev.AlarmRang())
        self.now = then

    # Clients come and go.

    def join(self, pick: Pick) -> None:
        """A newcomer, or one that comes back and claims what it holds."""
        if len(self.peers) == MAX_CLIENTS:
            return
        self.last_client += 1
        client, state, memory = self.last_client, pick(["rest", "rest", "rest", "holding", "unshared"]), _memory(pick)
        gpus = pick([GPUS[:1], GPUS[:1], GPUS[1:], GPUS])
        config = Config(priority=pick([-20, -1, 0, 0, 1, 20]), weight=pick([1, 100, 100, 300]))
        peer = self.peers[client] = DrivenClient(
            client, gpus, CARD, lambda: self.now, config, pick(["", "", "", "run/job"])
        )
        for gpu in gpus:
            peer.set_memory(gpu, memory)
        if state == "holding":
            peer.join_holding([((EPOCH - 1) << 32) + 2 * client + index for index in range(len(gpus))])
        elif state == "unshared":
            peer.join_unshared()
        else:
            peer.join()
        self.step(peer.said.popleft())

    def leave(self, pick: Pick) -> None:
        if len(self.peers) > MAX_CLIENTS - 2:
            client = pick(sorted(self.peers))
            del self.peers[client]
            self.step(ev.ClientLeft(client))

    def stop_or_go_on(self, pick: Pick) -> None:
        for peer in pick_some(pick, list(self.peers.values())):
            peer.is_stopped = not peer.is_stopped

    def fall_silent(self, pick: Pick) -> None:
        """Stopped ones, and others too: a message may be on its way."""
        self.step(ev.ClientSilent(pick(sorted(self.peers))))

    def ping(self, pick: Pick) -> None:
        self.step(ev.ClientHeard(pick(sorted(self.peers))))

    def use_collectives(self, pick: Pick) -> None:
        for peer in pick_some(pick, [peer for peer in self.peers.values() if not peer.is_stopped]):
            peer.use_collectives()

    # What clients do, and the messages in both directions.

    def _some_seats(self, pick: Pick) -> list[tuple[DrivenClient, str]]:
        seats = [(peer, gpu) for peer in self.peers.values() for gpu in peer.uses if not peer.is_stopped]
        return pick_some(pick, seats)

    def want(self, pick: Pick) -> None:
        for peer, gpu in self._some_seats(pick):
            peer.want(gpu)

    def want_now(self, pick: Pick) -> None:
        self.want(pick)
        self.catch_up(pick)

    def resize(self, pick: Pick) -> None:
        for peer, gpu in self._some_seats(pick):
            peer.resize(gpu, _memory(pick))

    def hold(self, pick: Pick) -> None:
        """It says that it keeps memory on the host, whether it was asked to or not."""
        for peer, gpu in self._some_seats(pick):
            peer.said.append(ev.MemoryHeld(peer.id, gpu, pick(SIZES)))

    def report_working_sets(self, pick: Pick) -> None:
        """True, false, or not known."""
        for peer, gpu in self._some_seats(pick):
            peer.report_working_set(gpu, pick([None, 0, MIB, GIB, 3 * GIB, 20 * GIB]))

    def slow_down(self, pick: Pick) -> None:
        for peer, gpu in self._some_seats(pick):
            peer.slow_down(gpu, pick([4, 8, 12, 1000]))

    def finish_work(self, pick: Pick) -> None:
        for peer, gpu in self._some_seats(pick):
            peer.finish_work(gpu)

    def drain(self, pick: Pick) -> None:
        for peer, gpu in self._some_seats(pick):
            peer.drain(gpu)

    def drain_all(self, pick: Pick) -> None:
        """Every client that was told to stop stops."""
        self.catch_up(pick)
        for peer in self.peers.values():
            if not peer.is_stopped:
                for gpu in peer.uses:
                    peer.drain(gpu)
        self.catch_up(pick)

    def give_up(self, pick: Pick) -> None:
        for peer, gpu in self._some_seats(pick):
            peer.give_up(gpu)

    def muddle(self, pick: Pick) -> None:
        """A release of an old number, said again, late, or never given to this client."""
        for peer, gpu in self._some_seats(pick):
            numbers = [*peer.uses[gpu].old_locks[-5:], *list(self.naive.given)[-3:], 0, 12345]
            peer.said.append(ev.LockReleased(peer.id, gpu, pick(numbers), pick([True, False])))

    def deliver(self, pick: Pick) -> None:
        """Some messages arrive, others are still on their way."""
        self._wake_peers()
        for peer in pick_some(pick, list(self.peers.values())):
            if peer.said and pick([True, False]):
                self.step(peer.said.popleft())
            elif peer.told and not peer.is_stopped:
                peer.hear()

    def _wake_peers(self) -> None:
        """Time has passed for them too."""
        for peer in self.peers.values():
            if not peer.is_stopped:
                peer.wake()

    def catch_up(self, pick: Pick) -> None:
        """All messages arrive, and all who can answer do."""
        self._wake_peers()
        for _ in range(1000):
            talking = [peer for peer in self.peers.values() if peer.said]
            hearing = [peer for peer in self.peers.values() if peer.told and not peer.is_stopped]
            if not talking and not hearing:
                return
            for peer in talking:
                self.step(peer.said.popleft())
            for peer in hearing:
                peer.hear()
        raise AssertionError("the talk never ends")

    # The rest of the world.

    def wait(self, pick: Pick) -> None:
        self._ring_until(self.now + pick(PAUSES))

    def wait_for_the_alarm(self, pick: Pick) -> None:
        self._ring_until(max(self.now, self.node.next_deadline() or 0))

    def wait_without_alarms(self, pick: Pick) -> None:
        late = pick([1, SECOND, 20 * SECOND])
        self.now += late
        self.naive.be_late(late)

    def measure(self, pick: Pick) -> None:
        gpu = pick(GPUS)
        seats = self.node.gpus[gpu].turns.seats.values()
        processes = [
            ProcessMemory(seat.client, pick([0, min(GIB, seat.fixed), seat.fixed]), seat.fixed) for seat in seats
        ]
        measured = tuple(pick_some(pick, [*processes, ProcessMemory(self.last_client + 1, 0, GIB)]))
        self.step(ev.MemoryMeasured(gpu, pick([0, 0, GIB, 9 * GIB]), pick([None, MIB]), measured))

    def measure_host(self, pick: Pick) -> None:
        """Of some who have had a turn, and of one who has left; mostly the host has room."""
        gpu = pick(GPUS)
        seats = [seat.client for seat in self.node.gpus[gpu].turns.seats.values() if seat.turns]
        chosen = pick_some(pick, [*seats, self.last_client + 1])
        rooms = [0, GIB, 4 * GIB, *[20 * GIB] * 5]
        self.step(ev.HostMemoryMeasured(tuple(HostRoom(client, gpu, pick(rooms)) for client in chosen)))

    def set_quantum(self, pick: Pick) -> None:
        self.step(ev.QuantumSet(pick(QUANTA), pick([None, *GPUS])))

    def set_mode(self, pick: Pick) -> None:
        self.step(ev.ModeSet(pick(list(MODES)), pick([None, *GPUS])))

    def switch_off_and_on(self, pick: Pick) -> None:
        self.step(ev.SchedulingSwitched(False))
        if pick([True, False]):
            self.want(pick)
            self.wait(pick)
            self.deliver(pick)
        self.step(ev.SchedulingSwitched(True))

    def look(self, pick: Pick) -> None:
        for gpu in snapshot(self.node, self.now).gpus:
            assert gpu.running == len(self.naive.gpus[gpu.uuid].named("staying", "dropping"))
            assert gpu.waiting == len(self.naive.gpus[gpu.uuid].named("waiting"))
            assert gpu.available_memory >= 0

    def end(self) -> None:
        """From any state whatever, by alarms alone, with all clients silent, those that wait are admitted in time."""
        self._ring_until(self.now)
        waits = [
            (seat, seat.order, seat.since + self.naive.bound(gpu) + seat.allowance)
            for gpu in self.naive.gpus.values()
            for seat in gpu.named("waiting")
        ]
        self._ring_until(max([self.now, *(end for _, _, end in waits)]))
        for seat, order, _ in waits:
            assert seat.state != "waiting" or seat.order != order, "this wait has ended"
        self._leave_all()

    def _leave_all(self) -> None:
        """Nothing is left of clients that have gone, once the time for claims is over."""
        self._ring_until(self.now + self.node.settings.settle_ns)
        for client in list(self.peers):
            del self.peers[client]
            self.step(ev.ClientLeft(client))
        for group in list(self.node.groups):  # Orders outlive the processes.
            self.step(ev.PrioritySet(group, None))
            self.step(ev.WeightSet(group, None))
            self.step(ev.CoreLimitSet(group, None))
        assert not self.node.clients
        assert not self.node.groups
        assert self.node.next_deadline() is None
        for gpu in snapshot(self.node, self.now).gpus:
            left = (gpu.running, gpu.waiting, gpu.unswappable_memory, gpu.running_memory_usage, gpu.quantum_left_ns)
            assert left == (0, 0, 0, 0, None)


def pick_some(pick: Pick, options: Sequence[Any]) -> list[Any]:
    """Up to three of them."""
    return [pick(options) for _ in range(pick([1, 1, 2, 3]))] if options else []


def _memory(pick: Pick) -> Memory:
    return Memory(
        swappable=pick(SIZES), unswappable=pick([0, 0, 0, 0, 0, GIB, GIB, 20 * GIB]), contexts=pick([0, 0, 1, 2])
    )

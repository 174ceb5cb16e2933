"""A naive account of one node's turns, kept from what went into the core and what came out of it.

It knows no sums, heaps or deadlines: everything is counted again each time, over all clients. Whatever it asserts must
hold for every order of events, however the peers behave."""

from dataclasses import dataclass, field

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import NO_MEMORY, SECOND, Memory, Settings
from nvshare.core.node import Node
from nvshare.core.policies import POLICIES

_PRIORITY_STEP = 30 * SECOND
_UNKNOWN = 1 << 200


@dataclass
class NaiveSeat:
    """One client at one GPU."""

    client: int
    priority: int
    memory: Memory = NO_MEMORY
    state: str = "rest"
    lock: int = 0
    revoked: int = 0
    deadline: int = 0
    since: int = 0
    order: int = 0
    passes: int = 0
    rank: int | None = None
    """By the fair clock, as the core said after the step in which this wait began."""
    contended: bool = False
    told_wait: bool = False
    allowance: int = 0
    """What has to be added to the bound of this wait: late alarms, and memory that grew meanwhile."""


@dataclass
class NaiveGpu:
    size: int = 0
    measured: bool = False
    foreign: int = 0
    context: int = 0
    seats: dict[int, NaiveSeat] = field(default_factory=dict)
    most_clients: int = 0

    def named(self, *states: str) -> list[NaiveSeat]:
        return [seat for seat in self.seats.values() if seat.state in states]

    def taken(self, *states: str) -> int:
        fixed = sum(seat.memory.unswappable + seat.memory.contexts * self.context for seat in self.seats.values())
        return fixed + self.foreign + sum(seat.memory.swappable for seat in self.named(*states))


class Naive:
    """The whole node. Call `before` with each event, then `after` with the actions it led to."""

    def __init__(self, settings: Settings, most_quantum_ns: int) -> None:
        self.settings = settings
        self.gpus: dict[str, NaiveGpu] = {}
        self.is_scheduling = True
        self.given: dict[int, tuple[int, str]] = {}
        self.most_quantum_ns = most_quantum_ns
        self._orders = 0

    def seat(self, client: int, gpu: str) -> NaiveSeat:
        return self.gpus[gpu].seats[client]

    # What went in.

    def before(self, now: int, event: ev.Event) -> None:
        note = getattr(self, "_" + type(event).__name__, None)
        if note is not None:
            note(now, event)

    def _ClientRegistered(self, now: int, event: ev.ClientRegistered) -> None:  # noqa: N802 - the event's own name
        for claim in event.claims:
            gpu = self.gpus.setdefault(claim.gpu, NaiveGpu(context=self.settings.context_bytes))
            if not gpu.measured:
                gpu.size = min(gpu.size or claim.size, claim.size)
            seat = gpu.seats[event.client] = NaiveSeat(event.client, event.priority)
            gpu.most_clients = max(gpu.most_clients, len(gpu.seats))
            self._resize(gpu, seat, claim.memory)
            if self.is_scheduling and claim.lock:
                seat.state, seat.lock = "staying", claim.lock
            elif self.is_scheduling and claim.unshared:
                seat.state = "unshared"

    def _ClientLeft(self, now: int, event: ev.ClientLeft) -> None:  # noqa: N802 - the event's own name
        for gpu in self.gpus.values():
            gpu.seats.pop(event.client, None)

    def _LockRequested(self, now: int, event: ev.LockRequested) -> None:  # noqa: N802 - the event's own name
        seat = self.seat(event.client, event.gpu)
        self._resize(self.gpus[event.gpu], seat, event.memory)
        if self.is_scheduling and seat.state == "rest":
            self._start_wait(now, seat)

    def _LockReleased(self, now: int, event: ev.LockReleased) -> None:  # noqa: N802 - the event's own name
        seat = self.seat(event.client, event.gpu)
        if seat.state in ("staying", "dropping") and seat.lock == event.lock:
            seat.state = "rest"
            if event.again:
                self._start_wait(now, seat)
        elif seat.revoked == event.lock != 0:
            seat.revoked = 0
            if seat.state == "waiting" and not event.again:
                seat.state = "rest"

    def _MemoryChanged(self, now: int, event: ev.MemoryChanged) -> None:  # noqa: N802 - the event's own name
        self._resize(self.gpus[event.gpu], self.seat(event.client, event.gpu), event.memory)

    def _GpuFound(self, now: int, event: ev.GpuFound) -> None:  # noqa: N802 - the event's own name
        gpu = self.gpus.setdefault(event.gpu, NaiveGpu(context=self.settings.context_bytes))
        gpu.size, gpu.measured = event.size, True

    def _MemoryMeasured(self, now: int, event: ev.MemoryMeasured) -> None:  # noqa: N802 - the event's own name
        gpu = self.gpus[event.gpu]
        gpu.foreign = event.foreign
        gpu.context = gpu.context if event.context_bytes is None else event.context_bytes
        self._allow(gpu, self.settings.grace_ns)

    def _SchedulingSwitched(self, now: int, event: ev.SchedulingSwitched) -> None:  # noqa: N802 - the event's own name
        if event.on != self.is_scheduling:
            self.is_scheduling = event.on
            for gpu in self.gpus.values():
                for seat in gpu.seats.values():
                    seat.state = "rest"

    def be_late(self, late_ns: int) -> None:
        for gpu in self.gpus.values():
            self._allow(gpu, late_ns)

    def _allow(self, gpu: NaiveGpu, more_ns: int) -> None:
        for seat in gpu.seats.values():
            seat.allowance += more_ns

    def _resize(self, gpu: NaiveGpu, seat: NaiveSeat, memory: Memory) -> None:
        if memory != seat.memory:
            seat.memory = memory
            self._allow(gpu, self.settings.grace_ns)

    def _start_wait(self, now: int, seat: NaiveSeat) -> None:
        self._orders += 1
        seat.state, seat.since, seat.order = "waiting", now, self._orders
        seat.passes, seat.allowance, seat.told_wait, seat.rank = 0, 0, False, None

    # What came out.

    def after(self, now: int, actions: list[ac.Action], node: Node) -> None:
        for action in actions:
            check = getattr(self, "_" + type(action).__name__, None)
            if check is not None:
                check(now, action, node)
        for uuid, gpu in self.gpus.items():
            self._check_gpu(now, uuid, gpu, node)

    def _GiveLock(self, now: int, action: ac.GiveLock, node: Node) -> None:  # noqa: N802 - the action's own name
        gpu = self.gpus[action.gpu]
        seat = gpu.seats[action.client]
        seat.contended = action.contended
        if seat.state == "staying":
            assert seat.lock == action.lock, "who holds a lock and asks is answered with that lock"
            return
        assert seat.state in ("waiting", "unshared"), "only who waits, or runs without a lock, gets one"
        assert action.lock not in self.given, "a lock number is given once"
        assert action.lock > max(self.given, default=0), "numbers grow"
        self.given[action.lock] = (action.client, action.gpu)
        if seat.state == "waiting":
            self._note_passing(action.gpu, seat, node)
            assert now - seat.since == action.waited_ns
        seat.state, seat.lock, seat.revoked = "staying", action.lock, 0

    def _note_passing(self, uuid: str, passer: NaiveSeat, node: Node) -> None:
        queue = self._queue(uuid, self.gpus[uuid], node)
        if self.settings.policy == "fair" and passer.rank is None:
            return  # It came and went in within one step; nobody but the core knows its rank.
        for other in queue:
            if other is passer:
                return
            other.passes += 1
            assert other.passes <= self.settings.most_passes, "nobody is passed more often than that"

    def _AnnounceRoom(self, now: int, action: ac.AnnounceRoom, node: Node) -> None:  # noqa: N802 - the same
        seat = self.seat(action.client, action.gpu)
        assert seat.state == "waiting"
        assert seat.told_wait, "room is announced to those who were told to wait"

    def _QueueClient(self, now: int, action: ac.QueueClient, node: Node) -> None:  # noqa: N802 - the same
        gpu = self.gpus[action.gpu]
        seat = gpu.seats[action.client]
        seat.told_wait = True
        assert self._queue(action.gpu, gpu, node).index(seat) + 1 == action.place

    def _DropLock(self, now: int, action: ac.DropLock, node: Node) -> None:  # noqa: N802 - the same
        seat = self.seat(action.client, action.gpu)
        assert (seat.state, seat.lock) == ("staying", action.lock), "only a lock that is held is dropped, and once"
        seat.state, seat.deadline = "dropping", now + self.settings.grace_ns

    def _EndTurn(self, now: int, action: ac.EndTurn, node: Node) -> None:  # noqa: N802 - the same
        if action.end == "revoked":
            seat = self.seat(action.client, action.gpu)
            assert (seat.state, seat.lock) == ("dropping", action.lock)
            assert now >= seat.deadline, "nobody is revoked before its grace is over"
            seat.revoked = seat.lock
            self._start_wait(now, seat)

    def _TellContended(self, now: int, action: ac.TellContended, node: Node) -> None:  # noqa: N802 - the same
        seat = self.seat(action.client, action.gpu)
        assert seat.state == "staying"
        seat.contended = action.contended

    # What must hold.

    def _queue(self, uuid: str, gpu: NaiveGpu, node: Node) -> list[NaiveSeat]:
        """Who waits, in the order of the policy: worked out again, but for the fair clock, which is taken as it is."""

        def key(seat: NaiveSeat) -> tuple[int, int]:
            if self.settings.policy == "fcfs":
                return seat.since, seat.order
            if self.settings.policy == "priority":
                return seat.since - max(-10, min(10, seat.priority)) * _PRIORITY_STEP, seat.order
            rank = node.gpus[uuid].seats[seat.client].rank
            seat.rank = seat.rank if rank is None else rank
            return _UNKNOWN if seat.rank is None else seat.rank, seat.order

        return sorted(gpu.named("waiting"), key=key)

    def _check_gpu(self, now: int, uuid: str, gpu: NaiveGpu, node: Node) -> None:
        safe = gpu.size * (100 - self.settings.reserve_percent) // 100
        queue = self._queue(uuid, gpu, node)
        real = node.gpus[uuid]
        assert [seat.client for seat in queue] == [seat.client for seat in real.queue]
        assert {seat.client for seat in gpu.named("staying")} == set(real.staying)
        assert {seat.client for seat in gpu.named("dropping")} == set(real.dropping)
        if node.is_settling or not self.is_scheduling:
            return
        staying = gpu.named("staying")
        assert len(staying) <= 1 or gpu.taken("staying") <= safe, "those who stay fit, or one is alone"
        for seat in staying:
            assert seat.contended == bool(queue), "a holder knows whether somebody waits"
        if queue:
            running = gpu.named("staying", "dropping")
            assert running, "nobody waits for a GPU on which nobody runs"
            crowded = gpu.taken("staying", "dropping") + queue[0].memory.swappable
            assert crowded > safe, "nobody waits while it fits and it is its turn"
        for seat in queue:
            assert now - seat.since <= self.bound(gpu) + seat.allowance, "every wait ends"

    def bound(self, gpu: NaiveGpu) -> int:
        """As policies.py states it."""
        turn = self.most_quantum_ns + self.settings.grace_ns
        return POLICIES[self.settings.policy].horizon_ns + gpu.most_clients * turn + self.settings.settle_ns

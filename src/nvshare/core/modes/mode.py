"""The interface of a mode: its questions and the facts that it gets. The answers are those of modes `fixed` and `auto`.

    quantum_ns          how long a running set keeps the GPU while clients wait
    idle_preempt_times  from when on an idle holder should lose its lock
    lag_ns              by how much a client's rank is later than its policy says
    leaving_order       which clients leave first at a switch
    longest_wait_ns     the bound on every wait:

        longest turn = max(longest quantum, 2 * grace)
        longest wait = horizon + longest lag + n * (longest turn + grace)
        with gangs   = horizon + longest lag + (n + 1) * (2 * longest turn + grace)

`horizon` is the policy's, n the number of clients at the GPU. A client that arrives more than horizon + longest lag
after another is behind it. Each of the others has at most one turn before it, and a switch takes at most the grace
time. What happens during a wait can make it longer, each time by at most:

    one grace time   what counts of a client's memory changes: it reports or uses other memory, says what it uses of it
                     or that its work is slow, keeps it on the host, or leaves; memory is measured. If that happens
                     during a switch, one more client may have to leave
    one grace time   memory moves to the host, after a turn or without one, while the host cannot take all memory of the
                     GPU's clients: the next client may have to wait for room (memory.card_room)
    that time        a client was blocked, and is no longer: it kept its rank
    that time        an alarm is late

A quantum, policy or number of clients that changes during a wait counts with its largest bound. After a restart the
settling time is added.

Clients of smaller accounts pass a client of an account with more than PLACES waiting clients (queue.wait_queue). For it
n = ⌈j / PLACES⌉ * (PLACES + clients of the other accounts that may pass), where j is its place in its account.

With gangs (core.gangs) n is the number of clients of the node, and the other terms are the largest of all its GPUs. A
gang waits for the clients before it at each of its GPUs; once it is first at all of them, for at most one turn."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable

from nvshare.core.events import MemoryMoved
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import GIB, QuantumRule, Settings
from nvshare.core.modes.move_cost import MeasuredCost
from nvshare.core.turns.quantum_timer import REVOKED_GRACES
from nvshare.core.turns.seat import Seat

Left = Callable[[int], float]
"""The part of the present quantum that is left at a time."""


class TurnObserver:
    """What a mode is told. One that learns from it overrides what it needs."""

    def turn_began(self, now: int, seat: Seat) -> None:
        """The seat got a lock; its memory and state are still those from before."""

    def turn_ended(self, now: int, seat: Seat) -> None:
        """The seat's lock ends; `held_since` is when its turn began."""

    def released_without_work(self, seat: Seat) -> None:
        """The turn that just ended did so because the client had no more work."""

    def pause_began(self, now: int, seat: Seat) -> None:
        """A staying client's work has all finished."""

    def pause_ended(self, seat: Seat, pause_ns: int) -> None:
        """A client has work again, whether it kept its lock during the pause or not."""

    def work_resumed(self, now: int, seat: Seat) -> None:
        """A client that holds a lock says that it works."""

    def memory_moved(self, event: MemoryMoved) -> None:
        """A client moved memory, and it took so long."""

    def reports_changed(self) -> None:
        """Holders begin or cease to report their pauses."""

    def client_left(self, now: int, seat: Seat) -> None:
        """The seat is gone."""


class Mode(TurnObserver, ABC):
    """The rules of one GPU. `rule` holds the operator's parameters and may be replaced at any time."""

    learns = False
    """The mode learns from turns, so it is told when they begin and end. The callers ask this first: without it a
    hand-over takes 12 bytecodes and 2 calls more in the modes that learn nothing (decision 19)."""
    quantum_follows_queue = False
    """The quantum depends on the waiting clients, so it is computed again at each step."""
    needs_early_reports = False
    """Holders report their pauses as soon as not all clients fit together; otherwise while a client waits."""

    def __init__(self, rule: QuantumRule, settings: Settings, memory: MemoryPlanner) -> None:
        self.rule = rule
        self._settings = settings
        self._memory = memory
        self._measured = MeasuredCost()

    @property
    @abstractmethod
    def longest_quantum_ns(self) -> int:
        """The most that `quantum_ns` answers."""

    @property
    def longest_turn_ns(self) -> int:
        """Longer than the quantum if a client does not release a lock in time (turns.quantum_timer)."""
        return max(self.longest_quantum_ns, REVOKED_GRACES * self._settings.grace_ns)

    @property
    def longest_lag_ns(self) -> int:
        """The most that `lag_ns` answers."""
        return 0

    def longest_wait_ns(self, horizon_ns: int, clients: int) -> int:
        turn_ns = self.longest_turn_ns + self._settings.grace_ns
        return horizon_ns + self.longest_lag_ns + clients * turn_ns

    def longest_gang_wait_ns(self, horizon_ns: int, clients: int) -> int:
        turn_ns = 2 * self.longest_turn_ns + self._settings.grace_ns
        return horizon_ns + self.longest_lag_ns + (clients + 1) * turn_ns

    @abstractmethod
    def quantum_ns(self, running: Collection[Seat], head: Seat | None, newcomers: int) -> int:
        """Of the running clients, counted from the admission of the first of them. `head` is the first in the queue;
        `newcomers` of the queue never had a turn."""

    def lag_ns(self, seat: Seat) -> int:
        return 0

    def leaving_order(self, now: int, staying: Iterable[Seat]) -> list[Seat]:
        """Of the staying clients, in the order of their admission."""
        return list(staying)

    def idle_preempt_times(self, now: int, head: Seat, idle: Iterable[Seat], left: Left) -> list[int]:
        """For each idle holder the time from which taking its lock pays, if the first in the queue is then admitted.

        With `cost` the time that this switch takes to move memory:

            at once                     if cost ≤ cheap_switch_ns or usual pause ≥ cost
            after `cost` of idleness    otherwise; the loss is then at most twice that of the best choice"""
        return [self._idle_preempt_time(seat, self._switch_ns(seat, head)) for seat in idle]

    def memory_moved(self, event: MemoryMoved) -> None:
        self._measured.note(event.moved, event.took_ns)

    @property
    def is_cost_measured(self) -> bool:
        """Clients have measured what moving memory to the GPU costs."""
        return self._measured.ns_per_gib is not None

    @property
    def move_cost_ns(self) -> int:
        """What this mode takes the move of 1 GiB to the GPU to cost."""
        return self._measured.ns_per_gib or self._settings.move_ns_per_gib

    def _switch_ns(self, seat: Seat, head: Seat) -> int:
        memory = self._memory
        overflow = memory.running_bytes + memory.fixed_bytes + head.need - memory.size
        moved = max(0, min(overflow, seat.need))
        return moved * self.move_cost_ns // GIB

    def _idle_preempt_time(self, seat: Seat, cost: int) -> int:
        assert seat.idle_since is not None
        usual = seat.usual_pause
        is_soon = cost <= self._settings.cheap_switch_ns or (usual is not None and usual >= cost)
        return seat.idle_since if is_soon else seat.idle_since + cost

"""The timer of one GPU's running set: when it started, and when its quantum ends.

It starts when the first client of a running set is admitted, and again when a switch admits the next one. A client that
is admitted beside others does not change it. If no client waits when it ends, no client must leave, and the next client
that has to wait causes the switch at once."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvshare.core.turns.turns import Turns


class QuantumTimer:
    """core.turns stops it when no client runs any more; queue.admission and queue.preemption start it."""

    def __init__(self, turns: "Turns") -> None:
        self._turns = turns
        self.started = 0
        self.ends: int | None = None
        """None while no client runs."""
        self.quantum_ns = self._least_ns = 0

    def start(self, now: int) -> None:
        self.started, self._least_ns = now, 0
        self.set()

    def set(self) -> None:
        """By the clients that run and wait now, counted from the start of the timer."""
        turns = self._turns
        order = turns.queue.order
        head = order[0][2] if order else None
        if head is not None and head.gang is not None:
            head = turns.queue.first()  # For whom a switch is made: not for gangs that are not ready.
        running = turns.running() if turns.dropping else turns.staying.values()
        quantum_ns = turns.mode.quantum_ns(running, head, turns.queue.newcomers)
        self.quantum_ns, self.ends = quantum_ns, self.started + quantum_ns
        if self._least_ns or turns.ranking.shares.are_kept:
            self.cap()

    def cap(self) -> None:
        """A turn is at most as long as the share allows, but at least `_least_ns`, which gangs set."""
        longest_ns = self._turns.ranking.shares.longest_turn_ns(self._turns.running())
        self.quantum_ns = max(min(self.quantum_ns, longest_ns), self._least_ns)
        self.ends = self.started + self.quantum_ns

    def adjust(self) -> None:
        """The clients that run or wait may have changed."""
        if self.ends is not None:
            if self._turns.mode.quantum_follows_queue:
                self.set()
            else:
                self.cap()

    def left(self, at: int) -> float:
        """The part of the quantum that is left at a time."""
        if self.ends is None or not self.quantum_ns:
            return 0.0
        return min(1.0, max(0.0, (self.ends - at) / self.quantum_ns))

    def set_least(self, quantum_ns: int) -> None:
        """For the clients that were just admitted (core.gangs)."""
        self._least_ns = quantum_ns
        self.set()

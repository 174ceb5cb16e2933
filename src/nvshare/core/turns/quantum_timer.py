"""The timer of one GPU's running set: when it started, and when its quantum ends.

It starts when the first client of a running set is admitted, and again when a switch admits the next one. A client that
is admitted beside others does not change it. If no client waits when it ends, no client must leave, and the next client
that has to wait causes the switch at once.

A client whose lock was revoked still has work on the GPU. Until that has finished, it and the running clients evict
each other's memory, and work takes many times as long. If the next switch came before that, its drain would take longer
than the grace time as well, so the next lock would be revoked, and so on without end. So

    turn            ≥ 2 * grace     while a lock is unreleased that was revoked during it or in the 2 * grace before it
    longest turn    = max(longest quantum, 2 * grace)"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nvshare.core.turns.turns import Turns

REVOKED_GRACES = 2
"""How many grace times a turn lasts at least while a revoked lock is unreleased."""


class QuantumTimer:
    """core.turns stops it when no client runs any more; queue.admission and queue.preemption start it."""

    def __init__(self, turns: "Turns", grace_ns: int) -> None:
        self._turns = turns
        self.started = 0
        self.ends: int | None = None
        """None while no client runs."""
        self.quantum_ns = self._rule_ns = self._least_ns = 0
        """`_rule_ns` is the quantum by mode, shares and gangs."""
        self._after_revocation_ns = REVOKED_GRACES * grace_ns
        self._revoked: dict[int, int] = {}
        """The clients whose lock was revoked and has not been released, and when."""

    def start(self, now: int) -> None:
        self.started, self._least_ns = now, 0
        if self._revoked:
            since = now - self._after_revocation_ns
            seats = self._turns.seats
            self._revoked = {c: at for c, at in self._revoked.items() if at > since and seats[c].revoked}
        self.set()

    def set(self) -> None:
        """By the clients that run and wait now, counted from the start of the timer."""
        turns = self._turns
        order = turns.queue.order
        head = order[0][2] if order else None
        if head is not None and head.gang is not None:
            head = turns.queue.first()  # For whom a switch is made: not for gangs that are not ready.
        running = turns.running() if turns.dropping else turns.staying.values()
        self._rule_ns = self.quantum_ns = quantum_ns = turns.mode.quantum_ns(running, head, turns.queue.newcomers)
        self.ends = self.started + quantum_ns
        if self._least_ns or self._revoked or turns.ranking.fair_shares.are_kept:
            self.cap()

    def cap(self) -> None:
        """A turn is at most as long as the share allows, but at least `_least_ns`, which gangs set, and
        `_after_revocation_ns` if a lock was revoked."""
        longest_ns = self._turns.ranking.fair_shares.longest_turn_ns(self._turns.running())
        self._rule_ns = self.quantum_ns = max(min(self._rule_ns, longest_ns), self._least_ns)
        if self._revoked:
            self.quantum_ns = max(self._rule_ns, self._after_revocation_ns)
        self.ends = self.started + self.quantum_ns

    def lock_revoked(self, now: int, client: int) -> None:
        self._revoked[client] = now

    def revoked_lock_gone(self, client: int) -> None:
        """The revoked lock was released, or its client has left. If the client gets a new lock instead, the revoked one
        counts until the next turn: the present turn does not end because the client was admitted beside others."""
        if self._revoked.pop(client, None) is not None and not self._revoked and self.ends is not None:
            self.cap()

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

"""The waiting clients of one GPU: those in the queue, those that are blocked, and the notices still to be sent.

core.turns changes their states and calls this. queue.notices takes each notice once and sends it."""

from collections import Counter
from operator import attrgetter, itemgetter

from nvshare.core.limits.groups import Group
from nvshare.core.model import NEVER
from nvshare.core.queue.wait_queue import WaitQueue
from nvshare.core.turns.seat import Seat

UNNUMBERED = -1
"""The lock that a client claims late if it runs without one; until it is admitted, or the claim is refused with a
number."""


class Waits:
    """The clients that wait, and how."""

    def __init__(self) -> None:
        self.queue = WaitQueue()
        self.blocked: dict[int, Seat] = {}
        """Clients that wait in no queue; turns.seat has the reasons."""
        self.is_switching = self.is_early = False
        """Room is being made for the first in the queue, because the quantum is over or, if `is_early`, because it
        outranks clients (queue.preemption)."""
        self.is_withheld = False
        """No client is admitted before a job has released its locks (core.gangs)."""
        self.begun: list[Seat] = []
        """The clients that started to wait in this step; queue.notices empties it."""
        self.late_claims: list[tuple[Seat, int]] = []
        """The clients that claimed a lock in this step when the time for claims was over, and which."""
        self.unreported: dict[int, Seat] = {}
        """The clients whose wait has not been reported as long, in the order of arrival."""
        self.is_watched = False
        """There are core limits, so `waiting` and `moved` are kept (watch)."""
        self.waiting: Counter[Group | None] = Counter()
        """How many clients of each group are in the queue."""
        self.moved: set[str] = set()
        """The groups of which a client came into the queue or left it in this step."""

    def begin(self, seat: Seat, rank: int) -> None:
        self.queue.push(seat, rank)
        if self.is_watched:
            self._note_move(seat, 1)
        self.begun.append(seat)
        self.unreported[seat.client] = seat

    def end(self, now: int, seat: Seat) -> None:
        if seat.rank is None:
            del self.blocked[seat.client]
        else:
            self.queue.remove(seat)
            if self.is_watched:
                self._note_move(seat, -1)
        self.unreported.pop(seat.client, None)
        seat.waited_total += now - seat.waited_since
        if not self.queue.order:
            self.end_switch()  # No client is left that needs room.

    def claim_late(self, seat: Seat, lock: int) -> None:
        """It has begun to wait but still runs, so what it claims counts like a revoked lock in this step already."""
        seat.revoked = lock or UNNUMBERED
        self.late_claims.append((seat, lock))

    def resume(self, seat: Seat) -> None:
        """Back into the queue, with the rank it had."""
        assert seat.kept_rank is not None, "a client that waits again keeps its rank"
        self.blocked.pop(seat.client, None)
        self.queue.push(seat, seat.kept_rank)
        if self.is_watched:
            self._note_move(seat, 1)

    def block(self, seat: Seat) -> None:
        """Out of the queue."""
        seat.kept_rank = seat.rank
        self.queue.remove(seat)
        if self.is_watched:
            self._note_move(seat, -1)
        self.blocked[seat.client] = seat
        if not self.queue.order:
            self.end_switch()

    def watch(self, *, on: bool) -> None:
        """There are core limits from now on, or none any more. Without them a hand-over does nothing for them."""
        if on != self.is_watched:
            self.is_watched = on
            self.waiting = Counter(map(attrgetter("group"), map(itemgetter(2), self.queue.order if on else ())))

    def _note_move(self, seat: Seat, change: int) -> None:
        assert seat.group is not None, "a client has a group"
        self.moved.add(seat.group.key)
        self.waiting[seat.group] += change
        if not self.waiting[seat.group]:
            del self.waiting[seat.group]

    def begin_switch(self, *, is_early: bool = False) -> None:
        """Clients leave for the first in the queue. A switch that began early goes on as any other when the quantum is
        over."""
        self.is_switching, self.is_early = True, is_early

    def end_switch(self) -> None:
        """The first in the queue is admitted, or no client leaves for it any more."""
        self.is_switching = self.is_early = False

    def withhold(self, *, on: bool) -> None:
        """No client gets a lock, or locks are given again."""
        self.is_withheld = on

    def hide(self, seat: Seat) -> None:
        """Its wait is not reported: another seat of its client waits for the same reason."""
        del self.unreported[seat.client]

    def place(self, seat: Seat) -> int:
        """From 1. A blocked client has no place in the queue; it is told the one behind the last."""
        return self.queue.place(seat) if seat.rank is not None else len(self.queue) + 1

    # What is to be told.

    def take_late_claims(self) -> list[tuple[Seat, int]]:
        """Of the clients that have to wait."""
        taken, self.late_claims = self.late_claims, []
        return [(seat, lock) for seat, lock in taken if seat.state in ("waiting", "blocked")]

    def take_long(self, now: int, long_ns: int) -> list[Seat]:
        """The clients that have waited for this time."""
        taken: list[Seat] = []
        for seat in self.unreported.values():
            if now - seat.waited_since < long_ns:
                break
            taken.append(seat)
        for seat in taken:
            del self.unreported[seat.client]
        return taken

    def next_long(self, long_ns: int) -> int:
        """When the next wait will have lasted for so long, or NEVER."""
        for seat in self.unreported.values():
            return seat.waited_since + long_ns
        return NEVER

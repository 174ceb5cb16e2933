"""What clients are asked to move in bulk at a switch. They move it themselves (docs/decisions/0012-mover.md).

    away    max(0, need(all clients) + fixed - size): what cannot be on the card
    out     min(need of the first in the queue, away + margin), less what other leaving clients were asked for, and at
            most what the host can take of it
    in      need(client), at most what the other running clients leave of the card; 0 if none of it can be away

Memory of a client can be away if not all clients fit now, if not all fitted at some time since its last turn, or if it
was asked to move memory out. So a client also moves its memory in when the clients for which it left have ended.

The margin is 1/128 of the card. If a prefetch finds the card full by a few bytes, the driver evicts the oldest memory,
which may be the client's own, and then much more has to move."""

from collections.abc import Iterable, Mapping

from nvshare.core.actions import Action, MoveIn, MoveOut
from nvshare.core.memory_planner import MemoryPlanner
from nvshare.core.seat import Seat
from nvshare.core.wait_queue import WaitQueue

MARGIN = 128


class Moves:
    """Asks the clients of one GPU."""

    def __init__(self, uuid: str, memory: MemoryPlanner) -> None:
        self._uuid = uuid
        self._memory = memory
        self._crowded_steps = 0
        """Steps in which not all fitted."""

    @staticmethod
    def _movable(seat: Seat) -> int:
        """What the host can take of it, also if not all that it cannot take counts (core.memory_reports)."""
        return min(seat.memory.swappable, max(0, seat.host_room - seat.kept))

    def ask_leaving(self, seat: Seat, queue: WaitQueue, dropping: Mapping[int, Seat], out: list[Action]) -> None:
        """A client is about to be told to release its lock; it is among the dropping ones already."""
        away = self._memory.away
        if not seat.moves_memory or not away:
            return
        first = queue.first()
        need = first.need if first is not None else self._memory.size
        asked = sum(other.asked_out for other in dropping.values())
        need = min(need, away + self._memory.size // MARGIN) - asked
        seat.asked_out = max(0, min(need, self._movable(seat)))
        if seat.asked_out:
            out.append(MoveOut(seat.client, self._uuid, seat.lock, seat.asked_out))

    def ask_less(self, dropping: Iterable[Seat], out: list[Action]) -> None:
        """Of the clients that were asked for more than the host can take now (core.host_memory)."""
        for seat in dropping:
            if seat.asked_out > self._movable(seat):
                seat.asked_out = self._movable(seat)
                out.append(MoveOut(seat.client, self._uuid, seat.lock, seat.asked_out))

    def look(self) -> None:
        """In each step, before clients are told that they were let in."""
        if self._memory.away:
            self._crowded_steps += 1

    def turn_ended(self, seat: Seat) -> None:
        seat.crowded_when_left = None if seat.asked_out else self._crowded_steps
        seat.asked_out = 0

    def ask_admitted(self, seat: Seat, out: list[Action]) -> None:
        """A client was let in and has its lock."""
        memory = self._memory
        can_be_away = memory.away or (seat.turns > 1 and seat.crowded_when_left != self._crowded_steps)
        if not seat.moves_memory or not can_be_away:
            return
        others = memory.staying_bytes - seat.need
        most = max(0, min(seat.need, memory.capacity - others))
        out.append(MoveIn(seat.client, self._uuid, seat.lock, most))

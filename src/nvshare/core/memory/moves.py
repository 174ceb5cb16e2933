"""What clients are asked to move in bulk at a switch. They move it themselves (docs/decisions/0012-mover.md).

    away    max(0, need(all clients) + fixed - size): what cannot be on the card
    excess  need of the first in the queue + what the others may have on the card (memory.card_room) + fixed - size
    out     min(need of the first in the queue, excess + margin). First the clients without a lock move out what they
            still have on the card, the one that ran longest ago first, as the driver does. The leaving clients move
            the rest, at most what the host can take of it; more if memory must stay on the card. While all clients fit
            (away = 0) nobody is asked
    in      need(client), at most what the other running clients leave of the card; 0 if none of it can be away

Memory of a client can be away if not all clients fit now, if not all fitted at some time since its last turn, or if it
was asked to move memory out. So a client also moves its memory in when the clients for which it left have ended.

The margin is 1/128 of the card. If a prefetch finds the card full by a few bytes, the driver evicts the oldest memory,
which may be the client's own, and then much more has to move."""

from collections.abc import Iterable, Mapping

from nvshare.core.actions import Action, MoveIn, MoveOut, TurnEnd
from nvshare.core.events import MemoryMoved
from nvshare.core.memory.card_room import CardRoom, movable
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import UNLIMITED
from nvshare.core.queue.wait_queue import WaitQueue
from nvshare.core.turns.seat import Seat

MARGIN = 128


def is_measurement(now: int, seat: Seat, event: MemoryMoved) -> bool:
    """Whether a report says what moves cost: memory that the client has, moved in during the turn that it has. A client
    that reports more, or a longer time, is wrong or lies; all others would lose or keep their locks by its figure."""
    is_its_memory = event.moved <= seat.memory.swappable + seat.pinned
    return not event.to_host and bool(seat.lock) and is_its_memory and event.took_ns <= now - seat.held_since


class Moves:
    """Asks the clients of one GPU."""

    def __init__(self, uuid: str, memory: MemoryPlanner, seats: dict[int, Seat], grace_ns: int) -> None:
        self._uuid = uuid
        self._memory = memory
        self.card_room = CardRoom(uuid, seats, memory, grace_ns)
        self._crowded_steps = 0
        """Steps in which not all fitted."""

    def ask_leaving(
        self, now: int, seat: Seat, queue: WaitQueue, dropping: Mapping[int, Seat], out: list[Action]
    ) -> None:
        """A client is about to be told to release its lock; it is among the dropping ones already."""
        if not seat.moves_memory:
            return
        first = queue.first()
        need = self._needed_by(first) - sum(other.asked_out for other in dropping.values())
        if need > 0 and first is not None and not self._memory.protected:
            need = self.card_room.ask_oldest(now, first, need, out)
        seat.asked_out = max(0, min(need, movable(seat)))
        if seat.asked_out:
            out.append(MoveOut(seat.client, self._uuid, seat.lock, seat.asked_out))

    def _needed_by(self, first: Seat | None) -> int:
        """How much should be moved out for the first in the queue; None: for any next client."""
        memory = self._memory
        margin = memory.size // MARGIN
        if first is None:
            return memory.away + margin if memory.away else 0
        need = min(first.need, self.card_room.excess(first) + margin) if memory.away else 0
        return max(need, self.card_room.missing(first)) if memory.protected else need

    def ask_less(self, dropping: Iterable[Seat], out: list[Action]) -> None:
        """Of the clients that were asked for more than the host can take now (queue.blocking)."""
        for seat in dropping:
            if seat.moves_memory and seat.asked_out > movable(seat):
                seat.asked_out = movable(seat)
                out.append(MoveOut(seat.client, self._uuid, seat.lock, seat.asked_out))

    def look(self) -> None:
        """In each step, before clients are told that they got their locks."""
        if self._memory.away:
            self._crowded_steps += 1

    def turn_ended(self, now: int, seat: Seat, end: TurnEnd) -> None:
        """All its memory may be on the card. One whose lock was revoked moves nothing before it has released it."""
        seat.resident, seat.room_asked, seat.room_due = UNLIMITED, 0, 0
        if seat.asked_out and end != "revoked":
            self.card_room.asked(now, seat, seat.asked_out)
        ran = self.card_room.ran
        ran.pop(seat.client, None)
        ran[seat.client] = seat
        seat.crowded_when_left = None if seat.asked_out else self._crowded_steps
        seat.asked_out = 0

    def ask_admitted(self, seat: Seat, out: list[Action]) -> None:
        """A client was admitted and has its lock."""
        memory = self._memory
        can_be_away = memory.away or (seat.turns > 1 and seat.crowded_when_left != self._crowded_steps)
        if not seat.moves_memory or not can_be_away:
            return
        others = memory.staying_bytes - seat.need
        most = max(0, min(seat.need, memory.capacity - others))
        out.append(MoveIn(seat.client, self._uuid, seat.lock, most))

"""Makes room on the card before a client gets its lock, if the card has memory that the host cannot take.

The driver evicts memory when the card is full, and chooses whose memory. Let lacking(p) be the memory of client p that
the host cannot take. Whatever the driver chooses, it does not evict more of p than the host can take if

    fixed + Σ on_card(others) + lacking(p) ≤ size - card reserve

    on_card     an upper bound: all swappable memory of a client that has a lock or had one; after it has moved memory
                to the host as asked, what it reports as left (RoomMade). 0 if it never had a lock.

So a client gets its lock only if this holds, for each p, with all memory of the coming client on the card.

Clients without a lock are asked to move memory out (MoveOut with lock 0), as far as the host can take it: first those
that need no turn, the one that ran longest ago first; then the waiting ones, the last in the queue first. A client that
drops its lock is asked with that lock (memory.moves). A client that was asked has the grace time to answer, also if it
is asked for more meanwhile. Memory that has not moved by then is stuck: it counts like memory that the host cannot take
(memory.memory_planner). Such a client is not asked again before it has answered or had a turn.

If the host can take all memory, nobody waits for room. But at a switch clients without a lock are asked as well, so
that the driver need not evict (memory.moves).

The coming client waits for room for at most one grace time in total. The time begins when only room is missing and no
client is releasing a lock; reports of others do not extend it. It begins again if another client is admitted first, or
if the coming client was blocked (queue.blocking)."""

from collections.abc import Callable
from heapq import nsmallest

from nvshare.core.actions import Action, MoveOut
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import NEVER, UNLIMITED
from nvshare.core.turns.seat import Seat

LATE = -1
"""In place of the time by which a client must answer: it did not answer in time. In place of the time until which a
client waits for room: this time is over."""


def movable(seat: Seat) -> int:
    """What the host can take of it, also if not all that it cannot take counts (memory.memory_reports)."""
    return min(seat.memory.swappable, max(0, seat.host_room - seat.kept))


def _total(seat: Seat) -> int:
    return seat.memory.swappable + seat.pinned


def on_card(seat: Seat) -> int:
    """The most of its memory that can be on the card, without its unswappable memory."""
    if seat.lock:
        return _total(seat)
    return 0 if seat.leaves_card else min(_total(seat), seat.resident)


def is_moving_out(seat: Seat) -> bool:
    """It was asked, and has not answered."""
    return seat.room_due > 0 and not seat.lock


def _spare(seat: Seat, coming: Seat) -> int:
    """How much of its memory on the card may be evicted, because the host can take it."""
    return max(0, (_total(seat) if seat is coming else on_card(seat)) - seat.lacking)


def _could_go(seat: Seat) -> int:
    """How much of its memory would leave the card if it were asked for all that it can move."""
    if seat.lock or seat.revoked or seat.room_due == LATE or not (seat.makes_room and seat.moves_memory):
        return 0
    if seat.room_asked >= movable(seat):
        return 0
    return max(0, on_card(seat) - (_total(seat) - movable(seat)))


def _going(seat: Seat) -> int:
    return max(0, on_card(seat) - (_total(seat) - seat.room_asked)) if is_moving_out(seat) else 0


def _will_go(seat: Seat) -> bool:
    if seat.lock:
        return seat.is_suspended or (seat.makes_room and seat.moves_memory)
    return is_moving_out(seat) or _could_go(seat) > 0


def _limit(seat: Seat) -> int:
    return (seat.group.limit if seat.group is not None else 0) or UNLIMITED


def _stuck(seat: Seat) -> int:
    return 0 if _will_go(seat) else max(0, min(on_card(seat), _limit(seat)) - seat.protected)


def _order(seat: Seat) -> tuple[bool, int]:
    return (False, seat.last_ran) if seat.rank is None else (True, -seat.rank)


def _note_late(now: int, seat: Seat) -> None:
    if 0 < seat.room_due <= now:
        seat.room_due = LATE


def _age(seat: Seat) -> int:
    return seat.last_ran


_Order = Callable[[Seat], tuple[bool, int] | int]


class CardRoom:
    """The room of one GPU. Without protected memory no client waits for it."""

    def __init__(self, uuid: str, seats: dict[int, Seat], memory: MemoryPlanner, grace_ns: int) -> None:
        self._uuid = uuid
        self._seats = seats
        self._memory = memory
        self._grace_ns = grace_ns
        self.is_waited_for = False
        """A client may have a time until which it waits for room."""
        self.ran: dict[int, Seat] = {}
        """Clients by the end of their last turns. One with a lock, or with nothing on the card, is removed when found.
        Moves.turn_ended adds them; a method for this would be one more call in each hand-over."""

    @property
    def deadline(self) -> int:
        """By when the next client must answer, or has waited long enough."""
        seats = self._seats.values()
        answer = min((seat.room_due for seat in seats if is_moving_out(seat)), default=NEVER)
        return min(answer, min((seat.room_until for seat in seats if seat.room_until > 0), default=NEVER))

    def missing(self, coming: Seat) -> int:
        """By how much the card would be too full with this client."""
        memory = self._memory
        room = memory.size - memory.card_reserve - (memory.fixed_bytes - memory.pinned)
        there = sum(on_card(seat) for seat in self._seats.values()) - on_card(coming) + _total(coming)
        spared = self._spared(coming)
        return there - (0 if spared is None else _spare(spared, coming)) - room

    def _spared(self, coming: Seat) -> Seat | None:
        """Of the clients that lack room on the host, the one of whose memory the least may be evicted. The card may be
        too small by this amount."""
        return min(
            (seat for seat in self._seats.values() if seat.lacking), key=lambda seat: _spare(seat, coming), default=None
        )

    def _others(self, coming: Seat) -> list[Seat]:
        """The clients whose moves would make room. Memory that may be evicted need not move."""
        spared = self._spared(coming)
        return [seat for seat in self._seats.values() if seat is not coming and seat is not spared]

    def is_made(self, coming: Seat) -> bool:
        """There is room for it, or no more can be expected, or it has waited for that long enough."""
        if not self._memory.protected or coming.room_until == LATE or self.missing(coming) <= 0:
            return True
        others = self._others(coming)
        return not any(seat.state == "dropping" or is_moving_out(seat) or _could_go(seat) for seat in others)

    def stuck(self) -> Callable[[Seat], int]:
        """A function that says how much memory, beside protected memory, the other clients have on the card and do not
        move. As with protected memory, no client counts for more than the limit of its group. All clients are visited
        once, for any number of calls."""
        sizes = {client: _stuck(seat) for client, seat in self._seats.items()}
        spares = nsmallest(2, ((size, client) for client, size in sizes.items() if self._seats[client].protected))
        total = sum(sizes.values())

        def of_others(coming: Seat) -> int:
            spare = next((size for size, client in spares if client != coming.client), 0)
            return total - sizes[coming.client] - spare

        return of_others

    def ask(self, now: int, coming: Seat, out: list[Action]) -> None:
        """Asks clients without a lock to make room for this one."""
        if not self._memory.protected:
            return
        self.expire(now)
        if self.is_made(coming):
            return
        if not coming.room_until and not any(seat.state == "dropping" for seat in self._seats.values()):
            coming.room_until, self.is_waited_for = now + self._grace_ns, True
        self._ask(now, self._others(coming), _order, self.missing(coming), out)

    def excess(self, coming: Seat) -> int:
        """By how much the card may be too full with this client, by what clients need; not more than it needs itself,
        if others have the rest of the card."""
        memory = self._memory
        others = sum(min(seat.need, on_card(seat)) for seat in self._without_lock(coming))
        return memory.running_bytes + others + coming.need - memory.capacity

    def ask_oldest(self, now: int, coming: Seat, missing: int, out: list[Action]) -> int:
        """Asks clients without a lock, the one that ran longest ago first. Returns what they cannot move of that."""
        others = self._without_lock(coming)
        for seat in others:
            _note_late(now, seat)
        return self._ask(now, others, _age, missing, out)

    def _without_lock(self, coming: Seat) -> list[Seat]:
        """The clients that may have memory on the card although they have no lock, from the one that ran last on, until
        the card is full."""
        found: list[Seat] = []
        gone: list[int] = []
        room = self._memory.capacity - self._memory.running_bytes
        for client, seat in reversed(self.ran.items()):
            if room <= 0:
                break
            if seat.lock or not on_card(seat):
                gone.append(client)
            elif seat is not coming:
                found.append(seat)
                room -= min(seat.need, on_card(seat))
        for client in gone:
            del self.ran[client]
        return found

    def _ask(self, now: int, others: list[Seat], order: _Order, missing: int, out: list[Action]) -> int:
        missing -= sum(_going(seat) for seat in others)
        for seat in sorted((seat for seat in others if _could_go(seat)), key=order):
            if missing <= 0:
                break
            gain = min(missing, _could_go(seat))
            need = _total(seat) - on_card(seat) + gain
            self.asked(now, seat, need if need > seat.room_asked else movable(seat))
            out.append(MoveOut(seat.client, self._uuid, 0, seat.room_asked))
            missing -= gain
        return missing

    def asked(self, now: int, seat: Seat, need: int) -> None:
        """The client must move `need` bytes to the host, counted from its last turn on. If it is asked for more before
        it has answered, it has no more time for that."""
        seat.room_asked = need
        if not seat.room_due:
            seat.room_due = now + self._grace_ns if seat.makes_room else 0

    def answered(self, seat: Seat, left: int) -> None:
        """Without a lock, the client has at most `left` bytes on the card. If it has a lock now, this is too old."""
        if not seat.lock:
            seat.resident, seat.room_due = min(seat.resident, left), 0

    def expire(self, now: int) -> None:
        """Clients that have not answered in time are not waited for, and are not asked for more before they answer. A
        client that has waited long enough is admitted."""
        for seat in self._seats.values():
            _note_late(now, seat)
            if 0 < seat.room_until <= now:
                seat.room_until = LATE

    def note_admitted(self) -> None:
        """A client got its lock: its memory is on the card too, so the time of the waiting clients begins again."""
        self.is_waited_for = False
        for seat in self._seats.values():
            seat.room_until = 0

    def note_left(self, client: int) -> None:
        self.ran.pop(client, None)

    def lock_free(self) -> None:
        """Scheduling was switched on or off: clients may run, or have run, without locks."""
        for seat in self._seats.values():
            seat.resident, seat.room_asked, seat.room_due, seat.room_until = UNLIMITED, 0, 0, 0

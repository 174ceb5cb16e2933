"""Which waiting clients get a lock.

The first in the queue is admitted as soon as it fits beside the running clients, or if it would be alone. While it does
not fit, others may pass it: each waiting client at most `most_passes` times, and for at most one quantum. No client
passes while a lock is being dropped: that memory is meant for the first in the queue. While memory must not be
evicted, the client waits until there is room on the card (memory.card_room). Members of gangs are admitted
when core.gangs says so, or like other clients if they fit and their gang does not consist of several processes."""

from itertools import takewhile

from nvshare.core.actions import Action
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import Settings
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns


class Admission:
    """Decides on one GPU's waiting clients; core.turns carries it out."""

    def __init__(self, settings: Settings, turns: Turns, memory: MemoryPlanner) -> None:
        self._most_passes = settings.most_passes
        self._turns = turns
        self._memory = memory

    def has_room(self, seat: Seat) -> bool:
        """The GPU could take it now."""
        return self.fits(seat) and self._turns.moves.card_room.is_made(seat)

    def fits(self, seat: Seat) -> bool:
        """It fits beside the running clients, or would be alone."""
        turns = self._turns
        return not turns.waits.is_withheld and (turns.is_empty or self._memory.fits(seat.need))

    def _room_is_made(self, now: int, seat: Seat, out: list[Action]) -> bool:
        card_room = self._turns.moves.card_room
        if not card_room.is_made(seat):
            card_room.ask(now, seat, out)
            return False
        return True

    def admit(self, now: int, out: list[Action]) -> list[Seat]:
        """Admit all clients that may run now; they are returned in that order."""
        turns, memory = self._turns, self._memory
        queue, waits = turns.queue, turns.waits
        admitted: list[Seat] = []
        starts_timer = False
        if memory.protected and turns.dropping and (head := queue.first()) is not None:
            turns.moves.card_room.ask(now, head, out)
        while queue.order and not waits.is_withheld:
            is_empty = not turns.staying and not turns.dropping
            if not is_empty and not memory.fits(queue.needs[0]):
                break  # No client fits.
            seat = first = queue.first()
            if (
                first is not None
                and (first.gang is None or first.gang.may_enter)
                and (is_empty or memory.fits(first.need))
            ):
                if not memory.protected or self._room_is_made(now, first, out):
                    if waits.is_switching:
                        waits.end_switch()
                        starts_timer = True
                else:
                    seat = None
            elif first is not None and first.is_entering:
                break  # Room is being made for it, here or at another GPU.
            else:
                seat = self._behind_first(now, out, is_empty=is_empty)
            if seat is None:
                break
            starts_timer = starts_timer or is_empty
            turns.admit(now, seat)
            if turns.moves.card_room.is_waited_for:
                turns.moves.card_room.note_admitted()
            admitted.append(seat)
        if starts_timer:
            turns.timer.start(now)
        return admitted

    def _behind_first(self, now: int, out: list[Action], *, is_empty: bool) -> Seat | None:
        """The client that is admitted before the first in the queue. Where it may pass, but there is no room on the
        card for it yet, it passes nobody."""
        seat = self._first_past_gangs() if is_empty else self._passer(now)
        if seat is None or not self._room_is_made(now, seat, out):
            return None
        if not is_empty:
            self._note_passed(now, seat)
        return seat

    def _first_past_gangs(self) -> Seat | None:
        """Which client gets an empty GPU while gangs are passed over: the first that is no member, or the first member
        that has work here, because no other client wants the GPU."""
        queue = self._turns.queue
        member = next((seat for seat in queue if not seat.follows and not seat.enters_with_gang), None)
        return next((seat for seat in queue if seat.gang is None), member)

    def reserved_for(self, now: int) -> Seat | None:
        """The first waiting client that may not be passed, if a client behind it would fit."""
        turns = self._turns
        if not turns.queue.order or not self._memory.fits(turns.queue.needs[0]):
            return None
        first = turns.queue.first()
        if turns.dropping or turns.waits.is_switching or (first is not None and first.is_entering):
            return first
        return next((seat for seat in turns.queue if not self._may_be_passed(now, seat)), None)

    def _may_be_passed(self, now: int, seat: Seat) -> bool:
        is_overdue = seat.passes and now - seat.first_passed >= self._turns.timer.quantum_ns
        return seat.passes < self._most_passes and not is_overdue

    def _passer(self, now: int) -> Seat | None:
        """The first client that fits although it is not first, if all before it can still be passed."""
        turns, memory = self._turns, self._memory
        if turns.dropping or turns.waits.is_switching:
            return None
        for seat in turns.queue:
            if not seat.follows and not seat.enters_with_gang and memory.fits(seat.need):
                return seat
            if not self._may_be_passed(now, seat):
                return None
        return None

    def _note_passed(self, now: int, passer: Seat) -> None:
        """Passes of members of gangs are not counted: the time at which their gang is admitted does not depend on
        them."""
        for other in takewhile(lambda other: other is not passer, self._turns.queue):
            if other.gang is None:
                other.first_passed = other.first_passed if other.passes else now
                other.passes += 1

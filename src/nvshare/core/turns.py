"""A client's way at one GPU: at rest, waiting, running and back, and the events that move it.

    rest --- asks ---> waiting --- let in ---> staying --- told to stop ---> dropping
     ^                    ^                       |                             |
     |                    +--- releases, again ---+-----------------------------+
     |                    +--- revoked -----------------------------------------+
     +--- releases, leaves, or scheduling is switched: from any of the three

`note_*` methods record what a client or the operator said and tolerate what comes late or twice. Nothing here decides
who comes in or must go: that follows from the state, in core.gpu."""

from nvshare.core import adaptive
from nvshare.core.actions import Action, DropCause, DropLock, EndTurn, GiveLock, TellContended, TurnEnd
from nvshare.core.habits import Habits
from nvshare.core.model import NO_MEMORY, QuantumRule, Seat, Settings
from nvshare.core.policies import POLICIES, share
from nvshare.core.room import Room


class Numbers:
    """Lock numbers of this daemon: the epoch in the high half, never the same twice."""

    def __init__(self, epoch: int) -> None:
        self._last = epoch << 32

    def next(self) -> int:
        self._last += 1
        return self._last


class Turns(Room):
    """Seats, their locks and places, and the timer. `out` is the list of actions of the present step."""

    def __init__(self, uuid: str, settings: Settings, numbers: Numbers) -> None:
        super().__init__(uuid, settings)
        self.rule: QuantumRule = settings.quantum
        self.habits: Habits | None = Habits() if self.rule.mode == "adaptive" else None
        self.timer_started = 0
        self.timer_ends: int | None = None
        self.quantum_ns = 0
        self.is_switching = False
        self.is_contended = False
        self.virtual_now = 0
        self._numbers = numbers
        self._rank = POLICIES[settings.policy].rank
        self.newcomers = 0
        """How many of those who wait have never had a turn."""
        self._newly_queued: list[Seat] = []
        self._untold_waits: dict[int, Seat] = {}
        self._idle: dict[int, Seat] = {}
        """Those who stay and have nothing to do."""

    # Facts noted.

    def note_left(self, now: int, seat: Seat, out: list[Action]) -> None:
        if seat.lock:
            self._end_turn(now, seat, "left", out)
        elif seat.is_waiting:
            self._dequeue(now, seat)
        self.note_memory(seat, NO_MEMORY)
        if self.habits is not None:
            self.habits.note_left(now, seat)
        del self.seats[seat.client]

    def note_claim(self, now: int, seat: Seat, lock: int, out: list[Action]) -> None:
        """The client runs already: under an earlier number, or (0) under none and gets one."""
        is_first = self.is_empty
        self._hold(now, seat, lock or self._numbers.next())
        if is_first:
            self._start_timer(now)
        if not lock:
            out.append(GiveLock(seat.client, self.uuid, seat.lock, self.is_contended))
        elif self.is_contended:
            out.append(TellContended(seat.client, self.uuid, True))

    def note_request(self, now: int, seat: Seat) -> None:
        if seat.rank is not None or seat.lock:
            # It asked before it heard that it has the lock. To tell it again would be wrong: by then it may have given
            # the lock back, and would believe that it holds it still.
            return
        self._end_pause(now, seat)
        seat.tag = max(seat.tag, self._virtual_time(now))
        self._enqueue(now, seat)

    def note_release(self, now: int, seat: Seat, lock: int, again: bool, out: list[Action]) -> None:
        if seat.lock == lock != 0:
            self._end_turn(now, seat, "released", out)
            if self.habits is not None and not again:
                self.habits.note_gave_up(seat)
            if again:
                self._end_pause(now, seat)
                self._enqueue(now, seat)
        elif seat.revoked == lock != 0:
            seat.revoked = 0
            if seat.is_waiting and not again:
                self._dequeue(now, seat)

    def note_idle(self, now: int, seat: Seat) -> None:
        """Only who stays can be idle: who drains has nothing left to do because we said so."""
        if seat.client in self.staying and self.is_contended and seat.idle_since is None:
            seat.idle_since = now
            self._idle[seat.client] = seat
            if self.habits is not None:
                self.habits.note_paused(now, seat)

    def note_busy(self, now: int, seat: Seat) -> None:
        if seat.lock:
            self._end_pause(now, seat)
            if self.habits is not None:
                self.habits.note_resumed(now, seat)

    def note_off(self, now: int, out: list[Action]) -> None:
        """Scheduling was switched: no lock and no place in the queue is worth anything any more."""
        for seat in self.running():
            self._end_turn(now, seat, "off", out)
        for seat in list(self.queue):
            self._dequeue(now, seat)

    def note_rule(self, rule: QuantumRule) -> None:
        """The operator changed the quantum: it counts for the present running set too, from when that began."""
        self.rule = rule
        self.habits = (self.habits or Habits()) if rule.mode == "adaptive" else None
        if self.timer_ends is not None:
            self._start_timer(self.timer_started)

    def note_settled(self) -> None:
        """The claims after a restart are in: the running set's order is that of its numbers, not of registration."""
        self.staying = {seat.client: seat for seat in sorted(self.staying.values(), key=lambda seat: seat.lock)}

    def check(self) -> None:
        super().check()
        assert (self.timer_ends is not None) == (not self.is_empty)
        assert not self._newly_queued
        assert self.newcomers == sum(not seat.turns for seat in self.queue)
        assert self._untold_waits.keys() <= {seat.client for seat in self.queue}
        assert self._idle == {key: seat for key, seat in self.staying.items() if seat.idle_since is not None}

    # Transitions.

    def _enqueue(self, now: int, seat: Seat) -> None:
        seat.waited_since = now
        seat.passes = 0
        seat.told_wait = False
        self._virtual_time(now)
        rank = self._rank(now, seat, self)
        if self.habits is not None:
            rank += adaptive.lag(self.habits, self.rule, seat)
        self.queue.push(seat, rank)
        self.newcomers += not seat.turns
        self._newly_queued.append(seat)
        self._untold_waits[seat.client] = seat

    def _dequeue(self, now: int, seat: Seat) -> None:
        self.queue.remove(seat)
        self.newcomers -= not seat.turns
        self._untold_waits.pop(seat.client, None)
        seat.waited_total += now - seat.waited_since
        if not self.queue.order:
            self.is_switching = False

    def _hold(self, now: int, seat: Seat, lock: int) -> None:
        if self.habits is not None:
            self.habits.note_came(now, seat, self.capacity)
        self._to_staying(seat, lock)
        seat.held_since = seat.last_scheduled = now
        seat.revoked = 0
        seat.idle_since = None
        seat.turns += 1
        self.virtual_now = max(self.virtual_now, seat.tag)

    def _drop(self, now: int, seat: Seat, cause: DropCause, out: list[Action]) -> None:
        self._idle.pop(seat.client, None)
        self._to_dropping(seat, now + self.settings.grace_ns)
        out.append(DropLock(seat.client, self.uuid, seat.lock, cause))

    def _end_turn(self, now: int, seat: Seat, end: TurnEnd, out: list[Action]) -> None:
        held = now - seat.held_since
        seat.held_total += held
        seat.tag += share(held, seat.weight)
        out.append(EndTurn(seat.client, self.uuid, seat.lock, held, end))
        if self.habits is not None:
            self.habits.note_went(now, seat)
        self._to_rest(seat)
        if self._idle:
            self._idle.pop(seat.client, None)
        if not self.staying and not self.dropping:
            self.timer_ends = None

    def _start_timer(self, now: int) -> None:
        self.timer_started = now
        if self.habits is not None:
            self._adapt(self.habits)
            return
        running_bytes = 0
        for seats in (self.staying, self.dropping):
            for seat in seats.values():
                running_bytes += seat.memory.swappable + seat.memory.unswappable
        self.quantum_ns = self.rule.quantum(running_bytes)
        self.timer_ends = now + self.quantum_ns

    def _adapt(self, habits: Habits) -> None:
        """The quantum in mode adaptive: by who waits, so it follows the queue."""
        self.quantum_ns = self.rule.least_ns
        if self.queue.order:
            head = self.queue.head
            cost = habits.cost.of(habits.pushed_out(head, self.capacity))
            self.quantum_ns = adaptive.quantum(
                habits, self.rule, head, self.running(), switch_ns=cost, newcomers=self.newcomers
            )
        self.timer_ends = self.timer_started + self.quantum_ns

    def _end_pause(self, now: int, seat: Seat) -> None:
        if seat.idle_since is not None:
            seat.note_pause(now - seat.idle_since)
            if self.habits is not None:
                self.habits.note_pause(seat, now - seat.idle_since)
            seat.idle_since = None
            self._idle.pop(seat.client, None)

    def _forget_idle(self) -> None:
        """Nobody waits: holders no longer say what they do."""
        for seat in self._idle.values():
            seat.idle_since = None
        self._idle.clear()

    def _virtual_time(self, now: int) -> int:
        """GPU time per weight of whoever has run longest, so that a newcomer neither gains nor owes anything."""
        if self.staying:
            seat = next(iter(self.staying.values()))
            self.virtual_now = max(self.virtual_now, seat.tag + share(now - seat.held_since, seat.weight))
        return self.virtual_now

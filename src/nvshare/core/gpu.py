"""One GPU: who runs, who waits, when to switch.

Theory of operation. A seat (a client at this GPU) is at rest, waiting or running; the running hold numbered locks and
are staying or dropping (core.room says what that means and when a client fits). `note_*` methods record what a client
said. `settle` then looks only at the state and the time and does what follows, so late alarms, double alarms and
reordered messages need no code of their own:

    revoke      a dropping lock whose grace is over: its client counts as waiting from now on
    shed        while those who stay do not fit and are more than one: the newest goes
    switch      the quantum is over and somebody waits: the longest running go until the first in the queue fits
    take back   an idle holder goes when that lets the first in the queue in and pays
    admit       the first in the queue, as long as it fits or would be alone; others may pass it, a few times

The quantum. One timer, started when the first of a running set comes in, and again when a switch lets the next in;
whoever fits beside comes in without touching it. If nobody waits when it ends, nobody is disturbed, and whoever comes
later and does not fit triggers the switch at once."""

from nvshare.core.actions import (
    Action,
    AnnounceRoom,
    DropCause,
    DropLock,
    EndTurn,
    GiveLock,
    QueueClient,
    ReportLongWait,
    TellContended,
    TurnEnd,
)
from nvshare.core.model import GIB, NO_MEMORY, QuantumRule, Seat, Settings
from nvshare.core.policies import POLICIES, share
from nvshare.core.room import Room

NEVER = 1 << 63
"""Later than any deadline."""


class Numbers:
    """Lock numbers of this daemon: the epoch in the high half, never the same twice."""

    def __init__(self, epoch: int) -> None:
        self._last = epoch << 32

    def next(self) -> int:
        self._last += 1
        return self._last


class Gpu(Room):
    """The turns at one GPU. `out` is the list of actions of the present step."""

    def __init__(self, uuid: str, settings: Settings, numbers: Numbers) -> None:
        super().__init__(uuid, settings)
        self.rule: QuantumRule = settings.quantum
        self.timer_started = 0
        self.timer_ends: int | None = None
        self.quantum_ns = 0
        self.is_switching = False
        self.is_contended = False
        self.virtual_now = 0
        self.deadline: int | None = None
        self._numbers = numbers
        self._rank = POLICIES[settings.policy].rank
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

    def note_request(self, now: int, seat: Seat, out: list[Action]) -> None:
        if seat.rank is not None:
            return
        if seat.lock:
            if not seat.drop_deadline:
                out.append(GiveLock(seat.client, self.uuid, seat.lock, self.is_contended))
            return
        self._end_pause(now, seat)
        seat.tag = max(seat.tag, self._virtual_time(now))
        self._enqueue(now, seat)

    def note_release(self, now: int, seat: Seat, lock: int, again: bool, out: list[Action]) -> None:
        if seat.lock == lock != 0:
            self._end_turn(now, seat, "released", out)
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

    def note_busy(self, now: int, seat: Seat) -> None:
        if seat.lock:
            self._end_pause(now, seat)

    def note_off(self, now: int, out: list[Action]) -> None:
        """Scheduling was switched: no lock and no place in the queue is worth anything any more."""
        for seat in self.running():
            self._end_turn(now, seat, "off", out)
        for seat in list(self.queue):
            self._dequeue(now, seat)

    def note_rule(self, rule: QuantumRule) -> None:
        """The operator changed the quantum: it counts for the present running set too, from when that began."""
        self.rule = rule
        if self.timer_ends is not None:
            self._start_timer(self.timer_started)

    def note_settled(self) -> None:
        """The claims after a restart are in: the running set's order is that of its numbers, not of registration."""
        self.staying = {seat.client: seat for seat in sorted(self.staying.values(), key=lambda seat: seat.lock)}

    def check(self) -> None:
        super().check()
        assert (self.timer_ends is not None) == (not self.is_empty)
        assert not self._newly_queued
        assert self._untold_waits.keys() <= {seat.client for seat in self.queue}
        assert self._idle == {key: seat for key, seat in self.staying.items() if seat.idle_since is not None}

    # What follows.

    def settle(self, now: int, out: list[Action], *, frozen: bool) -> None:
        """Do what follows from the state and the time. Frozen (claims are still coming in): nobody moves."""
        admitted: list[Seat] = []
        if not frozen:
            if self.dropping:
                self._revoke(now, out)
            if len(self.staying) > 1:
                self._shed(now, out)
            if self.queue.order:
                if self.is_switching or (self.timer_ends is not None and now >= self.timer_ends):
                    self._switch(now, out)
                if self._idle:
                    self._take_back(now, out)
                self._admit(now, admitted)
        self._tell(now, admitted, out)
        self.deadline = self._next_deadline(frozen)

    def _revoke(self, now: int, out: list[Action]) -> None:
        while self.dropping:
            seat = next(iter(self.dropping.values()))
            if seat.drop_deadline > now:
                return
            lock = seat.lock
            self._end_turn(now, seat, "revoked", out)
            seat.revoked = lock
            self._enqueue(now, seat)

    def _shed(self, now: int, out: list[Action]) -> None:
        while not self.is_within_limit():
            self._drop(now, next(reversed(self.staying.values())), "growth", out)

    def _switch(self, now: int, out: list[Action]) -> None:
        head = self.queue.head
        if not self.fits(head.memory.swappable):
            self.is_switching = True
        if self.is_switching:
            while self.staying and not self.would_fit(head.memory.swappable):
                self._drop(now, next(iter(self.staying.values())), "quantum", out)

    def _take_back(self, now: int, out: list[Action]) -> None:
        if self.is_switching:
            return
        head = self.queue.head
        if self.would_fit(head.memory.swappable):
            return
        leaving: list[Seat] = []
        leaving_bytes = 0
        for seat in self._idle.values():
            if self._pays_at(seat, head) > now:
                continue
            leaving.append(seat)
            leaving_bytes += seat.memory.swappable
            if len(leaving) == len(self.staying) or self.would_fit(head.memory.swappable, leaving_bytes):
                for idle in leaving:
                    self._drop(now, idle, "idle", out)
                return

    def _pays_at(self, seat: Seat, head: Seat) -> int:
        """When taking an idle holder's lock pays: at once if the switch is cheap or the holder usually pauses longer
        than the switch costs; else when it has been idle for as long as the switch costs, which is then at most twice
        the best that could have been done."""
        assert seat.idle_since is not None
        crowded = self.running_bytes + self.fixed_bytes + head.memory.swappable - self.size
        moved = max(0, min(crowded, seat.memory.swappable))
        cost = moved * self.settings.move_ns_per_gib // GIB
        usual = seat.usual_idle
        if cost <= self.settings.cheap_switch_ns or (usual is not None and usual >= cost):
            return seat.idle_since
        return seat.idle_since + cost

    def _admit(self, now: int, admitted: list[Seat]) -> None:
        starts = False
        while self.queue.order:
            head = self.queue.head
            seat: Seat | None = head
            is_empty = not self.staying and not self.dropping
            if is_empty or self.fits(head.memory.swappable):
                starts = starts or is_empty or self.is_switching
                self.is_switching = False
            else:
                seat = self._passer(now)
            if seat is None:
                break
            self._dequeue(now, seat)
            self._hold(now, seat, self._numbers.next())
            admitted.append(seat)
        if starts:
            self._start_timer(now)

    def _passer(self, now: int) -> Seat | None:
        """The first who fits although it is not first, if all before it can still be passed. Nobody passes while a
        lock is being dropped: the room is meant for the head."""
        if self.dropping or self.is_switching or not self.fits(self.queue.least_need):
            return None
        passed: list[Seat] = []
        for seat in self.queue:
            if self.fits(seat.memory.swappable):
                for other in passed:
                    other.first_passed = other.first_passed if other.passes else now
                    other.passes += 1
                return seat
            if seat.passes >= self.settings.most_passes:
                return None
            if seat.passes and now - seat.first_passed >= self.quantum_ns:
                return None
            passed.append(seat)
        raise AssertionError("somebody fits, by least_need")

    def _tell(self, now: int, admitted: list[Seat], out: list[Action]) -> None:
        contended = bool(self.queue.order)
        for seat in admitted:
            if seat.told_wait:
                out.append(AnnounceRoom(seat.client, self.uuid))
            out.append(GiveLock(seat.client, self.uuid, seat.lock, contended, now - seat.waited_since))
        if contended != self.is_contended:
            self.is_contended = contended
            if not contended:
                self._forget_idle()
            for seat in self.staying.values():
                if seat not in admitted:
                    out.append(TellContended(seat.client, self.uuid, contended))
        if self._newly_queued:
            for seat in self._newly_queued:
                if seat.rank is not None:
                    seat.told_wait = True
                    out.append(QueueClient(seat.client, self.uuid, self.queue.place(seat)))
            self._newly_queued.clear()
        if self._untold_waits:
            self._tell_long_waits(now, out)

    def _tell_long_waits(self, now: int, out: list[Action]) -> None:
        while self._untold_waits:
            seat = next(iter(self._untold_waits.values()))
            waited = now - seat.waited_since
            if waited < self.settings.long_wait_ns:
                return
            del self._untold_waits[seat.client]
            running = sorted(self.running(), key=lambda holder: holder.held_since)
            holder, held = (running[0].client, now - running[0].held_since) if running else (0, 0)
            place = self.queue.place(seat)
            out.append(ReportLongWait(seat.client, self.uuid, place, waited, len(running), holder, held))

    def _next_deadline(self, frozen: bool) -> int | None:
        deadline = NEVER
        for first in self._untold_waits.values():
            deadline = first.waited_since + self.settings.long_wait_ns
            break
        if not frozen:
            for first in self.dropping.values():
                if first.drop_deadline < deadline:
                    deadline = first.drop_deadline
                break
            if self.queue.order and not self.is_switching:
                if self.timer_ends is not None and self.timer_ends < deadline:
                    deadline = self.timer_ends
                if self._idle:
                    deadline = min(deadline, self._idle_deadline())
        return deadline if deadline != NEVER else None

    def _idle_deadline(self) -> int:
        """When the idle holders whose locks pay by then make room for the head; NEVER if they do not."""
        head = self.queue.head
        if self.would_fit(head.memory.swappable):
            return NEVER
        idle = self._idle.values()
        leaving_bytes = 0
        for count, (pays_at, size) in enumerate(sorted((self._pays_at(s, head), s.memory.swappable) for s in idle), 1):
            leaving_bytes += size
            if count == len(self.staying) or self.would_fit(head.memory.swappable, leaving_bytes):
                return pays_at
        return NEVER

    # Transitions.

    def _enqueue(self, now: int, seat: Seat) -> None:
        seat.waited_since = now
        seat.passes = 0
        seat.told_wait = False
        self._virtual_time(now)
        self.queue.push(seat, self._rank(now, seat, self))
        self._newly_queued.append(seat)
        self._untold_waits[seat.client] = seat

    def _dequeue(self, now: int, seat: Seat) -> None:
        self.queue.remove(seat)
        self._untold_waits.pop(seat.client, None)
        seat.waited_total += now - seat.waited_since
        if not self.queue.order:
            self.is_switching = False

    def _hold(self, now: int, seat: Seat, lock: int) -> None:
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
        self._to_rest(seat)
        if self._idle:
            self._idle.pop(seat.client, None)
        if not self.staying and not self.dropping:
            self.timer_ends = None

    def _start_timer(self, now: int) -> None:
        self.timer_started = now
        running_bytes = 0
        for seats in (self.staying, self.dropping):
            for seat in seats.values():
                running_bytes += seat.memory.swappable + seat.memory.unswappable
        self.quantum_ns = self.rule.quantum(running_bytes)
        self.timer_ends = now + self.quantum_ns

    def _end_pause(self, now: int, seat: Seat) -> None:
        if seat.idle_since is not None:
            seat.note_pause(now - seat.idle_since)
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

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

from nvshare.core import adaptive
from nvshare.core.actions import Action, AnnounceRoom, GiveLock, QueueClient, ReportLongWait, TellContended
from nvshare.core.model import GIB, Seat
from nvshare.core.turns import Turns

NEVER = 1 << 63
"""Later than any deadline."""


class Gpu(Turns):
    """What follows at one GPU. `out` is the list of actions of the present step."""

    deadline: int | None = None
    """When something will follow from the passing of time alone."""

    def settle(self, now: int, out: list[Action], *, frozen: bool) -> None:
        """Do what follows from the state and the time. Frozen (claims are still coming in): nobody moves."""
        admitted: list[Seat] = []
        if not frozen:
            if self.dropping:
                self._revoke(now, out)
            if len(self.staying) > 1:
                self._shed(now, out)
            if self.queue.order:
                if self.habits is not None and self.timer_ends is not None:
                    self._adapt(self.habits)
                if self.is_switching or (self.timer_ends is not None and now >= self.timer_ends):
                    self._switch(now, out)
                if self._idle:
                    self._take_back(now, out)
                self._admit(now, admitted)
        self._tell(now, admitted, out)
        self.deadline = self._next_deadline(now, frozen)

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
                self._drop(now, self._first_to_go(now), "quantum", out)

    def _first_to_go(self, now: int) -> Seat:
        if self.habits is not None:
            return adaptive.first_to_go(now, self.habits, self.staying.values())
        return next(iter(self.staying.values()))

    def _take_back(self, now: int, out: list[Action]) -> None:
        if self.is_switching:
            return
        head = self.queue.head
        if self.would_fit(head.memory.swappable):
            return
        pushed_out = self._pushed_out(head)
        leaving: list[Seat] = []
        leaving_bytes = 0
        for seat in self._idle.values():
            if self._pays_at(now, seat, head, pushed_out) > now:
                continue
            leaving.append(seat)
            leaving_bytes += seat.memory.swappable
            if len(leaving) == len(self.staying) or self.would_fit(head.memory.swappable, leaving_bytes):
                for idle in leaving:
                    self._drop(now, idle, "idle", out)
                return

    def _pays_at(self, now: int, seat: Seat, head: Seat, pushed_out: int) -> int:
        """When taking an idle holder's lock pays: at once if the switch is cheap or the holder usually pauses longer
        than the switch costs; else when it has been idle for as long as the switch costs, which is then at most twice
        the best that could have been done."""
        assert seat.idle_since is not None
        cost = self._switch_ns(seat, head, pushed_out)
        if cost <= self.settings.cheap_switch_ns:
            return seat.idle_since
        if self.habits is not None:
            return adaptive.pays_at(now, seat, cost)
        usual = seat.usual_pause
        return seat.idle_since if usual is not None and usual >= cost else seat.idle_since + cost

    def _switch_ns(self, seat: Seat, head: Seat, pushed_out: int) -> int:
        if self.habits is not None:
            return adaptive.idle_cost(self.habits, seat, pushed_out, self.settings.move_ns_per_gib)
        crowded = self.running_bytes + self.fixed_bytes + head.memory.swappable - self.size
        moved = max(0, min(crowded, seat.memory.swappable))
        return moved * self.settings.move_ns_per_gib // GIB

    def _pushed_out(self, head: Seat) -> int:
        """What leaves the card when the first in the queue comes in, as far as mode adaptive can tell."""
        return self.habits.pushed_out(head, self.capacity) if self.habits is not None else 0

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
        contended = bool(self.queue.order) or (self.habits is not None and not self.all_fit())
        for seat in admitted:
            if seat.told_wait:
                out.append(AnnounceRoom(seat.client, self.uuid))
            out.append(GiveLock(seat.client, self.uuid, seat.lock, contended, now - seat.waited_since))
        if contended != self.is_contended:
            self.is_contended = contended
            if self.habits is not None:
                self.habits.note_contention()
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

    def _next_deadline(self, now: int, frozen: bool) -> int | None:
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
                    deadline = min(deadline, self._idle_deadline(now))
        return deadline if deadline != NEVER else None

    def _idle_deadline(self, now: int) -> int:
        """When the idle holders whose locks pay by then make room for the head; NEVER if they do not."""
        head = self.queue.head
        if self.would_fit(head.memory.swappable):
            return NEVER
        idle = self._idle.values()
        leaving_bytes = 0
        pushed_out = self._pushed_out(head)
        pays = sorted((self._pays_at(now, seat, head, pushed_out), seat.memory.swappable) for seat in idle)
        for count, (pays_at, size) in enumerate(pays, 1):
            leaving_bytes += size
            if count == len(self.staying) or self.would_fit(head.memory.swappable, leaving_bytes):
                return pays_at
        return NEVER

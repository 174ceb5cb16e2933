"""What programs have used, from the steps of the core. Pure: steps in, sums out.

    row = (user, pod or run, program, GPU) -> Use, in one period

A period is an hour; after two days the hours of a day (UTC) become one period, and a day is forgotten after 90 days.
A period has at most 200 rows; what does not fit is added to a row "(others)" of its GPU. So there are never more than
49 + 91 periods, or 28,000 rows.

A turn, a wait or an allocation that lasts is counted up to `settle`, which is called every minute: it may be counted in
the wrong hour by so much. While scheduling is off nobody holds a lock, and no time is counted as held."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import SECOND
from nvshare.journal import Step

HOUR_S = 3600
DAY_S = 24 * HOUR_S
HOURS_KEPT = 48
DAYS_KEPT = 90
MOST_ROWS = 200
MAX_TEXT = 128
OTHERS = "(others)"
MAX_BYTES = (1 << 63) - 1

By = Literal["user", "pod", "name", "gpu"]
Who = tuple[str, str, str, str]
"""User ID, pod or run, program, GPU."""
COLUMNS: dict[By, int] = {"user": 0, "pod": 1, "name": 2, "gpu": 3}


class Use(msgspec.Struct):
    """The sums of a row."""

    held_seconds: float = 0.0
    memory_byte_seconds: float = 0.0
    waiting_seconds: float = 0.0
    switches: int = 0
    """How often it got the lock."""
    moved_in_bytes: int = 0
    moved_out_bytes: int = 0

    def add(self, other: "Use") -> None:
        self.held_seconds += other.held_seconds
        self.memory_byte_seconds += other.memory_byte_seconds
        self.waiting_seconds += other.waiting_seconds
        self.switches += other.switches
        self.moved_in_bytes = min(self.moved_in_bytes + other.moved_in_bytes, MAX_BYTES)
        self.moved_out_bytes = min(self.moved_out_bytes + other.moved_out_bytes, MAX_BYTES)


class Period:
    """The rows of an hour or a day that begins at `start`, in seconds since 1970."""

    __slots__ = ("line", "rows", "seconds", "start")

    def __init__(self, start: int, seconds: int) -> None:
        self.start = start
        self.seconds = seconds
        self.rows: dict[Who, Use] = {}
        self.line: bytes | None = None
        """As it is written in the file, until it changes."""

    def row(self, who: Who) -> Use:
        """To be changed."""
        self.line = None
        found = self.rows.get(who)
        if found is None:
            if len(self.rows) >= MOST_ROWS:
                who = (OTHERS, OTHERS, OTHERS, who[3])
            found = self.rows.setdefault(who, Use())
        return found


class _Seat:
    """A client at one GPU, now. It has been so since `since`."""

    __slots__ = ("holds", "memory", "since", "waits", "who")

    def __init__(self, who: Who, now: int, memory: int) -> None:
        self.who, self.since, self.memory = who, now, memory
        self.holds = self.waits = False


class Usage:
    """All periods, and the clients of now."""

    def __init__(self) -> None:
        self.periods: dict[tuple[int, int], Period] = {}
        """By length and start."""
        self._seats: dict[int, dict[str, _Seat]] = {}
        self._current = Period(0, 0)
        self._events: dict[type[ev.Event], Callable[[int, Any], None]] = {
            ev.ClientRegistered: self._registered,
            ev.ClientLeft: self._left,
            ev.LockRequested: self._memory_changed,
            ev.LockReleased: self._released,
            ev.MemoryChanged: self._memory_changed,
            ev.MemoryMoved: self._moved,
            ev.SchedulingSwitched: self._switched,
        }
        self._actions: dict[type[ac.Action], Callable[[int, Any], None]] = {
            ac.GiveLock: self._lock_given,
            ac.EndTurn: lambda now, action: self._change(now, action, holds=False),
            ac.QueueClient: lambda now, action: self._change(now, action, holds=False, waits=True),
            ac.DropLock: self._dropped,
        }

    def observe(self, step: Step) -> None:
        if not 0 <= step.time - self._current.start < self._current.seconds:
            self._begin_period(step.time)
        note = self._events.get(type(step.event))
        if note is not None:
            note(step.now, step.event)
        is_new = type(step.event) is ev.ClientRegistered
        for action in _without_refused(step.actions) if is_new else step.actions:
            note_action = self._actions.get(type(action))
            if note_action is not None:
                note_action(step.now, action)

    def settle(self, now: int, time: float) -> None:
        """Count up to now what lasts, and make days of old hours."""
        self._begin_period(time)
        for seats in self._seats.values():
            for seat in seats.values():
                self._count(now, seat)
        self._roll_up(time)

    def restore(self, periods: Iterable[Period]) -> None:
        for period in periods:
            self.periods[period.seconds, period.start] = period

    def report(self, since: float, by: By) -> tuple[float, list[tuple[str, Use]]]:
        """From when the sums count, and the sums by user, pod, program or GPU; who held most comes first. The first
        period counts as a whole."""
        chosen = [period for period in self.periods.values() if period.start + period.seconds > since]
        sums: dict[str, Use] = {}
        for period in chosen:
            for who, use in period.rows.items():
                sums.setdefault(who[COLUMNS[by]], Use()).add(use)
        rows = sorted(sums.items(), key=lambda row: (-row[1].held_seconds, row[0]))
        return float(min((period.start for period in chosen), default=since)), rows

    # Periods.

    def _begin_period(self, time: float) -> None:
        start = int(time) // HOUR_S * HOUR_S
        self._current = self._period(start, HOUR_S)

    def _period(self, start: int, seconds: int) -> Period:
        found = self.periods.get((seconds, start))
        if found is None:
            found = self.periods[seconds, start] = Period(start, seconds)
        return found

    def _roll_up(self, time: float) -> None:
        for period in list(self.periods.values()):
            if period.start + period.seconds <= time - DAYS_KEPT * DAY_S:
                del self.periods[period.seconds, period.start]
            elif period.start > time:  # the clock was wrong
                del self.periods[period.seconds, period.start]
                for who, use in period.rows.items():
                    self._current.row(who).add(use)
            elif period.seconds == HOUR_S and period.start + HOUR_S <= time - HOURS_KEPT * HOUR_S:
                del self.periods[HOUR_S, period.start]
                for who, use in period.rows.items():
                    self._period(period.start // DAY_S * DAY_S, DAY_S).row(who).add(use)

    # Clients.

    def _registered(self, now: int, event: ev.ClientRegistered) -> None:
        user = "" if event.uid is None else str(event.uid)
        who = user, event.label[:MAX_TEXT], event.name[:MAX_TEXT]
        seats = {claim.gpu: _Seat((*who, claim.gpu), now, claim.memory.used) for claim in event.claims}
        for claim in event.claims:
            seats[claim.gpu].holds = bool(claim.lock)  # What follows from a claim that comes too late corrects it.
        self._seats[event.client] = seats

    def _left(self, now: int, event: ev.ClientLeft) -> None:
        for seat in self._seats.pop(event.client, {}).values():
            self._count(now, seat)

    def _memory_changed(self, now: int, event: ev.LockRequested | ev.MemoryChanged) -> None:
        seat = self._seat(event)
        if seat is not None and seat.memory != event.memory.used:
            self._count(now, seat)
            seat.memory = event.memory.used

    def _moved(self, now: int, event: ev.MemoryMoved) -> None:
        seat = self._seat(event)
        if seat is not None:
            moved = Use(moved_out_bytes=event.moved) if event.to_host else Use(moved_in_bytes=event.moved)
            self._current.row(seat.who).add(moved)

    # Turns.

    def _released(self, now: int, event: ev.LockReleased) -> None:
        """If it has more work, it waits already, or QueueClient follows."""
        if not event.again:
            self._change(now, event, waits=False)

    def _lock_given(self, now: int, action: ac.GiveLock) -> None:
        self._change(now, action, holds=True, waits=False)
        seat = self._seat(action)
        if seat is not None:
            self._current.row(seat.who).switches += 1

    def _dropped(self, now: int, action: ac.DropLock) -> None:
        """A lock that was claimed too late was never held."""
        if action.cause == "claim":
            self._change(now, action, holds=False, waits=True)

    def _switched(self, now: int, event: ev.SchedulingSwitched) -> None:
        for seats in self._seats.values():
            for seat in seats.values():
                self._count(now, seat)
                seat.holds = seat.waits = False

    def _seat(self, part: Any) -> _Seat | None:
        return self._seats.get(part.client, {}).get(part.gpu)

    def _change(self, now: int, part: Any, *, holds: bool | None = None, waits: bool | None = None) -> None:
        seat = self._seat(part)
        if seat is not None:
            self._count(now, seat)
            seat.holds = seat.holds if holds is None else holds
            seat.waits = seat.waits if waits is None else waits

    def _count(self, now: int, seat: _Seat) -> None:
        seconds = (now - seat.since) / SECOND
        seat.since = now
        if seconds > 0:
            row = self._current.row(seat.who)
            row.memory_byte_seconds += seconds * seat.memory
            row.held_seconds += seconds * seat.holds
            row.waiting_seconds += seconds * seat.waits


def _without_refused(actions: tuple[ac.Action, ...]) -> Iterable[ac.Action]:
    """Without locks that are given only to be dropped, because they were claimed too late."""
    refused = {action.lock for action in actions if isinstance(action, ac.DropLock) and action.cause == "claim"}
    return [action for action in actions if not (isinstance(action, ac.GiveLock) and action.lock in refused)]

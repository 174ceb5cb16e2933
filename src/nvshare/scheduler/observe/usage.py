"""What programs have used, from the sums of the core. Pure: steps in, sums out.

    row = (user, pod or run, program, GPU) -> Use, in one period

A period is an hour; after two days the hours of a day (UTC) become one period, and a day is forgotten after 90 days.
A period has at most 200 rows; what does not fit is added to a row "(others)" of its GPU. So there are never more than
49 + 91 periods, or 28,000 rows.

The core counts for each seat how long it has held locks, waited and kept the GPU busy, its turns and what it has moved.
`collect` adds the increase of these sums to a row. It is called every minute, and when the client leaves or its memory
changes, so up to a minute may be counted in the wrong hour. So a turn costs nothing here. While scheduling is off no
client holds a lock, and no time is counted as held."""

from collections.abc import Callable, Iterable, Mapping
from typing import cast

import msgspec

from nvshare.core import events as ev
from nvshare.core.client import Client
from nvshare.core.model import SECOND, Claim
from nvshare.core.turns.seat import Seat
from nvshare.journal import Step

HOUR_S = 3600
DAY_S = 24 * HOUR_S
HOURS_KEPT = 48
DAYS_KEPT = 90
MOST_ROWS = 200
MAX_TEXT = 128
OTHERS = "(others)"
MAX_BYTES = (1 << 63) - 1
CLOCK_SET = 1_735_689_600
"""2025: a clock that is before it has not been set yet."""

Who = tuple[str, str, str, str]
"""User ID, pod or run, program, GPU."""


class Use(msgspec.Struct):
    """The sums of a row."""

    held_seconds: float = 0.0
    memory_byte_seconds: float = 0.0
    waiting_seconds: float = 0.0
    switches: int = 0
    """How often it got the lock."""
    moved_in_bytes: int = 0
    moved_out_bytes: int = 0
    gpu_seconds: float = 0.0
    """For how long its work kept the GPU busy."""

    def add(self, other: "Use") -> None:
        self.held_seconds += other.held_seconds
        self.memory_byte_seconds += other.memory_byte_seconds
        self.waiting_seconds += other.waiting_seconds
        self.switches += other.switches
        self.moved_in_bytes = min(self.moved_in_bytes + other.moved_in_bytes, MAX_BYTES)
        self.moved_out_bytes = min(self.moved_out_bytes + other.moved_out_bytes, MAX_BYTES)
        self.gpu_seconds += other.gpu_seconds


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


class _Counted:
    """What has been counted of a client at one GPU. It has had `memory` since `since`."""

    __slots__ = ("gpu_ns", "held", "memory", "moved", "seat", "since", "turns", "waited", "who")

    def __init__(self, who: Who, seat: Seat, now: int, claim: Claim) -> None:
        self.who, self.seat = who, seat
        self.since, self.memory = now, claim.memory.used
        self.held = self.waited = self.gpu_ns = 0
        self.turns = int(claim.lock != 0 and claim.lock == seat.lock)  # A lock that it had before is not given to it.
        self.moved = seat.moved


class Usage:
    """All periods, and the clients of now. `clients` are the core's."""

    def __init__(self, clients: Mapping[int, Client]) -> None:
        self.periods: dict[tuple[int, int], Period] = {}
        """By length and start."""
        self._clients = clients
        self._counted: dict[int, dict[str, _Counted]] = {}
        self._current = Period(0, 0)
        self.notes: dict[type[ev.Event], Callable[[Step], None]] = {
            ev.ClientRegistered: self._registered,
            ev.ClientLeft: self._left,
            ev.LockRequested: self._memory_changed,
            ev.MemoryChanged: self._memory_changed,
        }
        """What has to be seen, by kind of event."""

    def collect(self, now: int, time: float) -> None:
        """Count up to now what lasts, and make days of old hours."""
        self._begin_period(time)
        for seats in self._counted.values():
            for counted in seats.values():
                self._count(now, counted)
        self._roll_up(time)

    def restore(self, periods: Iterable[Period]) -> None:
        for period in periods:
            self.periods[period.seconds, period.start] = period

    def periods_since(self, since: float) -> list[Period]:
        """The first of them counts as a whole."""
        return [period for period in self.periods.values() if period.start + period.seconds > since]

    # Periods.

    def _begin_period(self, time: float) -> None:
        start = int(time) // HOUR_S * HOUR_S if time >= CLOCK_SET else 0
        self._current = self._period(start, HOUR_S)

    def _period(self, start: int, seconds: int) -> Period:
        found = self.periods.get((seconds, start))
        if found is None:
            found = self.periods[seconds, start] = Period(start, seconds)
        return found

    def _roll_up(self, time: float) -> None:
        if time < CLOCK_SET:
            return  # It is not known what is old.
        for period in list(self.periods.values()):
            if CLOCK_SET <= period.start <= time - DAYS_KEPT * DAY_S - period.seconds:
                del self.periods[period.seconds, period.start]
            elif not CLOCK_SET <= period.start <= time:  # the clock was wrong
                del self.periods[period.seconds, period.start]
                for who, use in period.rows.items():
                    self._current.row(who).add(use)
            elif period.seconds == HOUR_S and period.start + HOUR_S <= time - HOURS_KEPT * HOUR_S:
                del self.periods[HOUR_S, period.start]
                for who, use in period.rows.items():
                    self._period(period.start // DAY_S * DAY_S, DAY_S).row(who).add(use)

    # Clients.

    def _registered(self, step: Step) -> None:
        event = cast("ev.ClientRegistered", step.event)
        user = "" if event.uid is None else str(event.uid)
        who = user, event.label[:MAX_TEXT], event.name[:MAX_TEXT]
        seats = self._clients[event.client].seats
        self._counted[event.client] = {
            claim.gpu: _Counted((*who, claim.gpu), seats[claim.gpu], step.now, claim) for claim in event.claims
        }

    def _left(self, step: Step) -> None:
        self._begin_period(step.time)
        for counted in self._counted.pop(cast("ev.ClientLeft", step.event).client, {}).values():
            self._count(step.now, counted)

    def _memory_changed(self, step: Step) -> None:
        event = cast("ev.LockRequested | ev.MemoryChanged", step.event)
        counted = self._counted.get(event.client, {}).get(event.gpu)
        if counted is not None and counted.memory != event.memory.used:
            self._begin_period(step.time)
            self._count(step.now, counted)
            counted.memory = event.memory.used

    def _count(self, now: int, counted: _Counted) -> None:
        """Add what the core has counted since the last time."""
        seat, seconds = counted.seat, (now - counted.since) / SECOND
        held, waited, moved = seat.held_ns(now), seat.waited_ns(now), seat.moved
        use = Use(
            (held - counted.held) / SECOND,
            seconds * counted.memory,
            (waited - counted.waited) / SECOND,
            seat.turns - counted.turns,
            moved.in_bytes - counted.moved.in_bytes,
            moved.out_bytes - counted.moved.out_bytes,
            (seat.gpu_ns - counted.gpu_ns) / SECOND,
        )
        if seconds > 0 or use != Use():
            self._current.row(counted.who).add(use)
        counted.since, counted.held, counted.waited = now, held, waited
        counted.turns, counted.moved, counted.gpu_ns = seat.turns, moved, seat.gpu_ns

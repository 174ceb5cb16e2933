"""What the modes `adaptive` and `balanced` know of a GPU's clients: whose memory is on the card, how long each works.

Theory of operation. The driver keeps the most recently used memory on the card, but does not report which memory that
is. The order in which the clients ran is known here: the running clients, whenever their turns began, before those
whose turns have ended. From it follows how much of a client's memory is still on the card, how much must be moved in,
and how much of the others' memory this evicts.

    stretch     the time in which a client holds the lock and works, from one pause to the next. If a turn ends in the
                middle of a stretch, the stretch continues in the next turn
    service     the same time, divided at each moment by the number of clients that work, because they share the GPU
    usual       the average service of stretches in which no memory had to be moved in
    cost        the time of a stretch beyond the usual service if memory had to be moved in

A client's first stretch brings all its memory in. With `compares_first` the last such stretch is kept until a usual
one is known, and is then compared with it. This first estimate is rough, because pages are created and programs warm
up, but it is known before the client's first switch back to the GPU instead of after it.

Pauses are reported only while the GPU is contended. In these modes it is contended whenever not all of its clients fit
together, so habits are known before a client waits."""

from nvshare.core.model import GIB, SECOND
from nvshare.core.modes.move_cost import LinkSpeed, MoveCost, unknown
from nvshare.core.turns.seat import Seat

MIN_MOVED = GIB // 4
"""Smaller moves say nothing about the cost."""
FIRST_GUESS_DUTY = 0.6
GUESS_NS = 2 * SECOND
"""The first guess counts like this much time seen."""
KEPT = 0.9
"""The factor of all older stretches and pauses when a new one comes."""


class Habit:
    """The habits of one client."""

    __slots__ = (
        "begins_in_load", "busy_since", "is_counted", "last_busy", "last_turn", "loaded", "paused",
        "released_without_work", "seat", "service", "service_since", "stretch", "turn_busy", "turn_loaded", "unjudged",
        "usual_service", "worked",
    )  # fmt: skip

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.busy_since: int | None = None
        self.service_since = 0
        self.stretch = 0
        """The time of the present stretch before `busy_since`."""
        self.service = 0
        """The same, as service."""
        self.loaded = 0
        """Bytes brought in since the stretch began."""
        self.turn_loaded = 0
        """The same, in the present turn: a stretch may last for many turns."""
        self.is_counted = False
        """The beginning of the present stretch is known."""
        self.begins_in_load = False
        """A turn of the present stretch began while memory of another client moved in."""
        self.usual_service: int | None = None
        self.unjudged: tuple[int, int, int] | None = None
        """Time, service and bytes of a stretch in which memory was moved in, while `usual_service` is not known."""
        self.worked = 0.0
        """Service of the last stretches; older ones count less."""
        self.paused = 0.0
        """The same for the pauses."""
        self.turn_busy = 0
        """How much of the present, or else the last, turn was work."""
        self.last_busy = 0
        """How much of the turn before that was work."""
        self.last_turn = 0
        self.released_without_work = False
        """The last turn ended because the client had nothing more to do."""

    @property
    def duty(self) -> float:
        """The share of its time in which this client would use the GPU if it had it for itself."""
        worked = self.worked + GUESS_NS * FIRST_GUESS_DUTY
        return worked / (worked + self.paused + GUESS_NS * (1 - FIRST_GUESS_DUTY))


class Habits:
    """The habits of one GPU's clients, in the order in which they last ran."""

    def __init__(self, link: LinkSpeed = unknown, *, compares_first: bool = False, guess_weight: float = 0.0) -> None:
        self.cost = MoveCost(link, guess_weight)
        self._compares_first = compares_first
        self._recent: dict[int, Habit] = {}
        self._running: dict[int, Habit] = {}
        """Those whose turn has not ended, in the same order."""
        self._working = 0
        self._service = 0
        self._service_at = 0

    # Facts noted.

    def turn_began(self, now: int, seat: Seat, capacity: int) -> None:
        habit = self._recent.get(seat.client) or Habit(seat)
        habit.turn_loaded = self.missing(seat, capacity)
        habit.loaded += habit.turn_loaded
        habit.last_busy, habit.turn_busy = habit.turn_busy, 0
        habit.is_counted = habit.is_counted or not habit.stretch
        habit.begins_in_load = habit.begins_in_load or (self._compares_first and self._is_loading(now, seat))
        self._begin(now, habit)
        self._to_end(habit)
        self._running[seat.client] = habit

    def turn_ended(self, now: int, seat: Seat) -> None:
        habit = self._recent.get(seat.client) or Habit(seat)
        self._cease(now, habit)
        habit.last_turn = now - seat.held_since
        habit.released_without_work = False
        self._to_end(habit)
        self._running.pop(seat.client, None)

    def released_without_work(self, seat: Seat) -> None:
        self._recent[seat.client].released_without_work = True

    def client_left(self, now: int, seat: Seat) -> None:
        self._running.pop(seat.client, None)
        habit = self._recent.pop(seat.client, None)
        if habit is not None:
            self._cease(now, habit)

    def pause_began(self, now: int, seat: Seat) -> None:
        """A stretch has ended."""
        habit = self._recent.get(seat.client)
        if habit is None:
            return
        self._cease(now, habit)
        if habit.is_counted and habit.service:
            self._learn(habit)
        habit.stretch = habit.service = habit.loaded = habit.turn_loaded = 0
        habit.is_counted, habit.begins_in_load = True, False

    def work_resumed(self, now: int, seat: Seat) -> None:
        if seat.client in self._recent:
            self._begin(now, self._recent[seat.client])

    def pause_ended(self, seat: Seat, pause_ns: int) -> None:
        """A pause has ended, whether the client kept its lock meanwhile or not."""
        if seat.client in self._recent:
            habit = self._recent[seat.client]
            habit.paused = KEPT * habit.paused + pause_ns

    def reports_changed(self) -> None:
        """Holders begin or cease to say when they pause: of what lies before nothing is known."""
        for habit in self._recent.values():
            habit.is_counted = False

    def _begin(self, now: int, habit: Habit) -> None:
        if habit.busy_since is None:
            self._pass_time(now)
            self._working += 1
            habit.busy_since, habit.service_since = now, self._service

    def _cease(self, now: int, habit: Habit) -> None:
        if habit.busy_since is not None:
            self._pass_time(now)
            self._working -= 1
            habit.turn_busy += now - habit.busy_since
            habit.stretch += now - habit.busy_since
            habit.service += self._service - habit.service_since
            habit.busy_since = None

    def _pass_time(self, now: int) -> None:
        if self._working:
            self._service += (now - self._service_at) // self._working
        self._service_at = now

    def _to_end(self, habit: Habit) -> None:
        self._recent.pop(habit.seat.client, None)
        self._recent[habit.seat.client] = habit

    def _is_loading(self, now: int, seat: Seat) -> bool:
        """Another client's memory still moves in: its turn began so recently that the move may not have ended."""
        move_ns = self.cost.most_ns_per_gib
        others = (one for one in self._recent.values() if one.seat.lock and one.seat is not seat)
        return any(one.turn_loaded * move_ns // GIB > now - one.seat.held_since for one in others)

    def _learn(self, habit: Habit) -> None:
        service, usual = habit.service, habit.usual_service
        habit.worked = KEPT * habit.worked + service
        if habit.begins_in_load:
            return
        if habit.loaded >= MIN_MOVED:
            self.cost.note_all(habit.loaded, habit.stretch)
        if habit.loaded < MIN_MOVED:
            habit.usual_service = service if usual is None else usual + (service - usual) // 4
            if habit.unjudged is not None:
                self._note_cost(*habit.unjudged, habit.usual_service)
                habit.unjudged = None
        elif usual is not None:
            self._note_cost(habit.stretch, service, habit.loaded, usual)
        elif self._compares_first:
            habit.unjudged = habit.stretch, service, habit.loaded

    def _note_cost(self, stretch: int, service: int, loaded: int, usual: int) -> None:
        # Service becomes time again: moving memory is not shared with the clients that worked meanwhile.
        self.cost.note(loaded, stretch * (service - usual) // service, usual * stretch // service)

    # What is known. `capacity` is what the card has for all clients' swappable memory.

    def of(self, seat: Seat) -> Habit | None:
        return self._recent.get(seat.client)

    def duty(self, seat: Seat) -> float:
        habit = self._recent.get(seat.client)
        return FIRST_GUESS_DUTY if habit is None else habit.duty

    def busy_in_turn(self, now: int, seat: Seat) -> int:
        habit = self._recent.get(seat.client)
        if habit is None:
            return 0
        return habit.turn_busy + (0 if habit.busy_since is None else now - habit.busy_since)

    def loaded(self, seat: Seat) -> int:
        """Bytes that a client has brought in during its present turn, since its present stretch of work began."""
        habit = self._recent.get(seat.client)
        return 0 if habit is None else habit.turn_loaded

    def missing(self, seat: Seat, capacity: int) -> int:
        """Bytes of a client that are not on the card."""
        return seat.need - self._present(seat, capacity)[0]

    def evicted_bytes(self, seat: Seat, capacity: int) -> int:
        """Bytes of other clients that are evicted if a client is admitted; they have to be moved back later."""
        present, free = self._present(seat, capacity)
        return max(0, seat.need - present - free)

    def _present(self, seat: Seat, capacity: int) -> tuple[int, int]:
        """How much of a client's memory is on the card, and how much of the card is free."""
        room, present = capacity, 0
        for habits, is_running in ((self._running, True), (self._recent, False)):
            for habit in reversed(habits.values()):
                if bool(habit.seat.lock) is not is_running:
                    continue
                if habit.seat is seat:
                    present = max(0, min(room, seat.need))
                room -= habit.seat.need
                if room <= 0:
                    return present, 0
        return present, room

"""What mode `adaptive` goes by: who was on the card last, how long each works at a stretch, what moving memory costs.

Theory of operation. The driver keeps on the card whatever was used last, and says nothing about it. But who ran when is
known here, so it can be worked out whose pages a newcomer finds there, what it has to bring, and what it pushes out.

What that costs is learned. A stretch is the time that a client holds the lock and works, from one pause to the next; a
turn that ends in the middle of one does not end it. A stretch in which nothing had to be brought in is the client's
usual one, and what a stretch takes more than that, if something had to be brought in, is what bringing it in cost.
Only stretches count in which nobody else worked: two at once hold each other up.

The rules that follow (docs/decisions/0008 says how they were found):

    quantum     a turn lasts 200 times as long as the switch that ends it costs, but no client waits longer than two of
                the longest quanta for all turns before its own; unless that made switching cost more than 3 %, up to
                one longest quantum a turn. If the first in the queue usually gives the lock back by itself, the turn
                before it lasts only twice as long as its own usually do, and six times what the switch costs.
    pauses      an idle holder goes at once if it usually pauses for longer than the switch costs, and a little more;
                twice that while others work beside it, because then the GPU is not idle.
    queue       a client's place counts from its arrival and four of its last turns: short turns come first."""

from nvshare.core.model import GIB, MILLISECOND, SECOND, Seat

FIRST_GUESS_NS_PER_GIB = 200 * MILLISECOND
"""Moving memory by page faults on a card of 2016; from here on it is learned."""
LEAST_NS_PER_GIB = 10 * MILLISECOND
MOST_NS_PER_GIB = 5 * SECOND
MOST_WEIGHT = 8
"""A new figure counts for an eighth; for more while there are few."""
LEAST_MOVED = GIB // 4
"""Less is not worth a figure."""
TURN_TO_SWITCH = 200
LEAST_TURN_TO_SWITCH = 33
SHORT_TURN_TO_SWITCH = 6
SHORT_TURN_FACTOR = 2
LAG_FACTOR = 4
LONG_FACTOR = 2
"""The bound on waiting, and on the lag of long turns, in longest quanta."""


class Habit:
    """One client's."""

    __slots__ = ("busy_since", "gave_up", "is_counted", "last_turn", "loaded", "seat", "stretch", "usual_stretch")

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.busy_since: int | None = None
        self.stretch = 0
        """Of the present stretch, what lies in earlier turns."""
        self.loaded = 0
        """Bytes brought in since the stretch began."""
        self.is_counted = False
        """The beginning of the present stretch is known."""
        self.usual_stretch: int | None = None
        self.last_turn = 0
        self.gave_up = False
        """The last turn ended because the client had nothing more to do."""


class Habits:
    """Those of one GPU's clients, in the order in which they last ran."""

    def __init__(self) -> None:
        self.ns_per_gib = FIRST_GUESS_NS_PER_GIB
        self._figures = 0
        self._recent: dict[int, Habit] = {}

    # Facts noted.

    def note_came(self, now: int, seat: Seat, capacity: int) -> None:
        habit = self._recent.get(seat.client) or Habit(seat)
        habit.loaded += self.missing(seat, capacity)
        self._begin(now, habit)
        self._to_end(habit)

    def note_went(self, now: int, seat: Seat) -> None:
        habit = self._recent.get(seat.client) or Habit(seat)
        if habit.busy_since is not None:
            habit.stretch += now - habit.busy_since
            habit.busy_since = None
        habit.last_turn = now - seat.held_since
        habit.gave_up = False
        self._to_end(habit)

    def note_gave_up(self, seat: Seat) -> None:
        self._recent[seat.client].gave_up = True

    def note_left(self, seat: Seat) -> None:
        self._recent.pop(seat.client, None)

    def note_paused(self, now: int, seat: Seat) -> None:
        """A stretch has ended."""
        habit = self._recent.get(seat.client)
        if habit is None:
            return
        if habit.is_counted and habit.busy_since is not None:
            self._learn(habit, habit.stretch + now - habit.busy_since)
        habit.stretch = habit.loaded = 0
        habit.busy_since = None
        habit.is_counted = True

    def note_resumed(self, now: int, seat: Seat) -> None:
        if seat.client in self._recent:
            self._begin(now, self._recent[seat.client])

    def note_contention(self) -> None:
        """Holders begin or cease to say when they pause: of what lies before nothing is known."""
        for habit in self._recent.values():
            habit.is_counted = False

    def _begin(self, now: int, habit: Habit) -> None:
        """Work begins. Two at once hold each other up: neither's stretch counts."""
        habit.busy_since = now
        for other in self._recent.values():
            if other is not habit and other.busy_since is not None:
                other.is_counted = habit.is_counted = False

    def _to_end(self, habit: Habit) -> None:
        self._recent.pop(habit.seat.client, None)
        self._recent[habit.seat.client] = habit

    def _learn(self, habit: Habit, took: int) -> None:
        usual = habit.usual_stretch
        if habit.loaded < LEAST_MOVED:
            habit.usual_stretch = took if usual is None else usual + (took - usual) // 4
        elif usual is not None:
            self._figures = min(MOST_WEIGHT, self._figures + 1)
            figure = max(0, took - usual) * GIB // habit.loaded
            learned = self.ns_per_gib + (figure - self.ns_per_gib) // self._figures
            self.ns_per_gib = max(LEAST_NS_PER_GIB, min(MOST_NS_PER_GIB, learned))

    # What follows. `capacity` is what the card has for all clients' swappable memory.

    def missing(self, seat: Seat, capacity: int) -> int:
        """Bytes of a client that are not on the card."""
        return seat.memory.swappable - self._present(seat, capacity)[0]

    def switch_ns(self, seat: Seat, capacity: int) -> int:
        """What it costs that a client comes in: all that it pushes out has to come back one day."""
        present, free = self._present(seat, capacity)
        return max(0, seat.memory.swappable - present - free) * self.ns_per_gib // GIB

    def _present(self, seat: Seat, capacity: int) -> tuple[int, int]:
        """How much of a client's memory is on the card, and how much of the card is nobody's."""
        room, present = capacity, 0
        for habit in reversed(self._recent.values()):
            if habit.seat is seat:
                present = max(0, min(room, seat.memory.swappable))
            room -= habit.seat.memory.swappable
        return present, max(0, room)

    def quantum(self, head: Seat, switch_ns: int, waiting: int, *, least_ns: int, most_ns: int) -> int:
        """How long the running set stays although this client waits."""
        bound = LONG_FACTOR * most_ns // waiting
        habit = self._recent.get(head.client)
        if habit is not None and habit.gave_up:
            bound = min(bound, max(SHORT_TURN_TO_SWITCH * switch_ns, SHORT_TURN_FACTOR * habit.last_turn))
            return max(least_ns, min(TURN_TO_SWITCH * switch_ns, bound))
        least = min(most_ns, LEAST_TURN_TO_SWITCH * switch_ns)
        return max(least_ns, least, min(TURN_TO_SWITCH * switch_ns, bound))

    def lag(self, seat: Seat, most_ns: int) -> int:
        """By how much a client's place in the queue counts from later than its arrival."""
        habit = self._recent.get(seat.client)
        return min(LAG_FACTOR * habit.last_turn, LONG_FACTOR * most_ns) if habit is not None else 0

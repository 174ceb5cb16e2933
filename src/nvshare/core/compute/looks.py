"""What is known of the looks of one client (compute.gpu_time) that are not divided up.

Bit 0 is look `upto` of compute.gpu_time. If a look is reported twice, the first report counts."""

from nvshare.core.compute.look_bits import ones, ones_from
from nvshare.core.turns.seat import Seat

START_LOOKS = 50
"""The first looks of a turn, in which the client wakes up and submits its first work."""


class Looks:
    """Of one client that holds the lock or has reported: what is known of the looks that are not divided up."""

    __slots__ = (
        "back",
        "back_since",
        "busy",
        "group",
        "held",
        "known",
        "rested",
        "rests",
        "seat",
        "since",
        "starting",
        "wake",
    )

    def __init__(self, seat: Seat) -> None:
        self.seat: Seat | None = seat
        """None if it has left."""
        self.group = "" if seat.group is None else seat.group.key
        self.busy = self.known = self.rested = self.held = self.back = self.wake = self.starting = 0
        self.since: int | None = None
        """The first look at which it held the lock that it has; None if it has none. `held`: the looks of earlier
        turns; `starting`: those of them that were the first START_LOOKS of a turn."""
        self.back_since: int | None = None
        """The look since which it is held back by its weight. `back`: earlier looks at which it was held back. `wake`:
        the looks after it was released in which it may still wake up."""
        self.rests: int | None = None
        """The look from which on it has nothing to do, until it reports again; None if it has. `rested`: earlier looks
        of which it said so. A report of such a look counts nevertheless."""

    def counts(self, upto: int, looks: int) -> int:
        """The looks that count as busy."""
        held = self.held | ones_from(self.since, upto, looks)
        known = self.known | self.rested | ones_from(self.rests, upto, looks)
        return (self.busy | (held & ~known)) & ones(looks)

    def turn_ended(self, upto: int, since: int, end: int) -> None:
        """The turn had the looks from `since` to before `end`."""
        self.held |= ones_from(since, upto, max(0, end - upto))
        self.starting |= self._first_looks(since, upto, max(0, end - upto))

    def may_idle(self, upto: int, looks: int) -> int:
        """The looks at which it holds a lock, after the first START_LOOKS of each turn."""
        held = self.held | ones_from(self.since, upto, looks)
        return held & ~self.starting & ~self._first_looks(self.since, upto, looks) & ones(looks)

    @staticmethod
    def _first_looks(since: int | None, upto: int, looks: int) -> int:
        return 0 if since is None else ones_from(since, upto, min(looks, max(0, since + START_LOOKS - upto)))

    def reported(self, upto: int, first: int, known: int, busy: int) -> None:
        """`first` is the report's first look; the looks that it knows, and those of them at which it was busy."""
        self.stop_resting(upto, first)
        self.busy |= busy & known & ~self.known
        self.known |= known

    def rest(self, look: int) -> None:
        self.rests = look if self.rests is None else min(look, self.rests)

    def stop_resting(self, upto: int, look: int) -> None:
        """It may have work from this look on. What it said about earlier looks still counts."""
        self.rested |= ones_from(self.rests, upto, max(0, look - upto))
        self.rests = None

    def competes(self, upto: int, looks: int) -> int:
        """The looks at which it was busy, was held back, or had been released and had not begun its work yet."""
        counts = self.counts(upto, looks)
        back = self.back | ones_from(self.back_since, upto, looks) | self._wakes(counts)
        return counts | (back & ones(looks))

    def _wakes(self, counts: int) -> int:
        """The looks of `wake` before its first work."""
        work = counts & -(self.wake & -self.wake)
        return self.wake & ((work & -work) - 1) if work else self.wake

    def is_constant(self, upto: int) -> bool:
        """Nothing is reported of look `upto` or a later one, so all of them have the same answer."""
        is_later = any(begin is not None and begin > upto for begin in (self.since, self.rests))
        return not (self.busy or self.known or self.rested or self.held or self.back or self.wake or is_later)

    def divided(self, looks: int) -> bool:
        """So many looks are divided up. Returns whether something is still known of later ones."""
        if self.wake and self.busy & -(self.wake & -self.wake) & ones(looks):
            self.wake = 0
        self.wake >>= looks
        self.busy >>= looks
        self.known >>= looks
        self.rested >>= looks
        self.held >>= looks
        self.starting >>= looks
        self.back >>= looks
        return bool(
            self.known or self.held or self.back or self.wake or self.since is not None or self.back_since is not None
        )

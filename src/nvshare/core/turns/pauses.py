"""The pauses of one GPU's holders: which of them have no work, and since when."""

from nvshare.core.modes.mode import Mode
from nvshare.core.turns.seat import Seat


class Pauses:
    """The idle holders. core.turns tells it what clients report; `mode` learns from it."""

    def __init__(self) -> None:
        self.idle: dict[int, Seat] = {}
        """The staying clients without work, in the order in which they paused."""

    def began(self, now: int, seat: Seat, mode: Mode) -> None:
        seat.idle_since = now
        self.idle[seat.client] = seat
        mode.pause_began(now, seat)

    def restarted(self, now: int, seat: Seat) -> None:
        """The client waited for another GPU, and could not work here until now."""
        seat.idle_since = now
        del self.idle[seat.client]
        self.idle[seat.client] = seat

    def ended(self, now: int, seat: Seat, mode: Mode) -> None:
        if seat.idle_since is not None:
            pause_ns = now - seat.idle_since
            seat.pause_ended(pause_ns)
            mode.pause_ended(seat, pause_ns)
            seat.idle_since = None
            self.idle.pop(seat.client, None)

    def forgotten(self) -> None:
        """Holders do not report pauses any more."""
        for seat in self.idle.values():
            seat.idle_since = None
        self.idle.clear()

"""What the members of one shared limit keep on the host, in the order in which they are asked to keep more or less."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from nvshare.core.turns.seat import Seat


def _most(seat: Seat) -> int:
    """What it can keep: all that can move, or if it moves no memory, what it keeps already."""
    return seat.reported.swappable if seat.holds_memory else min(seat.held_bytes, seat.reported.swappable)


class HostShares:
    """Sorted lists, changed by one member at a time: a step costs the same for ten members and for a thousand."""

    def __init__(self) -> None:
        self.kept = 0
        """What all were asked to keep, in all."""
        self._seats: dict[int, tuple[Seat, tuple[int, int], int]] = {}
        """With the key by which each is in the lists, and what it was asked to keep."""
        self._able: list[tuple[int, int]] = []
        """(-swappable memory, client) of the clients that could keep more."""
        self._keeping: list[tuple[int, int]] = []
        """The same of the clients that were asked to keep memory on the host."""
        self._above: dict[int, Seat] = {}
        """The clients that were asked to keep more than they can."""

    def __len__(self) -> int:
        return len(self._seats)

    def __iter__(self) -> Iterator[Seat]:
        return (seat for seat, _, _ in self._seats.values())

    def put(self, seat: Seat) -> None:
        """A new member, or one that has other memory or was asked to keep another amount."""
        self.remove(seat)
        swappable, keep, most = seat.reported.swappable, seat.keep_asked, _most(seat)
        key = (-swappable, seat.client)
        self._seats[seat.client] = seat, key, keep
        self.kept += keep
        if keep:
            insort(self._keeping, key)
        if seat.holds_memory and keep < most:
            insort(self._able, key)
        if keep > most:
            self._above[seat.client] = seat

    def remove(self, seat: Seat) -> None:
        if seat.client not in self._seats:
            return
        _, key, keep = self._seats.pop(seat.client)
        self.kept -= keep
        self._above.pop(seat.client, None)
        if keep:
            del self._keeping[bisect_left(self._keeping, key)]
        at = bisect_left(self._able, key)
        if at < len(self._able) and self._able[at] == key:
            del self._able[at]

    def next_change(self, wanted: int) -> tuple[Seat, int] | None:
        """The next client to ask, and how much it should keep, so that all keep `wanted`; None if all do or cannot."""
        for seat in self._above.values():
            return seat, _most(seat)
        if self.kept < wanted and self._able:
            seat = self._seats[self._able[0][1]][0]
            return seat, min(seat.reported.swappable, seat.keep_asked + wanted - self.kept)
        if self.kept > wanted:
            seat = self._seats[self._keeping[-1][1]][0]
            return seat, max(0, seat.keep_asked - (self.kept - wanted))
        return None

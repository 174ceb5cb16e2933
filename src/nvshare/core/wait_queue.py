"""The clients that wait for a GPU, in order of rank.

A rank is fixed while its client waits, so the order is a sorted list: finding a place is a bisection, moving the
rest a memmove, and no event looks at every client. A second list holds what each client needs, so whether any of
them fits is known at once."""

from bisect import bisect_left, insort
from collections.abc import Iterator

from nvshare.core.seat import Seat


class WaitQueue:
    """Waiting seats by (rank, ticket); the ticket is unique and says who came first."""

    def __init__(self) -> None:
        self.order: list[tuple[int, int, Seat]] = []
        self.newcomers = 0
        """How many of the waiting clients have never had a turn."""
        self._needs: list[tuple[int, int]] = []
        self._tickets = 0

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[Seat]:
        return (entry[2] for entry in self.order)

    @property
    def head(self) -> Seat:
        return self.order[0][2]

    def first(self) -> Seat | None:
        """The head, but for members of gangs that are passed over (core.gangs)."""
        for entry in self.order:
            gang = entry[2].gang
            if gang is None or gang.stage != "queued":
                return entry[2]
        return None

    @property
    def least_need(self) -> int:
        """The smallest need of all waiting clients."""
        return self._needs[0][0]

    def push(self, seat: Seat, rank: int) -> None:
        """Queue a seat."""
        assert seat.rank is None, "a client waits once"
        self._tickets += 1
        seat.rank, seat.ticket = rank, self._tickets
        insort(self.order, (rank, seat.ticket, seat))
        insort(self._needs, (seat.need, seat.ticket))
        self.newcomers += not seat.turns

    def remove(self, seat: Seat) -> None:
        """Take a seat out, wherever it stands."""
        del self.order[self._index(seat)]
        self._forget_need(seat)
        seat.rank = None
        self.newcomers -= not seat.turns

    def move(self, seat: Seat, rank: int) -> None:
        """Give a waiting seat another rank."""
        if seat.rank != rank:
            self.remove(seat)
            self.push(seat, rank)

    def place(self, seat: Seat) -> int:
        """1 is next."""
        return self._index(seat) + 1

    def resize(self, seat: Seat, need: int) -> None:
        """A waiting seat is about to have this need."""
        self._forget_need(seat)
        insort(self._needs, (need, seat.ticket))

    def check(self) -> None:
        """What must hold, in full; for tests."""
        assert self.order == sorted(self.order, key=lambda entry: entry[:2])
        assert self._needs == sorted((seat.need, seat.ticket) for seat in self)
        assert self.newcomers == sum(not seat.turns for seat in self)

    def _index(self, seat: Seat) -> int:
        assert seat.rank is not None, "only a waiting client has a place"
        return bisect_left(self.order, (seat.rank, seat.ticket))

    def _forget_need(self, seat: Seat) -> None:
        del self._needs[bisect_left(self._needs, (seat.need, seat.ticket))]

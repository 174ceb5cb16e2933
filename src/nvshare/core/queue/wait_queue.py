"""The clients that wait for a GPU, in order of rank.

A rank is fixed while its client waits, so the order is a sorted list: bisection finds a place, memmove moves the rest,
and no event needs a scan of all clients. Most clients join at the end and leave at the head, without a
bisection. The amounts that clients need are counted, so it is known at once whether any of them fits.

An account (pod, container or user) with many clients does not delay others: if a client starts to wait, and its account
has fewer than PLACES waiting clients, it passes all but the first PLACES of each other account (decision 25)."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from nvshare.core.turns.seat import Seat

PLACES = 8
"""How many waiting clients of an account a client of another one may find before it."""


class WaitQueue:
    """Waiting seats by (rank, ticket); the ticket is unique and gives the order of arrival."""

    def __init__(self) -> None:
        self.order: list[tuple[int, int, Seat]] = []
        self.newcomers = 0
        """How many of the waiting clients have never had a turn."""
        self.needs: list[int] = []
        """What the waiting clients need, in order, each amount once; in `_needing` how many need it."""
        self._needing: dict[int, int] = {}
        self._tickets = 0
        self._accounts: dict[str, int] = {}
        """How many clients of each account wait."""
        self.crowds: set[str] = set()
        """The accounts of which more than PLACES do."""

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[Seat]:
        return (entry[2] for entry in self.order)

    def first(self) -> Seat | None:
        """The next client, without members of gangs that are not ready (core.gangs)."""
        for entry in self.order:
            gang = entry[2].gang
            if gang is None or gang.stage != "queued":
                return entry[2]
        return None

    def push(self, seat: Seat, rank: int) -> None:
        """Queue a seat."""
        assert seat.rank is None, "a client waits once"
        order = self.order
        self._tickets = ticket = self._tickets + 1
        seat.rank, seat.ticket = rank, ticket
        if not order or order[-1][0] <= rank:
            order.append((rank, ticket, seat))
        else:
            insort(order, (rank, ticket, seat))
        self._note_need(seat.need)
        if not seat.turns:
            self.newcomers += 1
        account = seat.account
        self._accounts[account] = count = self._accounts.get(account, 0) + 1
        if count == PLACES + 1 and account:
            self.crowds.add(account)

    def remove(self, seat: Seat) -> None:
        """Remove a seat, at any place."""
        order = self.order
        del order[0 if order[0][2] is seat else self._index(seat)]
        self._forget_need(seat.need)
        seat.rank = None
        if not seat.turns:
            self.newcomers -= 1
        account = seat.account
        self._accounts[account] = count = self._accounts[account] - 1
        if count == PLACES:
            self.crowds.discard(account)
        elif not count:
            del self._accounts[account]

    def before_crowds(self, seat: Seat, rank: int) -> int:
        """The rank with which a client starts to wait whose policy says `rank`."""
        crowds = self.crowds - {seat.account}
        if not crowds or not seat.account or self._accounts.get(seat.account, 0) >= PLACES:
            return rank
        return min(rank, *(self._rank_behind(crowd) - 1 for crowd in crowds))

    def _rank_behind(self, crowd: str) -> int:
        """Of the first client of an account that others may pass."""
        ranks = (rank for rank, _, seat in self.order if seat.account == crowd)
        return next(islice(ranks, PLACES, None))

    def move(self, seat: Seat, rank: int) -> None:
        """Give a waiting seat another rank."""
        if seat.rank != rank:
            self.remove(seat)
            self.push(seat, rank)

    def place(self, seat: Seat) -> int:
        """1 is next."""
        order = self.order
        return len(order) if order[-1][2] is seat else self._index(seat) + 1

    def resize(self, seat: Seat, need: int) -> None:
        """A waiting seat is about to have this need."""
        self._forget_need(seat.need)
        self._note_need(need)

    def check(self) -> None:
        """What must hold, in full; for tests."""
        assert self.order == sorted(self.order, key=lambda entry: entry[:2])
        assert self._needing == Counter(seat.need for seat in self)
        assert self.needs == sorted(self._needing)
        assert self.newcomers == sum(not seat.turns for seat in self)
        assert self._accounts == Counter(seat.account for seat in self)
        assert self.crowds == {account for account, count in self._accounts.items() if account and count > PLACES}

    def _index(self, seat: Seat) -> int:
        assert seat.rank is not None, "only a waiting client has a place"
        return bisect_left(self.order, (seat.rank, seat.ticket))

    def _note_need(self, need: int) -> None:
        needing = self._needing.get(need, 0)
        self._needing[need] = needing + 1
        if not needing:
            insort(self.needs, need)

    def _forget_need(self, need: int) -> None:
        needing = self._needing[need] - 1
        if needing:
            self._needing[need] = needing
        else:
            del self._needing[need]
            del self.needs[bisect_left(self.needs, need)]

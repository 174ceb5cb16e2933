"""Unswappable memory that clients report and that nothing confirms: how much of it counts at one GPU.

    unbacked(c)     the unswappable memory of a client, with contexts, beyond what NVML measured (memory.memory_reports)
    unbacked(a)     Σ unbacked(c) over the clients of an account
    counted         Σ over accounts of min(unbacked(a), bound)
    bound           size                        while one account has clients at the GPU
                    size / (2 * accounts)       otherwise

An account is a pod, a container or a user; a client without one is an account of its own. So the bound does not depend
on the number of connections that an account opens, nor on how often it opens them: one account takes at most a quarter
of the card from the others, and all accounts together half of it. Contexts are included. One account alone may have
all of the card: nobody else is there. What a client can take from others of its account is in memory.memory_reports."""

from itertools import repeat

from nvshare.core.model import NEVER
from nvshare.core.turns.seat import Seat


class UnbackedMemory:
    """The sums of one GPU. A change within an account costs the same for any number of clients. If the number of
    accounts or the size of the card changes, the accounts with such memory are added up again: 60 microseconds for a
    thousand."""

    def __init__(self) -> None:
        self.counted = 0
        self._size = 0
        self._bound = NEVER
        """NEVER while the size of the card is not known."""
        self._clients: dict[str | int, int] = {}
        """By account. `_unbacked`: the sum of what its clients have, if they have any."""
        self._unbacked: dict[str | int, int] = {}

    def joined(self, seat: Seat) -> None:
        account = _account(seat)
        if account in self._clients:
            self._clients[account] += 1
        else:
            self._clients[account] = 1
            self._divide()

    def left(self, seat: Seat) -> None:
        """A client without unbacked memory."""
        account = _account(seat)
        self._clients[account] -= 1
        if not self._clients[account]:
            del self._clients[account]
            self._divide()

    def set_size(self, size: int) -> None:
        self._size = size
        self._divide()

    def set(self, seat: Seat, unbacked: int) -> None:
        account = _account(seat)
        before = self._unbacked.get(account, 0)
        after = before + unbacked - seat.unbacked
        seat.unbacked = unbacked
        if after:
            self._unbacked[account] = after
        elif before:
            del self._unbacked[account]
        self.counted += min(after, self._bound) - min(before, self._bound)

    def of_others(self, seat: Seat) -> int:
        """What would count without this client."""
        all_of_account = self._unbacked.get(_account(seat), 0)
        own = min(all_of_account, self._bound) - min(all_of_account - seat.unbacked, self._bound)
        return self.counted - own

    def _divide(self) -> None:
        accounts = len(self._clients)
        share = self._size if accounts < 2 else self._size // (2 * accounts)
        self._bound = share if self._size else NEVER
        self.counted = sum(map(min, self._unbacked.values(), repeat(self._bound)))


def _account(seat: Seat) -> str | int:
    return seat.account or seat.client

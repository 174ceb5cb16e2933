"""Which clients of one GPU get no turns although they may want them.

    paused      by the operator or an annotation (core.orders)
    over        all clients of a group that owes GPU time (compute.compute_shares)
    ahead       clients that have had more than their weight says (compute.compute_shares)

queue.blocking takes them out of the queue, and holders among them drop their locks."""

from nvshare.core.turns.seat import Seat


class NoTurns:
    """Read the sets; the methods change them."""

    def __init__(self) -> None:
        self.paused: set[int] = set()
        self.over: set[str] = set()
        self.ahead: set[int] = set()
        self.wants_pauses = False
        """Holders report their pauses although nobody waits, because weights decide who runs."""

    def pause(self, client: int) -> None:
        self.paused.add(client)

    def resume(self, client: int) -> None:
        self.paused.discard(client)

    def hold_group(self, group: str) -> None:
        self.over.add(group)

    def release_group(self, group: str) -> None:
        self.over.discard(group)

    def hold_client(self, client: int) -> None:
        self.ahead.add(client)

    def release_client(self, client: int) -> None:
        self.ahead.discard(client)

    def want_pauses(self, *, on: bool) -> None:
        self.wants_pauses = on

    def is_over(self, seat: Seat) -> bool:
        """Its group owes GPU time."""
        return seat.group is not None and seat.group.key in self.over

    def keeps_competing(self, seat: Seat) -> bool:
        """Policy fair: although it is blocked. It has had its share, so it neither saves up time nor loses any."""
        return seat.client in self.ahead and seat.client not in self.paused and not self.is_over(seat)

    def has_had_enough(self, seat: Seat) -> bool:
        """It gets no lock for now. A job has released all its locks before (gangs.departure)."""
        is_leaving = seat.gang is not None and seat.gang.departure is not None
        return (seat.client in self.ahead or self.is_over(seat)) and not is_leaving

"""By when a client must have released a lock that it was told to drop."""

from nvshare.core.model import SECOND, SUSPENDS_PER_SECOND
from nvshare.core.turns.seat import Seat

MOST_SUSPEND_NS = 60 * SECOND
"""A client says itself how much memory it has, so the time that it gets for it has a bound."""


def begin_drop(dropping: dict[int, Seat], seat: Seat, deadline: int) -> None:
    """A process that suspends itself first has longer. `dropping` stays in the order of deadlines."""
    if seat.is_suspended:
        deadline += min(MOST_SUSPEND_NS, seat.need * SECOND // SUSPENDS_PER_SECOND)
    seat.drop_deadline = deadline
    dropping[seat.client] = seat
    if len(dropping) > 1:
        for other in [other for other in dropping.values() if other.drop_deadline > deadline]:
            dropping[other.client] = dropping.pop(other.client)

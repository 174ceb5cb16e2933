"""Running clients that free memory and allocate it again in the same turn.

What a running client frees is available to waiting clients at once. If it then allocates the memory again, the clients
that were admitted have to leave, and both have moved their memory for nothing. Where their work does not finish within
the grace time, locks are revoked too. So room is kept for a client of which this is known:

    fallen      highest need in this turn - lowest need since then
    regrown     the need has risen again by at least half of `fallen`; or by less, when the running clients no longer
                fit together. Then the present need counts as the highest of this turn from now on
    room kept   from the time at which the client had regrown and the running clients did not fit together, until the
                end of a turn in which its need has fallen and it has not regrown

While room is kept, the highest need in this turn counts until the turn ends. A client keeps no more room than it needed
in the turn. Memory that it frees for good is available when the turn ends."""

from nvshare.core.turns.seat import Seat


def counted(seat: Seat, need: int) -> int:
    """What counts of the need of a running client."""
    if need >= seat.most_needed:
        seat.has_regrown = seat.has_regrown or seat.least_needed < seat.most_needed
        seat.most_needed = seat.least_needed = need
    elif need < seat.least_needed:
        seat.least_needed = need
    elif 2 * (need - seat.least_needed) >= seat.most_needed - seat.least_needed:
        seat.has_regrown = True
    return seat.most_needed if seat.keeps_room else need


def others_leave(seat: Seat) -> bool:
    """The running clients no longer fit together, and no room is kept for this one: whether it is from now on. A small
    rise is enough; otherwise a client could make others leave any number of times in a turn."""
    if not seat.has_regrown and seat.least_needed < seat.need:
        seat.has_regrown = True
        seat.most_needed = seat.least_needed = seat.need
    return seat.has_regrown


def is_expected(seat: Seat) -> bool:
    """At the end of a turn: in the next one too, what it frees will be allocated again."""
    return seat.has_regrown or seat.least_needed == seat.most_needed

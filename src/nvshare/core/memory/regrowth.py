"""Running clients that free memory and allocate it again in the same turn.

What a running client frees is available to waiting clients at once. If it then allocates the memory again, the clients
that were admitted have to leave, and both have moved their memory for nothing. Where their work does not finish within
the grace time, locks are revoked too. So room is kept for a client of which this is known:

    own         what the client itself uses: min(swappable, working set), wherever it is
    fallen      highest `own` in this turn - lowest since then
    regrown     `own` has risen again by at least half of `fallen`; or by less, when the running clients no longer fit
                together. Then the present one counts as the highest of this turn from now on
    room kept   from the time at which the client had regrown and the running clients did not fit together, until the
                end of a turn in which `own` has fallen and it has not regrown
    absent      the part of its swappable memory that is not counted as that: it is kept on the host
                (memory.live_shrink), or counts as unswappable because the host cannot take it

While room is kept, need = min(highest, max(counted, highest - absent)) until the turn ends. A client keeps no more room
than it used in the turn. Memory that it frees for good is available when the turn ends."""

from nvshare.core.turns.seat import Seat


def used(seat: Seat, swappable: int) -> int:
    """How much of this memory it uses."""
    if seat.working_set is None or not seat.is_trusted:
        return swappable
    return min(swappable, seat.working_set)


def note(seat: Seat, own: int) -> None:
    """What a running client uses may have changed."""
    if own >= seat.most_needed:
        seat.has_regrown = seat.has_regrown or seat.least_needed < seat.most_needed
        seat.most_needed = seat.least_needed = own
    elif own < seat.least_needed:
        seat.least_needed = own
    elif 2 * (own - seat.least_needed) >= seat.most_needed - seat.least_needed:
        seat.has_regrown = True


def kept(seat: Seat, counted: int, absent: int) -> int:
    """What it needs while room is kept for it. `counted`: of its swappable memory."""
    return min(seat.most_needed, max(counted, seat.most_needed - absent))


def others_leave(seat: Seat, own: int) -> bool:
    """The running clients no longer fit together, and no room is kept for this one: whether it is from now on. A small
    rise is enough; otherwise a client could make others leave any number of times in a turn."""
    if not seat.has_regrown and seat.least_needed < own:
        seat.has_regrown = True
        seat.most_needed = seat.least_needed = own
    return seat.has_regrown


def is_expected(seat: Seat) -> bool:
    """At the end of a turn: in the next one too, what it frees will be allocated again."""
    return seat.has_regrown or seat.least_needed == seat.most_needed

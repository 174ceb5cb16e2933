"""How a gang of several processes releases its locks: from the first DropLock until every member has released.

Kernels of one process may wait for kernels of another process, which waits at its closed gate. So, until all members
have released:

    withheld    a GPU of the gang on which no client runs is given to no other client: work that passes the gate there
                disturbs no other client
    let one     if nothing has changed for `patience`, each member that has released and has work lets one submission
                pass, and reports its end. At a GPU where another client runs, only after `UNLOCKED_NS`
    patience    20 ms at first; then twice as long as the last submission took, within 1 and 20 ms. A queue of short
                kernels that wait for others is soon drained, also if one of them is delayed by chance

A submission that passed may itself wait for other members. So the departure ends when all members have released and all
such submissions have finished, and at the latest with the grace time of the locks. Once all have released, one member
at a time lets work pass, in turn: as soon as the unfinished work has what it waits for, no other work is begun.

It ends before the grace time unless a kernel waits for something else. Let the lead of a member be the number of its
submissions beyond those of the last member. The last member never waits for the others. So in each round of all members
it advances by one, and members that wait do not: the sum of the leads falls by the number of waiting members."""

from nvshare.core.turns.seat import Seat

PATIENCE_NS = 20_000_000
LEAST_PATIENCE_NS = 1_000_000
UNLOCKED_NS = 1_000_000_000


class Departure:
    """What has happened since members of a gang were told to drop their locks. `ends` is when the grace is over."""

    __slots__ = ("_began", "_dropping", "_let_since", "_lets", "_patience_ns", "_quiet_since", "ends", "let")

    def __init__(self, now: int, ends: int) -> None:
        self.ends = ends
        self.let: set[str] = set()
        """The GPUs at which a submission is let through and has not finished."""
        self._began = self._quiet_since = self._let_since = now
        self._patience_ns = PATIENCE_NS
        self._dropping = 0
        self._lets: dict[str, int] = {}
        """When work was last let through at each GPU."""

    def look(self, now: int, dropping: int) -> bool:
        """So many have not released yet; false if it is over."""
        if dropping != self._dropping:
            self._dropping, self._quiet_since = dropping, now
        return dropping > 0 or (bool(self.let) and now < self.ends)

    def finished(self, now: int, uuid: str) -> None:
        """What was let through at this GPU has finished, or there was nothing to let through."""
        if uuid in self.let:
            self.let.remove(uuid)
            self._quiet_since = now
            self._patience_ns = min(PATIENCE_NS, max(LEAST_PATIENCE_NS, 2 * (now - self._let_since)))

    def let_time(self, *, is_withheld: bool) -> int:
        """From when on a submission may be let through at a GPU."""
        due = self._quiet_since + self._patience_ns
        return due if is_withheld else max(due, self._began + UNLOCKED_NS)

    def let_through(self, now: int, uuids: list[str]) -> list[str]:
        """Work may be let through at these GPUs. Returns those at which it is."""
        if not self._dropping:
            uuids = [min(uuids, key=lambda uuid: self._lets.get(uuid, 0))]
        self.let.update(uuids)
        self._lets.update(dict.fromkeys(uuids, now))
        self._let_since = self._quiet_since = now
        self._patience_ns = min(PATIENCE_NS, 2 * self._patience_ns)
        return uuids


def can_let(seat: Seat) -> bool:
    """A thread of its process waits at the gate."""
    return seat.state == "waiting" and not seat.follows

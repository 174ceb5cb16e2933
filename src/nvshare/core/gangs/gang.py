"""A gang: seats whose locks are granted and dropped together. core.gangs decides."""

from collections import Counter
from collections.abc import Callable
from typing import Literal

from nvshare.core.actions import DropCause
from nvshare.core.gangs.departure import Departure
from nvshare.core.model import NEVER
from nvshare.core.turns.seat import Seat


class Gang:
    """The linked seats by GPU, in the order of the UUIDs; one at each GPU."""

    __slots__ = ("account", "departure", "dropped", "due", "is_job", "may_enter", "number", "ranks", "seats", "stage")

    def __init__(self, number: int, account: str) -> None:
        self.number = number
        self.account = account
        """Of the client whose seats were linked first."""
        self.seats: dict[str, Seat] = {}
        self.stage: Literal["queued", "ready", "entering"] = "queued"
        self.due: int | None = None
        self.is_job = False
        """Its seats are of processes that use collectives: they have all locks or none."""
        self.departure: Departure | None = None
        """Of a job, while its locks are being dropped."""
        self.may_enter = False
        """There is room at all GPUs at which it waits."""
        self.ranks: tuple[tuple[bool, int | None], ...] = ()
        """Of its members when that was last looked at (`have_ranks_changed`), and whether they have a lock. Without a
        rank are those at rest, and those that have a lock without having waited."""
        self.dropped: DropCause | None = None
        """Why a member was told to drop its lock in this step; the others have not been told yet."""

    def rank_of(self, rank: int) -> int:
        """The rank of a member that starts to wait and alone would have `rank`: that of the first waiting member."""
        return min([rank, *(seat.rank for seat in self.seats.values() if seat.rank is not None)])

    @property
    def order(self) -> tuple[int, int]:
        """By what gangs that wait are ordered."""
        return self.rank_of(NEVER), self.number

    @property
    def lowest_priority(self) -> int:
        """What counts if it outranks others; `highest_priority` if it is outranked."""
        return min(seat.priority for seat in self.seats.values())

    @property
    def highest_priority(self) -> int:
        return max(seat.priority for seat in self.seats.values())

    def have_ranks_changed(self) -> bool:
        """Since the last call. If so, clients that did not outrank it may do so now."""
        before = self.ranks
        seats = self.seats.values()
        self.ranks = tuple((seat.lock > 0, seat.won_rank if seat.lock else seat.rank) for seat in seats)
        return self.ranks != before

    def aged_rank(self, at: int, move_ns_per_gib: int) -> int | None:
        """The lowest of its members: it is served while none of them waits."""
        ranks = [seat.aged_rank(at, move_ns_per_gib) for seat in self.seats.values() if seat.lock]
        return None if None in ranks else min(self.rank_of(NEVER), *(rank for rank in ranks if rank is not None))

    def all_told(self) -> None:
        """All members that must drop their locks know it. If it is for a higher priority, they will wait with the same
        rank."""
        self.dropped = None
        dropping = [seat for seat in self.seats.values() if seat.state == "dropping"]
        ranks = [seat.outranked_rank for seat in dropping if seat.outranked_rank is not None]
        for seat in dropping if ranks else ():
            seat.outranked_rank = min(ranks)

    @property
    def is_idle(self) -> bool:
        """No member waits, and no member that has a lock has work."""
        return all(
            seat.state in ("rest", "silent", "blocked") or (seat.state == "staying" and seat.idle_since is not None)
            for seat in self.seats.values()
        )

    def is_away(self, is_held_back: Callable[[str, Seat], bool]) -> bool:
        """A member still drains, or (of a job) has had enough of its GPU's time: none is admitted."""
        return any(
            seat.state == "dropping" or (self.is_job and seat.state == "blocked" and is_held_back(uuid, seat))
            for uuid, seat in self.seats.items()
        )

    def waiting(self) -> dict[str, Seat]:
        return {uuid: seat for uuid, seat in self.seats.items() if seat.state == "waiting"}


def one_less(counts: Counter[str], key: str) -> None:
    """Of gangs, by what they have in common."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]

"""Which clients are blocked: they wait in no queue, because the host is full, because the operator paused them, or
because they have had enough of the GPU's time.

Memory that is evicted goes to the host, and counts against the memory limit of the process that owns it: a pod whose
memory limit is too small would be killed when another pod has its turn. So memory that the host cannot take counts as
unswappable (memory.memory_reports), and a client whose turn would evict it is blocked: it is in no queue, takes no
turns from others and keeps its rank. It waits until the others have less memory or more room on the host, or have left.

A paused client is blocked until the operator resumes it. If it holds a lock, it must drop it. A client that is held
back by its core limit or its weight is blocked until compute.compute_shares releases it.

Clients may block each other if the room on the host shrinks after their turns. The memory of the clients that ran last
is on the card: the first of them that waits may run, because its turn evicts nothing. So blocked clients cannot block
each other without end. The others wait even if the clients that ran last need no turn: their memory cannot move.

The driver chooses what it evicts. So a client that may run is not admitted before there is room for it, and nothing
has to be evicted (memory.card_room). Memory of others that does not go, because they do not move it, counts here too.

The room may also shrink while a client drops its lock. The amount that it was asked to move out is then reduced to what
the host can still take (memory.moves)."""

from heapq import nlargest

from nvshare.core.actions import Action, ReportBlocked
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns


def _order(seat: Seat) -> tuple[int, int]:
    """As in the queue, whether the client is in it or not."""
    rank = seat.kept_rank if seat.rank is None else seat.rank
    assert rank is not None, "a waiting client has a rank"
    return rank, seat.ticket


def most_protected(turns: Turns) -> list[Seat]:
    """The two clients with the most protected memory."""
    return nlargest(2, turns.seats.values(), key=lambda seat: seat.protected)


def who_blocks(most: list[Seat], blocked: Seat) -> Seat:
    """Of the clients that block a client, the one with the most protected memory."""
    return next(seat for seat in most if seat is not blocked)


class Blocking:
    """Decides which clients are blocked at one GPU; core.turns carries it out."""

    def __init__(self, turns: Turns, memory: MemoryPlanner) -> None:
        self._turns = turns
        self._memory = memory

    def decide(self, now: int, out: list[Action]) -> bool:
        """Returns whether a client was taken out of the queue or put back. Called while memory is pinned, or a client
        is blocked, paused or held back; otherwise nothing is to be decided."""
        turns = self._turns
        turns.moves.card_room.expire(now)
        for seat in [seat for seat in turns.staying.values() if seat.client in turns.no_turns.paused]:
            turns.preempt(now, seat, "operator", out)
        turns.moves.ask_less(turns.dropping.values(), out)
        may_run = set(self._who_may_run())
        leaving = [seat for seat in turns.queue if seat not in may_run]
        coming = sorted((seat for seat in turns.blocked.values() if seat in may_run), key=_order)
        most = most_protected(turns) if leaving else []
        for seat in leaving:
            turns.block(seat)
            if seat.client not in turns.no_turns.paused and not turns.no_turns.has_had_enough(seat):
                holder = who_blocks(most, seat)
                out.append(ReportBlocked(seat.client, turns.uuid, holder.client, holder.protected))
        for seat in coming:
            turns.unblock(seat)
        if turns.ranking.fair_shares.are_kept:
            self._tell_shares(now, coming)
        return bool(leaving or coming)

    def _tell_shares(self, now: int, coming: list[Seat]) -> None:
        """Policy fair: blocked clients do not compete, except those that are held back by their weights."""
        turns, shares = self._turns, self._turns.ranking.fair_shares
        resting: list[Seat] = []
        competing = list(coming)
        for seat in turns.blocked.values():
            (competing if turns.no_turns.keeps_competing(seat) else resting).append(seat)
        for seat in resting:
            shares.wait_paused(now, seat)
        for seat in competing:
            shares.wait_resumed(now, seat)

    def _who_may_run(self) -> list[Seat]:
        """Those of the waiting and the blocked that are not paused or held back, and whose turn evicts nothing that the
        host cannot take."""
        turns = self._turns
        waiting = [
            seat
            for seat in (*turns.queue, *turns.blocked.values())
            if seat.client not in turns.no_turns.paused and not turns.no_turns.has_had_enough(seat)
        ]
        stuck = turns.moves.card_room.stuck()
        may_run = [seat for seat in waiting if not self._memory.must_wait(seat, stuck(seat))]
        if may_run or not turns.is_empty:
            return may_run
        on_card = self._on_card()
        return sorted((seat for seat in waiting if seat in on_card), key=_order)[:1]

    def _on_card(self) -> list[Seat]:
        """Of the clients with pinned memory those that ran last, as many as the card holds together."""
        memory = self._memory
        room = memory.size - memory.card_reserve - (memory.fixed_bytes - memory.pinned)
        pinned = [seat for seat in self._turns.seats.values() if seat.pinned]
        found: list[Seat] = []
        for seat in sorted(pinned, key=lambda seat: seat.last_ran, reverse=True):
            room -= seat.pinned + seat.memory.swappable
            if found and room < 0:
                break
            found.append(seat)
        return found

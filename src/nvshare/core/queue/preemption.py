"""Which running clients must release their locks, and when.

    revoke          a dropping client whose grace time is over: it is silent until its process sends a message
    shed            the staying clients do not fit together, after growth: the newest leave until the rest fit or one
                    is left
    switch          the quantum is over and the first in the queue (WaitQueue.first) does not fit: clients leave in the
                    order of the mode until it fits
    outrank         the quantum is not over, priorities count, and the outranked clients alone are enough: they leave in
                    the order of the mode until the first in the queue fits. It outranks a client if it has a higher
                    priority, and a lower rank than the client's aged rank:
                        aged rank = rank when its turn began + how long it had been served when the first came
                    They wait with their aged ranks, so their waiting times add up. A gang is outranked as a whole, and
                    a gang that is ready outranks others (core.gangs). If another client becomes first meanwhile, for
                    which they are not enough, the other holders still finish their quantum
    preempt_idle    idle holders leave if the first in the queue can then run, from the time of Mode.idle_preempt_times.
                    A holder that waits at the gate of another GPU, or whose gang works, is not idle

core.turns carries out what is decided here."""

from nvshare.core.actions import Action
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import NEVER
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns


class Preemption:
    """Decides on the running clients of one GPU."""

    def __init__(self, turns: Turns, memory: MemoryPlanner) -> None:
        self._turns = turns
        self._memory = memory

    def revoke(self, now: int, out: list[Action]) -> None:
        dropping = self._turns.dropping
        while dropping:
            seat = next(iter(dropping.values()))
            if seat.drop_deadline > now:
                return
            self._turns.revoke(now, seat, out)

    def shed(self, now: int, out: list[Action]) -> None:
        staying = self._turns.staying
        if self._memory.would_fit(0):
            return
        self._turns.reports.crowded(staying.values())
        while len(staying) > 1 and not self._memory.would_fit(0):
            self._turns.preempt(now, next(reversed(staying.values())), "growth", out)

    def make_way(self, now: int, head: Seat, out: list[Action]) -> None:
        """Begin a switch for the first in the queue, or go on with it."""
        waits = self._turns.waits
        if self.is_due(now):
            self.switch(now, head, out)
        if not waits.is_switching or waits.is_early:
            self.outrank(now, head, out)

    def is_due(self, now: int) -> bool:
        """The quantum is over, or was when the present switch began."""
        waits, ends = self._turns.waits, self._turns.timer.ends
        return (waits.is_switching and not waits.is_early) or (ends is not None and now >= ends)

    def switch(self, now: int, head: Seat, out: list[Action]) -> None:
        """The quantum is over."""
        turns = self._turns
        if self._goes_on(now, head):
            turns.timer.start(now)
            return
        if not self._memory.fits(head.need):
            turns.waits.begin_switch()
        if turns.waits.is_switching:
            for seat in self._leaving(now, head):
                turns.preempt(now, seat, "quantum", out)

    def outrank(self, now: int, head: Seat, out: list[Action]) -> None:
        """The quantum is not over. A switch begins if outranked clients make room. One that has begun ends if they no
        longer do."""
        turns, memory = self._turns, self._memory
        if memory.would_fit(head.need):
            return
        leaving = self._outranked(now, head)
        if not leaving:
            if turns.waits.is_switching:
                turns.waits.end_switch()
            return
        turns.waits.begin_switch(is_early=True)
        for seat, rank in leaving:
            turns.preempt(now, seat, "priority", out)
            seat.outranked_rank = rank

    def may_outrank(self, now: int, head: Seat) -> bool:
        """`outrank` would preempt a client."""
        return not self._memory.would_fit(head.need) and bool(self._outranked(now, head))

    def _outranked(self, now: int, head: Seat) -> list[tuple[Seat, int]]:
        """The clients that go although the quantum is not over, with their aged ranks: of the outranked clients, in the
        order of the mode, as many as needed. None, if all of them are not enough."""
        turns = self._turns
        if not turns.ranking.preempts:
            return []
        order = turns.mode.leaving_order(now, turns.staying.values())
        outranked = [(seat, rank) for seat in order if (rank := self._rank_if_outranked(head, seat)) is not None]
        enough = self._enough(head, [seat.need for seat, _ in outranked])
        return [] if enough is None else outranked[:enough]

    def _rank_if_outranked(self, head: Seat, seat: Seat) -> int | None:
        """The aged rank of a running client or of its gang, if `head` outranks it. One that runs without having waited,
        after a restart, finishes its turn."""
        assert head.rank is not None, "the first in the queue waits"
        lowest = head.priority if head.gang is None else head.gang.lowest_priority
        highest = seat.priority if seat.gang is None else seat.gang.highest_priority
        if lowest <= highest:
            return None
        its = seat if seat.gang is None else seat.gang
        rank = its.aged_rank(head.waited_since, self._turns.mode.move_cost_ns)
        return rank if rank is not None and head.rank < rank else None

    def _goes_on(self, now: int, head: Seat) -> bool:
        """The quantum is over, but the clients that would leave would be first again (compute.fair_shares). Those for
        which free room is kept leave: it is available only when their turn ends."""
        turns = self._turns
        if turns.waits.is_switching or turns.dropping or head.gang is not None:
            return False
        leaving = self._leaving(now, head)
        if not leaving or any(seat.gang is not None or turns.reports.keeps_free_room(seat) for seat in leaving):
            return False
        return turns.ranking.would_return_first(now, leaving, head)

    def _leaving(self, now: int, head: Seat) -> list[Seat]:
        """The clients that go, in this order, until the head fits."""
        leaving: list[Seat] = []
        leaving_bytes = 0
        for seat in self._turns.mode.leaving_order(now, self._turns.staying.values()):
            if self._memory.would_fit(head.need, leaving_bytes):
                break
            leaving.append(seat)
            leaving_bytes += seat.need
        return leaving

    def preempt_idle(self, now: int, head: Seat, out: list[Action]) -> int:
        """Preempts idle holders if that is due. Returns when it will be, if time alone leads to it, or NEVER."""
        due, leaving = self._idle_plan(now, head)
        for seat in leaving:
            self._turns.preempt(now, seat, "idle", out)
        return NEVER if leaving else due

    def idle_deadline(self, now: int, head: Seat) -> int:
        """When `preempt_idle` will preempt a client."""
        return self._idle_plan(now, head)[0]

    def _idle_plan(self, now: int, head: Seat) -> tuple[int, list[Seat]]:
        """When idle holders make room for `head`, and which of them go if that time has come.

        The time is the earliest at which enough locks may be taken. As many holders leave as needed, in the order in
        which they paused."""
        turns, memory = self._turns, self._memory
        if turns.waits.is_switching or memory.would_fit(head.need):
            return NEVER, []
        idle = [seat for seat in turns.idle.values() if not seat.is_needed_elsewhere]
        times = turns.mode.idle_preempt_times(now, head, idle, turns.timer.left)
        sizes = [seat.need for seat in idle]
        in_time = sorted(zip(times, sizes, strict=True))
        enough = self._enough(head, [size for _, size in in_time])
        if enough is None:
            return NEVER, []
        due = in_time[enough - 1][0]
        if due > now:
            return due, []
        takeable = [seat for seat, time in zip(idle, times, strict=True) if time <= now]
        return due, takeable[: self._enough(head, [seat.need for seat in takeable])]

    def _enough(self, head: Seat, sizes: list[int]) -> int | None:
        """How many holders of these sizes must go, in this order, until the head fits or would be alone."""
        leaving_bytes = 0
        for count, size in enumerate(sizes, 1):
            leaving_bytes += size
            if count == len(self._turns.staying) or self._memory.would_fit(head.need, leaving_bytes):
                return count
        return None

"""Which running clients must give their locks back, and when.

    revoke          a dropping client whose grace is over: it is silent until its process speaks
    shed            the staying do not fit together, after growth: the newest go until the rest fit or one is left
    switch          the quantum is over and the first in the queue (WaitQueue.first) does not fit: those whom the
                    mode names go until it fits
    preempt_idle    idle holders go as soon as that lets the first in the queue in and pays (Mode.idle_preempt_times).
                    Who stands at the gate of another GPU, or whose gang works, is not idle

core.turns carries out what is decided here."""

from nvshare.core.actions import Action
from nvshare.core.memory_planner import MemoryPlanner
from nvshare.core.model import NEVER
from nvshare.core.seat import Seat
from nvshare.core.turns import Turns


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
        while len(staying) > 1 and not self._memory.would_fit(0):
            self._turns.preempt(now, next(reversed(staying.values())), "growth", out)

    def switch(self, now: int, head: Seat, out: list[Action]) -> None:
        turns, memory = self._turns, self._memory
        need = head.need
        if not memory.fits(need):
            turns.waits.begin_switch()
        if turns.waits.is_switching:
            for seat in turns.mode.leaving_order(now, turns.staying.values()):
                if memory.would_fit(need):
                    break
                turns.preempt(now, seat, "quantum", out)

    def preempt_idle(self, now: int, head: Seat, out: list[Action]) -> int:
        """Preempt idle holders if that is due; when it will be, if it is not and time alone leads to it, or NEVER."""
        due, leaving = self._idle_plan(now, head)
        for seat in leaving:
            self._turns.preempt(now, seat, "idle", out)
        return NEVER if leaving else due

    def idle_deadline(self, now: int, head: Seat) -> int:
        """When `preempt_idle` will preempt somebody."""
        return self._idle_plan(now, head)[0]

    def _idle_plan(self, now: int, head: Seat) -> tuple[int, list[Seat]]:
        """When idle holders make room for `head`, and which of them go if that time has come.

        The time is the earliest at which enough locks may be taken. As many holders leave as needed, in the order in
        which they paused."""
        turns, memory = self._turns, self._memory
        if turns.waits.is_switching or memory.would_fit(head.need):
            return NEVER, []
        idle = [seat for seat in turns.idle.values() if not seat.is_needed_elsewhere]
        times = turns.mode.idle_preempt_times(now, head, idle)
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

"""What the clients of a GPU are told at the end of a step: their locks, their places, contention, long waits."""

from nvshare.core.actions import (
    Action,
    AnnounceRoom,
    DropLock,
    GiveLock,
    QueueClient,
    ReportLongWait,
    TellCapacity,
    TellContended,
)
from nvshare.core.host_memory import who_blocks
from nvshare.core.memory_planner import MemoryPlanner
from nvshare.core.model import NEVER, Settings
from nvshare.core.seat import Seat
from nvshare.core.turns import Turns


class Notices:
    """Tells one GPU's clients. A long wait is reported once, when it has lasted for `long_wait_ns`."""

    def __init__(self, settings: Settings, turns: Turns, memory: MemoryPlanner) -> None:
        self._long_wait_ns = settings.long_wait_ns
        self._turns = turns
        self._memory = memory

    def tell_capacity(self, seat: Seat, out: list[Action]) -> None:
        """Tell a client what it may use of the card, if that is new to it.

        It is told when it registers, when it reports other memory or asks for a budget, and when memory is measured.
        Not when another client's memory changes: with many clients each change would be told to all."""
        room = self._memory.room(seat), self._memory.context_bytes
        if room != seat.told_room and self._memory.size:
            seat.told_room = room
            out.append(TellCapacity(seat.client, self._turns.uuid, *room))

    def tell(self, now: int, admitted: list[Seat], out: list[Action]) -> int:
        """Tell all there is to tell; when the next wait will have been long, or NEVER."""
        turns = self._turns
        contended = bool(turns.queue.order) or (turns.mode.needs_early_reports and not self._memory.all_fit())
        for seat in admitted:
            if seat.told_wait:
                out.append(AnnounceRoom(seat.client, turns.uuid))
            out.append(GiveLock(seat.client, turns.uuid, seat.lock, contended, now - seat.waited_since))
            turns.moves.ask_admitted(seat, out)
        if contended != turns.is_contended:
            turns.set_contended(contended)
            for seat in turns.staying.values():
                if seat not in admitted:
                    out.append(TellContended(seat.client, turns.uuid, contended))
        if turns.late_claims:
            self._refuse_claims(out)
        if turns.newly_queued:
            for seat in turns.newly_queued:
                if not seat.follows and (seat.rank is not None or seat.state == "blocked"):
                    seat.told_wait = True
                    out.append(QueueClient(seat.client, turns.uuid, self._place(seat)))
            turns.newly_queued.clear()
        for seat in turns.unreported_waits.values():
            due = seat.waited_since + self._long_wait_ns
            return due if now < due else self._report_long_waits(now, out)
        return NEVER

    def _refuse_claims(self, out: list[Action]) -> None:
        """Tell those who claimed a lock late, and wait for one, to stop. What they claim counts like a revoked lock: it
        takes nothing from the others, and its release says whether the client has more work."""
        turns = self._turns
        for seat, lock in turns.late_claims:
            if seat.state in ("waiting", "blocked"):
                seat.revoked = lock or turns.numbers.next()
                if not lock:
                    out.append(GiveLock(seat.client, turns.uuid, seat.revoked, True))
                out.append(DropLock(seat.client, turns.uuid, seat.revoked, "claim"))
        turns.late_claims.clear()

    def _report_long_waits(self, now: int, out: list[Action]) -> int:
        turns = self._turns
        while turns.unreported_waits:
            seat = next(iter(turns.unreported_waits.values()))
            waited = now - seat.waited_since
            if waited < self._long_wait_ns:
                return seat.waited_since + self._long_wait_ns
            del turns.unreported_waits[seat.client]
            if seat.state == "blocked":
                whose = who_blocks(turns, seat).client
                out.append(ReportLongWait(seat.client, turns.uuid, 0, waited, 1, whose, 0))
                continue
            running = sorted(turns.running(), key=lambda holder: holder.held_since)
            holder, held = (running[0].client, now - running[0].held_since) if running else (0, 0)
            place = turns.queue.place(seat)
            out.append(ReportLongWait(seat.client, turns.uuid, place, waited, len(running), holder, held))
        return NEVER

    def _place(self, seat: Seat) -> int:
        """Who is blocked has no place in the queue; it is told the one behind the last."""
        return self._turns.queue.place(seat) if seat.rank is not None else len(self._turns.queue) + 1

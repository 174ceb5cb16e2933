"""What the clients of a GPU are told at the end of a step: their locks, their places, contention, long waits."""

from nvshare.core.actions import (
    Action,
    AnnounceRoom,
    GiveLock,
    QueueClient,
    ReportLongWait,
    TellCapacity,
    TellContended,
    TellExpectedStart,
)
from nvshare.core.compute.compute_shares import held_back_by
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import NEVER, Settings
from nvshare.core.queue.admission import Admission
from nvshare.core.queue.blocking import most_protected, who_blocks
from nvshare.core.queue.expected_start import expected_starts
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns


class Notices:
    """Tells one GPU's clients. A long wait is reported once, when it has lasted for `long_wait_ns`."""

    def __init__(self, settings: Settings, turns: Turns, memory: MemoryPlanner, admission: Admission) -> None:
        self._long_wait_ns = settings.long_wait_ns
        self._turns = turns
        self._memory = memory
        self._admission = admission

    def tell_capacity(self, seat: Seat, out: list[Action]) -> None:
        """Tell a client what it may use of the card, if that is new to it.

        It is told when it registers, when it reports other memory or asks for a budget, and when memory is measured.
        Not when another client's memory changes: with many clients each change would be told to all."""
        capacity = self._memory.room(seat), self._memory.context_bytes
        if capacity != seat.told_capacity and self._memory.size:
            seat.told_capacity = capacity
            out.append(TellCapacity(seat.client, self._turns.uuid, *capacity))

    def tell(self, now: int, admitted: list[Seat], out: list[Action]) -> int:
        """Tells all there is to tell. Returns when the next wait will have been long, or NEVER."""
        turns = self._turns
        waits, order = turns.waits, turns.queue.order
        contended = (
            bool(order)
            or turns.no_turns.wants_pauses
            or (turns.mode.needs_early_reports and not self._memory.all_fit())
        )
        turns.moves.look()
        for seat in admitted:
            if seat.told_wait:
                out.append(AnnounceRoom(seat.client, turns.uuid))
            out.append(GiveLock(seat.client, turns.uuid, seat.lock, contended, now - seat.waited_since))
            turns.moves.ask_admitted(seat, out)
        if contended != turns.is_contended:
            self._set_contended(contended, admitted, out)
        if waits.late_claims:
            for seat, lock in waits.take_late_claims():
                turns.refuse_claim(seat, lock, out)
        if waits.begun:
            for seat in waits.begun:
                if not seat.follows and seat.state in ("waiting", "blocked"):
                    self._tell_wait(seat, out)
            waits.begun.clear()
        if order and order[0][2].gang is not None:
            self._tell_entering(out)
        for seat in waits.unreported.values():  # The first one has waited longest.
            due = seat.waited_since + self._long_wait_ns
            return due if due > now else self._tell_long_waits(now, out)
        return NEVER

    def _set_contended(self, contended: bool, admitted: list[Seat], out: list[Action]) -> None:
        """A client that has just been admitted is told with its lock."""
        turns = self._turns
        turns.set_contended(contended)
        for seat in turns.staying.values():
            if seat not in admitted:
                out.append(TellContended(seat.client, turns.uuid, contended))

    def _tell_long_waits(self, now: int, out: list[Action]) -> int:
        """When the next wait will have been long."""
        waits = self._turns.waits
        long = waits.take_long(now, self._long_wait_ns)
        is_any_told = any(seat.understands_expected_start for seat in long)
        starts = expected_starts(self._turns, self._memory, now) if is_any_told else {}
        for seat in long:
            self._tell_start(seat, starts.get(seat.client), out)
            self._report_long_wait(now, seat, out)
        return waits.next_long(self._long_wait_ns)

    def _tell_wait(self, seat: Seat, out: list[Action]) -> None:
        seat.told_wait = True
        out.append(QueueClient(seat.client, self._turns.uuid, self._turns.waits.place(seat)))

    def _tell_entering(self, out: list[Action]) -> None:
        """A gang gets its locks together. A member at whose GPU there is room before there is at the others waits only
        for its lock; if that room is used up again, for memory."""
        turns = self._turns
        seat = turns.queue.first()
        if seat is None or not seat.is_entering or seat.follows:
            return
        has_room = self._admission.has_room(seat)
        if has_room and seat.told_wait:
            seat.told_wait = False
            out.append(AnnounceRoom(seat.client, turns.uuid))
        elif not has_room and not seat.told_wait:
            self._tell_wait(seat, out)

    def _tell_start(self, seat: Seat, within_ns: int | None, out: list[Action]) -> None:
        """Not to a gang: when the other GPUs are available too is not known."""
        if within_ns is not None and seat.understands_expected_start and seat.gang is None:
            out.append(TellExpectedStart(seat.client, self._turns.uuid, within_ns))

    def _report_long_wait(self, now: int, seat: Seat, out: list[Action]) -> None:
        turns = self._turns
        waited = now - seat.waited_since
        is_paused = seat.client in turns.no_turns.paused
        is_held_back = not is_paused and held_back_by(turns, seat) is not None
        if seat.state == "blocked" and not is_paused and not is_held_back:
            whose = who_blocks(most_protected(turns), seat).client
            out.append(ReportLongWait(seat.client, turns.uuid, 0, waited, 1, whose, 0))
            return
        running = sorted(turns.running(), key=lambda holder: holder.held_since)
        holder, held = (running[0].client, now - running[0].held_since) if running else (0, 0)
        place = turns.waits.place(seat)
        why = {"is_paused": is_paused, "is_held_back": is_held_back}
        out.append(ReportLongWait(seat.client, turns.uuid, place, waited, len(running), holder, held, **why))

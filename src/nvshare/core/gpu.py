"""One GPU: its parts, and the order of decisions in each step.

Theory of operation. `turns` and `memory` hold the state and record the facts. `preempt` and `admit` then depend only on
the state and the time, so late alarms, double alarms and reordered messages need no code of their own:

    preempt     preemption      which clients must release the lock: grown, at the end of the quantum, outranked, idle
                thrashing       whose working set no longer counts
                compute_shares  which clients are held back by their core limit or their weight
                blocking        which clients wait in no queue
    admit       admission       which waiting clients get a lock
                notices         what the clients are told

The parts are connected here; each uses only the public interface of the others."""

from collections.abc import Iterator

from nvshare.core.actions import Action
from nvshare.core.compute.compute_shares import ComputeShares
from nvshare.core.compute.utilization import Utilization
from nvshare.core.consistency import check
from nvshare.core.events import (
    GpuFound,
    GpuTimeReported,
    MemoryMeasured,
    MemoryMoved,
    MoverReported,
    RoomMade,
    WorkingSetReported,
    WorkResumed,
    WorkSlowed,
)
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.memory.moves import is_measurement
from nvshare.core.memory.stated_sizes import StatedSizes
from nvshare.core.memory.thrashing import Thrashing
from nvshare.core.model import NEVER, QuantumRule, Settings
from nvshare.core.queue.admission import Admission
from nvshare.core.queue.blocking import Blocking
from nvshare.core.queue.notices import Notices
from nvshare.core.queue.preemption import Preemption
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns

REPORTS = (MemoryMoved, RoomMade, WorkingSetReported, WorkSlowed)


class Gpu:
    """The parts of one GPU. `out` is the list of actions of the present step. `numbers` gives the numbers of new
    locks; `unheard` are the node's clients with a silent seat on any GPU."""

    def __init__(self, uuid: str, settings: Settings, numbers: Iterator[int], unheard: set[int]) -> None:
        self.uuid = uuid
        self.memory = MemoryPlanner(settings)
        self.turns = Turns(uuid, settings, numbers, self.memory, unheard)
        self._unheard = unheard
        self._stated_sizes = StatedSizes()
        self._assumed_size = 0
        """What counts as long as no client states a size."""
        self.index: int | None = None
        """NVML's, and in `name` the model; for people."""
        self.name = ""
        self.foreign_pids: tuple[int, ...] = ()
        self.utilization = Utilization(self.turns.gpu_time)
        self.is_paused = False
        """The operator has paused the GPU: no client gets a turn here (core.orders)."""
        self.is_reordered = False
        """In this step a client was taken out of the queue or put back that was neither admitted nor left."""
        self._is_measured = False
        """Memory was measured in this step: all clients are told what they may use."""
        self.deadline = NEVER
        """When something will follow from the passing of time alone."""
        self._idle_due = NEVER
        self._preemption = Preemption(self.turns, self.memory)
        self.admission = Admission(settings, self.turns, self.memory)
        self._thrashing = Thrashing(settings, self.turns, self.memory)
        self._blocking = Blocking(self.turns, self.memory)
        self.compute_shares = ComputeShares(self.turns, self.memory)
        self.notices = Notices(settings, self.turns, self.memory, self.admission)

    @property
    def rule(self) -> QuantumRule:
        return self.turns.mode.rule

    def longest_wait_ns(self, clients: int) -> int:
        """The bound on every wait with this number of clients at the GPU, if there are no gangs (core.modes.mode)."""
        return self.turns.mode.longest_wait_ns(self.turns.ranking.horizon_ns, clients)

    def longest_gang_wait_ns(self, clients: int) -> int:
        """This GPU's part in the bound on every wait with this number of clients on the node, if there are gangs."""
        return self.turns.mode.longest_gang_wait_ns(self.turns.ranking.horizon_ns, clients)

    def joined(self, client: int, stated_size: int) -> None:
        self._set_size(self._stated_sizes.state(client, stated_size) or self._assumed_size, measured=False)

    def left(self, now: int, seat: Seat) -> None:
        self.compute_shares.left(now, seat)
        self._set_size(self._stated_sizes.forget(seat.client) or self._assumed_size, measured=False)

    def _set_size(self, size: int, *, measured: bool) -> None:
        before = self.memory.size
        self.memory.set_size(size, measured=measured)
        if self.memory.size != before:
            self.turns.reports.card_changed()

    def found(self, event: GpuFound) -> None:
        if event.is_assumed:
            self._assumed_size = event.size
        stated = self._stated_sizes.size if event.is_assumed else 0
        self._set_size(stated or event.size, measured=not event.is_assumed)
        self.memory.is_known, self.memory.link_bytes_per_s = True, event.link_bytes_per_s
        self.index, self.name = event.index, event.name

    def set_measured(self, event: MemoryMeasured) -> None:
        before = self.memory.context_bytes
        self.memory.set_measured(event.foreign, event.context_bytes)
        if self.memory.context_bytes != before:
            self.turns.reports.card_changed()
        self.turns.reports.measured(event.processes)
        self.foreign_pids = event.foreign_pids
        self._is_measured = True

    def host_measured(self, seat: Seat, room: int) -> None:
        self.turns.reports.host_measured(seat, room)
        self._is_measured = True

    def note(self, now: int, event: MemoryMoved | RoomMade | WorkingSetReported | WorkSlowed) -> None:
        """What a client says about its memory and its work (REPORTS)."""
        seat = self.turns.seats[event.client]
        match event:
            case MemoryMoved():
                seat.moved = seat.moved.plus(event.moved, event.took_ns, to_host=event.to_host)
                if is_measurement(now, seat, event):
                    self.turns.mode.memory_moved(event)
                if not event.to_host:
                    self.turns.ranking.fair_shares.moved_in(now, seat, event.took_ns)
            case RoomMade():
                self.turns.moves.card_room.answered(seat, event.left)
            case WorkingSetReported():
                self.turns.reports.working_set_reported(seat, event.used)
            case _:
                self._thrashing.slowed(seat, event.factor)

    def note_mover(self, event: MoverReported) -> None:
        """A client says whether it moves memory."""
        seat = self.turns.seats[event.client]
        seat.not_moving = event.not_moving
        self.memory.set_mover(seat, not event.not_moving)

    def note_gpu_time(self, now: int, event: GpuTimeReported) -> None:
        """A fact for the account. It changes no state, so no decision follows from it alone."""
        self.turns.gpu_time.reported(now, self.turns.seats[event.client], event.first, event.count, event.busy)

    def work_resumed(self, now: int, event: WorkResumed) -> None:
        self.turns.work_resumed(now, self.turns.seats[event.client])

    def look_again_at(self, time: int) -> None:
        """Nothing is to be decided before this time."""
        self.deadline = time

    def reserved_for(self, now: int) -> Seat | None:
        """The waiting client that no other client may pass, although others would fit."""
        return self.admission.reserved_for(now)

    def check(self) -> None:
        """What must hold, in full; for tests."""
        check(self.turns, self._unheard)
        self.memory.check(self.turns.seats.values())
        self.compute_shares.check()

    def preempt(self, now: int, out: list[Action]) -> None:
        """The first half of what follows from the state and the time: which clients must release the lock."""
        turns, no_turns = self.turns, self.turns.no_turns
        self._idle_due = NEVER
        if turns.dropping:
            self._preemption.revoke(now, out)
        if len(turns.staying) > 1:
            self._preemption.shed(now, out)
        if self._thrashing.is_active:
            self._thrashing.decide(now, out)
        if self.compute_shares.is_active:
            self.compute_shares.decide(now, out)
        if self.memory.pinned or turns.blocked or no_turns.paused or no_turns.over or no_turns.ahead:
            self._block(now, out)
        if not turns.queue.order:
            return
        if not turns.staying and not turns.dropping:
            if turns.waits.is_switching:
                turns.waits.end_switch()  # No client has to release its lock.
            return
        turns.timer.adjust()
        first = turns.queue.first()
        if first is None or (first.gang is not None and not first.is_entering):
            turns.waits.end_switch()
            return
        self._preemption.make_way(now, first, out)
        if turns.idle and first.gang is None:
            self._idle_due = self._preemption.preempt_idle(now, first, out)

    def _block(self, now: int, out: list[Action]) -> None:
        """Which clients wait in no queue, and which of the holders among them must release the lock."""
        if self._blocking.decide(now, out):
            self.is_reordered = True
        if self.turns.no_turns.over:
            self.compute_shares.preempt(now, out)

    def admit(self, now: int, out: list[Action], *, is_settling: bool) -> list[Seat]:
        """The second half: admission and notices. Returns the clients that got a lock."""
        turns = self.turns
        self.is_reordered = False
        if self._is_measured:
            self._is_measured = False
            for seat in turns.seats.values():
                self.notices.tell_capacity(seat, out)
        admitted: list[Seat] = []
        due = NEVER
        if not is_settling:
            due = self._idle_due
            if turns.queue.order:
                admitted = self.admission.admit(now, out)
                if admitted and turns.idle and (first := self._lone_first()) is not None:
                    due = self._preemption.idle_deadline(now, first)
            if len(turns.staying) > 1 and admitted and (first := self._lone_first()) is not None:
                due = now if self._preemption.may_outrank(now, first) else due
            if admitted and self.compute_shares.is_active:
                self.compute_shares.admitted(now)
            due = self._next_turn_change(due)
            assert len(turns.staying) <= 1 or self.memory.would_fit(0), f"{self.uuid} holds more than the safe limit"
        if turns.ranking.fair_shares.are_kept:
            turns.ranking.fair_shares.queue_changed(now, is_waited_for=bool(turns.queue.order))
        if turns.waits.moved:
            self.compute_shares.queue_changed(now)
        report_due = self.notices.tell(now, admitted, out)
        self.deadline = min(due, report_due)
        return admitted

    def _next_turn_change(self, due: int) -> int:
        """The earliest of `due`, the end of a client's distrust, the next look at shares, the end of a grace time and,
        if a client waits for it, the end of the quantum."""
        turns = self.turns
        if self._thrashing.is_active and self._thrashing.deadline < due:
            due = self._thrashing.deadline
        if self.compute_shares.is_active and self.compute_shares.deadline < due:
            due = self.compute_shares.deadline
        if self.memory.protected and turns.queue.order:
            due = min(due, turns.moves.card_room.deadline)
        if turns.dropping:
            due = min(due, next(iter(turns.dropping.values())).drop_deadline)
        ends, waits = turns.timer.ends, turns.waits
        if ends is None or ends >= due or (waits.is_switching and not waits.is_early) or waits.is_withheld:
            return due
        head = turns.queue.first()
        if head is None or head.gang is not None:  # For a gang core.gangs knows the time.
            return due
        waits_for_room = self.memory.protected and self.memory.fits(head.need)
        return due if waits_for_room else ends

    def _lone_first(self) -> Seat | None:
        """The first in the queue, if it is admitted alone: for a gang core.gangs knows the time."""
        first = self.turns.queue.first()
        return first if first is None or first.gang is None else None

    # For gangs (core.gangs): `seat` is a member that waits and is first here.

    def may_admit(self, seat: Seat) -> bool:
        """There is room, and no client before it: since room was made, one may wait again (queue.blocking)."""
        return self.turns.queue.first() is seat and self.admission.has_room(seat)

    def switch_time(self, now: int, seat: Seat) -> int:
        """From when on holders make room for it: when the quantum is over, or at once if no holder has to go."""
        turns = self.turns
        turns.timer.adjust()
        if turns.timer.ends is None or self._preemption.is_due(now) or self.memory.would_fit(seat.need):
            return now
        return turns.timer.ends

    def may_block(self, seat: Seat) -> bool:
        """It may be taken out of the queue in this step (queue.blocking)."""
        if self.turns.no_turns.has_had_enough(seat):
            return True
        return bool(self.memory.protected) and self.memory.must_wait(seat, self.turns.moves.card_room.stuck()(seat))

    def available_time(self, now: int, seat: Seat, *, outranks: bool) -> int:
        """As `switch_time`, but earlier if idle holders, or outranked ones if it `outranks`, make room for it."""
        due = self.switch_time(now, seat)
        if due <= now or (outranks and self._preemption.may_outrank(now, seat)):
            return now
        return min(due, self._preemption.idle_deadline(now, seat))

    def make_way_for_gang(self, now: int, seat: Seat, out: list[Action], *, is_due: bool) -> None:
        """Preempt idle holders if they are enough, otherwise begin a switch: of outranked holders, unless it is due."""
        turns = self.turns
        turns.moves.card_room.ask(now, seat, out)
        if self.admission.fits(seat):
            return
        self._preemption.preempt_idle(now, seat, out)
        is_made = self.memory.would_fit(seat.need) and not turns.waits.is_switching
        if is_due or is_made or self._preemption.is_due(now):
            turns.waits.begin_switch()
        else:
            self._preemption.outrank(now, seat, out)

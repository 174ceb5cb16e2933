"""The turns of one GPU: every change of a seat's state (turns.seat).

There are two kinds of methods. Those in the past tense record what a client or the operator did, and accept facts that
come late or twice. Those in the imperative carry out decisions of queue.preemption and queue.admission. Nothing here
decides which clients get a lock or must release it. `out` is the list of actions of the present step."""

from collections.abc import Iterator

from nvshare.core.actions import Action, DropCause, DropLock, EndTurn, GiveLock, TellContended, TurnEnd
from nvshare.core.compute.gpu_time import GpuTime
from nvshare.core.compute.no_turns import NoTurns
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.memory.memory_reports import MemoryReports
from nvshare.core.memory.moves import Moves
from nvshare.core.model import Memory, QuantumRule, Settings
from nvshare.core.modes import make_mode
from nvshare.core.queue.policies import Ranking
from nvshare.core.queue.waits import Waits
from nvshare.core.turns.drops import begin_drop
from nvshare.core.turns.pauses import Pauses
from nvshare.core.turns.quantum_timer import QuantumTimer
from nvshare.core.turns.seat import TRANSITIONS, Seat


class Turns:
    """The seats of one GPU by state, their locks, and the timer. Other parts of the core read the fields."""

    def __init__(
        self, uuid: str, settings: Settings, numbers: Iterator[int], memory: MemoryPlanner, unheard: set[int]
    ) -> None:
        self.uuid = uuid
        self.seats: dict[int, Seat] = {}
        self.staying: dict[int, Seat] = {}
        """In the order of admission."""
        self.dropping: dict[int, Seat] = {}
        """In the order of their deadlines."""
        self.pauses = Pauses()
        self.idle = self.pauses.idle
        self.waits = Waits()
        self.queue, self.blocked = self.waits.queue, self.waits.blocked
        self.reports = MemoryReports(memory, self.queue)
        self.no_turns = NoTurns()
        self.is_contended = False
        """Holders report their pauses: a client waits, or the mode or weights need the pauses before one does."""
        self.timer = QuantumTimer(self, settings.grace_ns)
        self.gpu_time = GpuTime()
        self.mode = make_mode(settings.quantum, settings, memory)
        self.moves = Moves(uuid, memory, self.seats, settings.grace_ns)
        self._settings, self._numbers = settings, numbers
        self._memory, self._unheard = memory, unheard
        self.ranking = Ranking(settings.policy, self.gpu_time)

    @property
    def is_empty(self) -> bool:
        return not self.staying and not self.dropping

    def running(self) -> list[Seat]:
        return [*self.staying.values(), *self.dropping.values()]

    def joined(self, seat: Seat, memory: Memory) -> None:
        self.seats[seat.client] = seat
        self.reports.joined(seat, memory)

    def left(self, now: int, seat: Seat, out: list[Action]) -> None:
        if seat.lock:
            self._end_turn(now, seat, "left", out)
        elif seat.state in ("waiting", "blocked"):
            self.withdraw(now, seat)
        self.timer.revoked_lock_gone(seat.client)
        self.reports.left(seat)
        self.gpu_time.left(now, seat)
        self.mode.client_left(now, seat)
        self.no_turns.resume(seat.client)
        self.moves.card_room.note_left(seat.client)
        del self.seats[seat.client]

    def claimed(self, now: int, seat: Seat, lock: int, out: list[Action], *, is_settling: bool) -> None:
        """The client runs already: with a lock of an earlier daemon, or (0) with none and gets one.

        When the time for claims after a restart is over, or there was no restart, a connection was lost or the client
        lies. Then it is a request; unless it is admitted at once, queue.notices tells it to stop."""
        if not is_settling:
            self._enqueue(now, seat, from_rest=True)
            self.waits.claim_late(seat, lock)
            return
        is_first = self.is_empty
        seat.state = TRANSITIONS["claim"][seat.state]
        self._begin_turn(now, seat, lock or next(self._numbers))
        if is_first:
            self.timer.start(now)
        if not lock:
            out.append(GiveLock(seat.client, self.uuid, seat.lock, self.is_contended))
        elif self.is_contended:
            out.append(TellContended(seat.client, self.uuid, True))

    def requested(self, now: int, seat: Seat) -> None:
        if seat.state != "rest":
            # It asked before it knew that it has the lock. The client would take a second answer for a new lock.
            seat.follows = False
            return
        self.pauses.ended(now, seat, self.mode)
        self._enqueue(now, seat, from_rest=True)

    def released(self, now: int, seat: Seat, lock: int, again: bool, out: list[Action]) -> None:
        if seat.lock == lock != 0:
            self._end_turn(now, seat, "released", out)
            if again:
                if seat.idle_since is not None:
                    self.pauses.ended(now, seat, self.mode)
                self._enqueue(now, seat)
            else:
                self.mode.released_without_work(seat)
        elif seat.revoked == lock != 0:
            self.reports.set_revoked(seat, 0)
            self.timer.revoked_lock_gone(seat.client)
            if not again and seat.state in ("waiting", "silent", "blocked"):
                self.withdraw(now, seat)

    def heard(self, now: int, seat: Seat) -> None:
        """The process of a silent seat said something: it waits with the rank it had, or as if it had just asked."""
        if seat.kept_rank is None:
            self._enqueue(now, seat, from_rest=True)
        else:
            seat.state = TRANSITIONS["request"][seat.state]
            seat.waited_since, seat.room_until = now, 0
            self.ranking.fair_shares.wait_resumed(now, seat)
            self.waits.resume(seat)

    def fell_silent(self, now: int, seat: Seat, out: list[Action]) -> None:
        """The client counts as hung. It may keep a lock that no other client waits for."""
        if seat.follows:
            self.withdraw(now, seat)
        elif seat.state == "waiting":
            seat.kept_rank = seat.rank
            self.waits.end(now, seat)
            self.ranking.fair_shares.wait_paused(now, seat)
            seat.state = TRANSITIONS["silence"][seat.state]
            self._unheard.add(seat.client)
        elif seat.state == "staying" and self.is_contended:
            self.preempt(now, seat, "silent", out)

    def work_finished(self, now: int, seat: Seat) -> None:
        """Only a staying client can be idle: a dropping client has no work because it was told to stop."""
        if seat.state == "staying" and self.is_contended and seat.idle_since is None:
            self.pauses.began(now, seat, self.mode)

    def work_resumed(self, now: int, seat: Seat) -> None:
        if seat.lock:
            self.pauses.ended(now, seat, self.mode)
            self.mode.work_resumed(now, seat)

    # What the operator did, and a restart.

    def scheduling_switched(self, now: int, out: list[Action]) -> None:
        """On or off: no lock and no place in the queue counts any more."""
        for seat in self.running():
            self._end_turn(now, seat, "off", out)
        self.moves.card_room.lock_free()
        for seat in self.seats.values():
            if seat.state in ("waiting", "silent", "blocked"):
                self.withdraw(now, seat)

    def rule_changed(self, rule: QuantumRule) -> None:
        """The new rule holds for the present running set too, from when that began. A mode that stays in force keeps
        what it has learned."""
        if rule.mode == self.mode.rule.mode:
            self.mode.rule = rule
        else:
            self.mode = make_mode(rule, self._settings, self._memory)
        if self.timer.ends is not None:
            self.timer.set()

    def settling_ended(self) -> None:
        """All claims have come: the order of admission is that of the lock numbers, not that of registration."""
        in_order = sorted(self.staying.values(), key=lambda seat: seat.lock)
        self.staying.clear()
        self.staying.update((seat.client, seat) for seat in in_order)

    # Decisions carried out.

    def follow(self, now: int, seat: Seat) -> None:
        """Another member of its gang waits."""
        self._enqueue(now, seat, from_rest=True)
        seat.follows = True
        self.waits.hide(seat)

    def block(self, seat: Seat) -> None:
        """Out of the queue; turns.seat has the reasons."""
        seat.state, seat.room_until = TRANSITIONS["block"][seat.state], 0
        self.waits.block(seat)

    def unblock(self, seat: Seat) -> None:
        seat.state = TRANSITIONS["unblock"][seat.state]
        self.waits.resume(seat)

    def refuse_claim(self, seat: Seat, lock: int, out: list[Action]) -> None:
        """Tell a client that claimed a lock late, or (0) runs with none, to stop. What it claims counts like a revoked
        lock: it takes nothing from the others, and its release says whether the client has more work."""
        self.reports.set_revoked(seat, lock or next(self._numbers))
        if not lock:
            out.append(GiveLock(seat.client, self.uuid, seat.revoked, True))
        out.append(DropLock(seat.client, self.uuid, seat.revoked, "claim"))

    def admit(self, now: int, seat: Seat) -> None:
        if seat.revoked or seat.is_suspended:
            self.reports.set_revoked(seat, 0)
        seat.won_rank, seat.outranked_rank = seat.rank, None
        self.waits.end(now, seat)
        seat.state = TRANSITIONS["admit"][seat.state]
        self._begin_turn(now, seat, next(self._numbers))

    def preempt(self, now: int, seat: Seat, cause: DropCause, out: list[Action]) -> None:
        """Tell a staying client to release its lock."""
        seat.state = TRANSITIONS["preempt"][seat.state]
        del self.staying[seat.client]
        self.idle.pop(seat.client, None)
        seat.outranked_rank = None
        begin_drop(self.dropping, seat, now + self._settings.grace_ns)
        self._memory.staying_to_dropping(seat)
        self.moves.ask_leaving(now, seat, self.queue, self.dropping, out)
        out.append(DropLock(seat.client, self.uuid, seat.lock, cause))
        if seat.gang is not None:
            seat.gang.dropped = cause

    def revoke(self, now: int, seat: Seat, out: list[Action]) -> None:
        """A dropping client's grace is over. It waits again when its process says something; until then a turn would
        be wasted on it."""
        lock = seat.lock
        self._end_turn(now, seat, "revoked", out)
        self.reports.set_revoked(seat, lock)
        self.timer.lock_revoked(now, seat.client)
        seat.kept_rank, seat.state = None, TRANSITIONS["silence"][seat.state]
        self._unheard.add(seat.client)

    def set_contended(self, contended: bool) -> None:
        """Holders report their pauses from now on, or no longer do."""
        self.is_contended = contended
        self.mode.reports_changed()
        if not contended:
            self.pauses.forgotten()

    # Transitions.

    def _enqueue(self, now: int, seat: Seat, *, from_rest: bool = False) -> None:
        seat.state = TRANSITIONS["request"][seat.state]
        seat.waited_since, seat.passes, seat.room_until, seat.told_wait = now, 0, 0, False
        if from_rest:
            seat.outranked_rank = None
        self.ranking.wait_began(now, seat, self.mode, from_rest=from_rest)
        rank = self.ranking.rank(now, seat)
        if seat.outranked_rank is not None:
            rank = min(rank, seat.outranked_rank)  # It was outranked in its turn, and has at least the rank it had.
        if self.waits.queue.crowds:
            rank = self.waits.queue.before_crowds(seat, rank)
        self.waits.begin(seat, rank if seat.gang is None else seat.gang.rank_of(rank))

    def withdraw(self, now: int, seat: Seat) -> None:
        if seat.state != "silent":
            self.waits.end(now, seat)
        self.ranking.fair_shares.wait_ended(seat)
        seat.follows = False
        seat.state = TRANSITIONS["withdraw"][seat.state]

    def _begin_turn(self, now: int, seat: Seat, lock: int) -> None:
        if self.mode.learns:
            self.mode.turn_began(now, seat)
        seat.lock, seat.held_since, seat.last_scheduled = lock, now, now
        seat.revoked, seat.follows, seat.idle_since, seat.has_regrown = 0, False, None, False
        seat.turns += 1
        self.gpu_time.turn_began(now, seat)
        self.staying[seat.client] = seat
        self._memory.start(seat)
        seat.most_needed = seat.least_needed = seat.need
        if seat.pinned or seat.keep_asked:
            self.reports.turn_began(seat)
        if self.ranking.fair_shares.are_kept:
            self.ranking.fair_shares.turn_began(now, seat)

    def _end_turn(self, now: int, seat: Seat, end: TurnEnd, out: list[Action]) -> None:
        client, held, seat.last_ran = seat.client, now - seat.held_since, now
        seat.turn_ended(held)
        if self.ranking.fair_shares.are_kept:
            self.ranking.fair_shares.turn_ended(now, seat)
        self.gpu_time.turn_ended(now, seat)
        if self.mode.learns:
            self.mode.turn_ended(now, seat)
        out.append(EndTurn(client, self.uuid, seat.lock, held, end))
        self._memory.stop(seat)
        if seat.drop_deadline:
            del self.dropping[client]
        else:
            del self.staying[client]
            self.idle.pop(client, None)
        seat.state = TRANSITIONS["end"][seat.state]
        self.moves.turn_ended(now, seat, end)
        seat.lock = seat.drop_deadline = 0
        if seat.keeps_room:
            self.reports.turn_ended(seat)
        if not self.staying and not self.dropping:
            self.timer.ends = None

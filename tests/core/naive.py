"""A naive account of one node's turns, kept from what went into the core and what came out of it.

It knows no sums, heaps or deadlines: everything is counted again each time, over all clients. Whatever it asserts must
hold for every order of events, however the peers behave.

Three ranks it takes from the core: that of policy fair (see core.naive_billing), that of outranked clients, and the lag
of modes that learn, of which it checks that it is within its bound. So are the members of gangs (core.gangs)."""

from core import gangs, held, naive_priorities, naive_regrowth, naive_room
from core.naive_gpu import NaiveGpu, NaiveSeat
from core.naive_memory import MemoryNotes
from core.naive_shares import NaiveShares
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import Settings
from nvshare.core.node import Node
from nvshare.core.turns.turns import Turns

_UNKNOWN = 1 << 200
LEARNING = ("adaptive", "balanced")
"""The modes with a lag, in which holders report their pauses before anybody waits."""


class Naive(NaiveShares, MemoryNotes):
    """The whole node. Call `before` with each event, then `after` with the actions it led to."""

    def __init__(self, settings: Settings, settles_at: int | None) -> None:
        super().__init__(settings)
        self.settles_at, self.slowness = settles_at, 0
        self.given: dict[int, tuple[int, str]] = {}
        self.has_gangs, self.most_clients = False, 0  # There has been a gang; how many clients there were at most.

    def seat(self, client: int, gpu: str) -> NaiveSeat:
        return self.gpus[gpu].seats[client]

    _MemoryHeld = held.note_event
    _RoomMade, _MoveOut = naive_room.note_answer, naive_room.note_asked

    # What went in.

    def before(self, now: int, event: ev.Event) -> None:
        self.note_event(now, event)
        note = getattr(self, "_" + type(event).__name__, None)
        if note is not None:
            note(now, event)
        for gpu in self.gpus.values():
            seat = gpu.seats.get(getattr(event, "client", 0))
            if seat is not None and seat.state == "silent" and not isinstance(event, ev.ClientSilent):
                self._speak(now, seat, gpu)
            naive_regrowth.note_needs(gpu)

    def _gpu(self, uuid: str) -> NaiveGpu:
        return self.gpus.setdefault(uuid, NaiveGpu.of(self.settings, self.mode))

    def _ClientRegistered(self, now: int, event: ev.ClientRegistered) -> None:  # noqa: N802 - the event's own name
        clients = {event.client, *(client for gpu in self.gpus.values() for client in gpu.seats)}
        self.most_clients = max(self.most_clients, len(clients))
        for claim in event.claims:
            gpu = self._gpu(claim.gpu)
            gpu.state_size(event.client, claim.size)
            seat = gpu.seats[event.client] = NaiveSeat(event.client, self.priorities.get(event.group, event.priority))
            seat.group, seat.own_priority, seat.own_weight = event.group, event.priority, event.weight
            gpu.most_clients = max(gpu.most_clients, len(gpu.seats))
            self.resize(gpu, seat, claim.memory)
            seat.resident = claim.memory.swappable
            if self.is_scheduling and (claim.lock or claim.unshared) and now >= (self.settles_at or 0):
                seat.late = claim.lock
                self.start_wait(now, seat, gpu)
            elif self.is_scheduling and claim.lock:
                seat.state, seat.lock = "staying", claim.lock
            elif self.is_scheduling and claim.unshared:
                seat.state = "unshared"

    def _ClientLeft(self, now: int, event: ev.ClientLeft) -> None:  # noqa: N802 - the event's own name
        for gpu in self.gpus.values():
            if gpu.seats.pop(event.client, None):
                gpu.state_size(event.client, 0)
                self.allow(gpu, self.settings.grace_ns)  # The others' shares are larger, and so is what counts.

    def _LockRequested(self, now: int, event: ev.LockRequested) -> None:  # noqa: N802 - the event's own name
        seat = self.seat(event.client, event.gpu)
        self.resize(self.gpus[event.gpu], seat, event.memory)
        if self.is_scheduling and seat.state == "rest":
            self.start_wait(now, seat, self.gpus[event.gpu])

    def _LockReleased(self, now: int, event: ev.LockReleased) -> None:  # noqa: N802 - the event's own name
        seat = self.seat(event.client, event.gpu)
        if seat.state in ("staying", "dropping") and seat.lock == event.lock:
            seat.state, is_outranked = "rest", seat.is_outranked
            if event.again:
                self.start_wait(now, seat, self.gpus[event.gpu])
                seat.is_outranked = is_outranked
        elif seat.revoked == event.lock != 0:
            seat.revoked = 0
            if seat.state in ("waiting", "silent", "blocked") and not event.again:
                seat.state = "rest"

    def _ClientSilent(self, now: int, event: ev.ClientSilent) -> None:  # noqa: N802 - the event's own name
        for gpu in self.gpus.values():
            seat = gpu.seats.get(event.client)
            if seat is not None and seat.follows:
                seat.state = "rest"
            elif seat is not None and seat.state == "waiting":
                seat.state, seat.keeps_rank = "silent", True

    def _speak(self, now: int, seat: NaiveSeat, gpu: NaiveGpu) -> None:
        names = ("rank", "arrived", "may_lag", "is_outranked", "passes", "may_have_passes", "told_wait")
        kept = {name: getattr(seat, name) for name in names if seat.keeps_rank}
        self.start_wait(now, seat, gpu)
        vars(seat).update(kept)

    def _GpuFound(self, now: int, event: ev.GpuFound) -> None:  # noqa: N802 - the event's own name
        gpu = self._gpu(event.gpu)
        gpu.size, gpu.measured = event.size, True

    def _SchedulingSwitched(self, now: int, event: ev.SchedulingSwitched) -> None:  # noqa: N802 - the event's own name
        if event.on != self.is_scheduling:
            self.is_scheduling = event.on
            for seat in (seat for gpu in self.gpus.values() for seat in gpu.seats.values()):
                seat.state, seat.resident, seat.room_asked, seat.room_due = "rest", 1 << 64, 0, 0

    def be_late(self, late_ns: int) -> None:
        for gpu in self.gpus.values():
            self.allow(gpu, late_ns)

    def allow(self, gpu: NaiveGpu, more_ns: int) -> None:
        for one in self.gpus.values() if self.has_gangs else [gpu]:
            for seat in one.seats.values():
                seat.allowance += more_ns

    def start_wait(self, now: int, seat: NaiveSeat, gpu: NaiveGpu) -> None:
        self.order_number += 1
        seat.state, seat.since, seat.arrived, seat.order = "waiting", now, now, self.order_number
        seat.passes, seat.allowance, seat.told_wait, seat.room_since, seat.head_since = 0, 0, False, None, None
        seat.may_have_passes = 0
        seat.rank, seat.is_outranked, seat.may_lag = None, False, gpu.mode in LEARNING

    # What came out.

    def after(self, now: int, actions: list[ac.Action], node: Node) -> None:
        self.actions = actions
        gangs.note(self, now, node)
        self.refused = {
            (drop.client, drop.gpu) for drop in actions if isinstance(drop, ac.DropLock) and drop.cause == "claim"
        }
        held.note_actions(self, actions)
        for action in actions:  # A turn that ended in this step frees its client's memory before anybody is unblocked.
            if isinstance(action, ac.EndTurn):
                naive_room.note_end(self, now, action)
        for uuid, gpu in self.gpus.items():
            self.order_number = gpu.unblock(now, node.gpus[uuid].turns, self.order_number)
            self.take_paused_out(uuid, gpu, node.gpus[uuid].turns)
            self.note_held_back(gpu, node.gpus[uuid])
            if self.has_new_policy:
                self.note_policy(gpu, node.gpus[uuid].turns)
        for action in actions:
            check = getattr(self, "_" + type(action).__name__, None)
            if check is not None:
                check(now, action, node)
        for uuid, gpu in self.gpus.items():
            gpu.note_trust(now, node.gpus[uuid].turns)
            naive_regrowth.note_needs(gpu)
            self.note_use(now, uuid, gpu, node.gpus[uuid])
            self._check_gpu(now, uuid, gpu, node)
        self.has_new_policy = False
        gangs.check(self, now, actions, node)

    def _ReportBlocked(self, now: int, action: ac.ReportBlocked, node: Node) -> None:  # noqa: N802 - the same
        real = node.gpus[action.gpu].turns.seats[action.client]
        if not gangs.waited_for_a_moment(self.seat(action.client, action.gpu), real):
            self.gpus[action.gpu].block(now, action, real.kept_rank)

    def _GiveLock(self, now: int, action: ac.GiveLock, node: Node) -> None:  # noqa: N802 - the action's own name
        gpu = self.gpus[action.gpu]
        seat = gpu.seats[action.client]
        seat.contended = action.contended
        gangs.note_given(self, now, gpu, seat, node.gpus[action.gpu].turns)
        is_refused = (action.client, action.gpu) in self.refused
        may_get_one = seat.state in ("waiting", "unshared") or is_refused
        assert may_get_one, "only a client that waits, or runs without a lock, gets one"
        assert action.lock not in self.given, "a lock number is given once"
        assert action.lock > max(self.given, default=0), "numbers grow"
        self.given[action.lock] = (action.client, action.gpu)
        if is_refused:
            assert seat.late == 0, "only a client that runs without a lock is given one to drop it"
            seat.late = action.lock
            return
        if seat.state == "waiting":
            gangs.note_passing(self, action.gpu, seat, node)
            assert now - seat.since == action.waited_ns
            naive_room.check_given(gpu, now, seat)
        seat.state, seat.lock, seat.revoked, seat.late, seat.is_outranked = "staying", action.lock, 0, None, False

    def _AnnounceRoom(self, now: int, action: ac.AnnounceRoom, node: Node) -> None:  # noqa: N802 - the same
        seat = self.seat(action.client, action.gpu)
        assert (seat.state, seat.told_wait) == ("waiting", True), "room is announced once after QueueClient"
        seat.told_wait = False

    def _QueueClient(self, now: int, action: ac.QueueClient, node: Node) -> None:  # noqa: N802 - the same
        gpu = self.gpus[action.gpu]
        gpu.seats[action.client].told_wait = True
        queue = self.queue(action.gpu, gpu, node)
        if all(other.rank is not None for other in queue):  # A client admitted later in this step has none.
            gangs.check_place(gpu, node.gpus[action.gpu].turns, queue, action)

    def _DropLock(self, now: int, action: ac.DropLock, node: Node) -> None:  # noqa: N802 - the same
        seat = self.seat(action.client, action.gpu)
        if action.cause == "claim":
            assert seat.state in ("waiting", "blocked"), "only a late claim is refused"
            assert seat.late == action.lock, "only a late claim is refused"
            seat.revoked, seat.late = action.lock, None
            return
        if action.cause == "priority":
            naive_priorities.check_drop(now, action.gpu, action.client, node, self.new_members)
            seat.is_outranked = True
        if action.cause == "thrash" and not node.gpus[action.gpu].turns.seats[action.client].is_trusted:
            self.gpus[action.gpu].check_thrash(now, seat, self.slowness)
        if action.cause == "growth":
            naive_regrowth.note_crowded(self.gpus[action.gpu], node.gpus[action.gpu].memory.safe_limit)
        assert (seat.state, seat.lock) == ("staying", action.lock), "only a lock that is held is dropped, and once"
        seat.state, seat.deadline = "dropping", now + self.settings.grace_ns

    def _EndTurn(self, now: int, action: ac.EndTurn, node: Node) -> None:  # noqa: N802 - the same
        naive_regrowth.note_end(self.gpus[action.gpu], action)
        if action.end == "revoked":
            seat = self.seat(action.client, action.gpu)
            assert (seat.state, seat.lock) == ("dropping", action.lock)
            assert now >= seat.deadline, "nobody is revoked before its grace is over"
            seat.state, seat.revoked, seat.keeps_rank = "silent", seat.lock, False

    def _TellContended(self, now: int, action: ac.TellContended, node: Node) -> None:  # noqa: N802 - the same
        seat = self.seat(action.client, action.gpu)
        assert seat.state == "staying"
        seat.contended = action.contended

    def _TellCapacity(self, now: int, action: ac.TellCapacity, node: Node) -> None:  # noqa: N802 - the same
        self.gpus[action.gpu].check_capacity(action)

    # What must hold.

    def queue(self, uuid: str, gpu: NaiveGpu, node: Node) -> list[NaiveSeat]:
        """The clients that wait, in the order of policy and mode."""
        gpu.longest_lag_ns = max(gpu.longest_lag_ns, node.gpus[uuid].turns.mode.longest_lag_ns)
        for seat in gpu.named("waiting"):
            if seat.rank is None or gangs.may_be_member(node.gpus[uuid].turns.seats[seat.client]):
                rank = self._rank(seat, node.gpus[uuid].turns, gpu.longest_lag_ns)
                if seat.rank not in (None, rank):  # It moved with its gang, behind all who have this rank.
                    self.order_number += 1
                    seat.order = self.order_number
                seat.rank = rank
        return sorted(gpu.named("waiting"), key=lambda seat: (_UNKNOWN if seat.rank is None else seat.rank, seat.order))

    def _rank(self, seat: NaiveSeat, real: Turns, longest_lag_ns: int) -> int | None:
        """Worked out again if possible, else as the core has it. The lag may be that of an earlier mode."""
        by_core = real.seats[seat.client].rank
        if self.policy == "fair" or gangs.may_be_member(real.seats[seat.client]):
            return by_core  # Checked by core.naive_billing. A member of a gang may have the rank of another one.
        rank = seat.arrived + self.handicap(seat)
        if seat.is_outranked:
            assert by_core is None or by_core <= rank + longest_lag_ns, "a client that was outranked keeps its rank"
            return by_core
        if not seat.may_lag:
            return rank
        if by_core is not None:
            assert 0 <= by_core - rank <= longest_lag_ns, "a client lags by no more than its mode promises"
        return by_core

    def _check_gpu(self, now: int, uuid: str, gpu: NaiveGpu, node: Node) -> None:
        safe = gpu.size * (100 - self.settings.reserve_percent) // 100
        queue = self.queue(uuid, gpu, node)
        real = node.gpus[uuid].turns
        gpu.longest_wait_ns = max(gpu.longest_wait_ns, node.gpus[uuid].longest_wait_ns(gpu.most_clients))
        gpu.note_gang_wait(node.gpus[uuid].longest_gang_wait_ns(self.most_clients))
        assert [seat.client for seat in queue] == [seat.client for seat in real.queue]
        assert {seat.client: seat.state for seat in gpu.seats.values()} == {
            seat.client: seat.state for seat in real.seats.values()
        }
        naive_regrowth.check(gpu, real)
        gangs.check_passes(gpu, real)
        assert all(seat.late is None for seat in gpu.seats.values()), "a client that claims late is admitted or refused"
        if node.is_settling or not self.is_scheduling:
            return
        staying = gpu.named("staying")
        all_fit = gpu.taken("rest", "waiting", "staying", "dropping", "silent", "blocked") <= safe
        is_contended = bool(queue) or real.no_turns.wants_pauses or (gpu.mode in LEARNING and not all_fit)
        assert len(staying) <= 1 or gpu.taken("staying") <= safe, "those who stay fit, or one is alone"
        for seat in staying:
            assert seat.contended == is_contended, "a holder knows whether it has to report its pauses"
        gangs.check_queue(now, gpu, real, safe, is_alarm_late=node.gpus[uuid].deadline <= now)
        self.check_shares(now, uuid, gpu, node.gpus[uuid])
        for seat in gpu.named("waiting", "staying"):
            assert not self.is_paused(uuid, seat), "a paused client is not in the queue and has no lock"
        for seat in queue:
            gangs.check_host(now, gpu, seat, node.gpus[uuid])
            assert now - seat.since <= self.bound(gpu) + seat.allowance, "every wait ends"

    def bound(self, gpu: NaiveGpu) -> int:
        """As core.modes.mode states it; nobody moves while claims after a restart are pending."""
        with_gangs = max(one.longest_gang_wait_ns for one in self.gpus.values())
        return (with_gangs if self.has_gangs else gpu.longest_wait_ns) + self.settings.settle_ns

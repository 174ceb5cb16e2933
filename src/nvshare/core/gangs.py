"""Gangs: locks on several GPUs that are granted and dropped together (docs/decisions/0011-gang-turns.md).

Which seats belong together is learned. Seats of one client are linked when the client waits at one of them while it
holds another. A seat leaves the gang after a turn in which it was idle for more than half of the time in one piece
while another one worked, when its last context is gone, and with its client.

While a member waits:

    followers   members at rest wait too: a request at one GPU is a request at all
    queued      somebody who is no member comes before a member, or a member still drains. The gang is passed over: its
                GPUs are given to those behind it
    ready       the gang is first at all GPUs at which it waits. It comes in when every one of them is available: the
                quantum is over, or idle holders make room. That is at the latest `due`, when the quanta are over that
                ran when it became ready. Until then its GPUs make no switch for others, but whoever fits comes in
    entering    room is made at all its GPUs; once there is room at each, it gets all locks in one step, in the order
                of the UUIDs

A member that fits without a switch comes in at once, as everybody does. When a member must drop its lock, so must all
others at whose GPUs somebody waits, in the same step.

No deadlock: locks for which others have to go are granted all or none, and of all gangs that wait the one with the
lowest rank is passed over only for those before it."""

from collections.abc import Callable, Mapping

from nvshare.core.actions import Action
from nvshare.core.client import Client
from nvshare.core.gang import Gang
from nvshare.core.gpu import Gpu
from nvshare.core.model import NEVER
from nvshare.core.seat import Seat


class Gangs:
    """All gangs of a node. `touch` makes the present step decide on a GPU."""

    def __init__(self, gpus: Mapping[str, Gpu], touch: Callable[[Gpu], None]) -> None:
        self.all: dict[int, Gang] = {}
        self.deadline = NEVER
        """When something will follow from the passing of time alone."""
        self._gpus = gpus
        self.touch = self._touch = touch
        self._numbers = 0

    # Who belongs together.

    def look_at(self, client: Client) -> bool:
        """At the end of a step in which the client began to wait; true if it has a new member of a gang."""
        seats = {uuid: seat for uuid, seat in client.seats.items() if seat.state in ("staying", "waiting")}
        if len({seat.state for seat in seats.values()}) < 2 or all(seat.gang is not None for seat in seats.values()):
            return False
        self._link(seats)
        for uuid in seats:
            self._touch(self._gpus[uuid])
        return True

    def _link(self, seats: dict[str, Seat]) -> None:
        gang = next((seat.gang for seat in seats.values() if seat.gang is not None), None)
        if gang is None:
            self._numbers += 1
            gang = self.all[self._numbers] = Gang(self._numbers)
        gang.seats = dict(sorted((gang.seats | seats).items()))
        for seat in seats.values():
            seat.gang = gang
        self._even_out_ranks(gang)

    def reranked(self) -> None:
        """Members may have got other ranks."""
        for gang in self.all.values():
            self._even_out_ranks(gang)

    def _even_out_ranks(self, gang: Gang) -> None:
        rank = gang.rank_of(NEVER)
        for uuid, seat in gang.waiting().items():
            self._gpus[uuid].turns.queue.move(seat, rank)

    def unlink(self, now: int, uuid: str, seat: Seat) -> None:
        """The seat takes its own turns from now on."""
        gang = seat.gang
        if gang is None:
            return
        del gang.seats[uuid]
        seat.gang = None
        self._stop_following(now, uuid, seat)
        self._touch(self._gpus[uuid])
        if len(gang.seats) == 1:
            self.unlink(now, *next(iter(gang.seats.items())))
        elif not gang.seats:
            del self.all[gang.number]
            self.deadline = NEVER if not self.all else self.deadline

    def dissolve(self, now: int) -> None:
        for gang in list(self.all.values()):
            for uuid, seat in list(gang.seats.items()):
                self.unlink(now, uuid, seat)

    def member_paused(self, seat: Seat) -> None:
        """All its gang may be idle now."""
        for uuid in () if seat.gang is None else seat.gang.seats:
            self._touch(self._gpus[uuid])

    # Decisions, in the order of a step.

    def decide(self, now: int, out: list[Action]) -> None:
        """Say how far each gang is, and make room for those whose time has come."""
        self.deadline = NEVER
        for gang in self.all.values():
            self._gather(now, gang)
        taken: set[str] = set()
        for gang in sorted(self.all.values(), key=lambda gang: gang.order):
            waiting, stage_before = gang.waiting(), gang.stage
            gang.stage, gang.may_enter = "queued", False
            is_draining = any(seat.state == "dropping" for seat in gang.seats.values())
            if not waiting or is_draining or not taken.isdisjoint(waiting) or not self._are_first(waiting):
                gang.due = None
            else:
                taken.update(waiting)
                self._approach(now, gang, waiting, out)
            if gang.stage != stage_before:
                for uuid in waiting:
                    self._touch(self._gpus[uuid])

    def _gather(self, now: int, gang: Gang) -> None:
        """Those at rest wait if a member wants to work, and no longer."""
        wants = any(seat.state == "waiting" and not seat.follows for seat in gang.seats.values())
        for uuid, seat in gang.seats.items():
            if wants and seat.state == "rest":
                self._gpus[uuid].turns.follow(now, seat)
                self._touch(self._gpus[uuid])
            elif not wants:
                self._stop_following(now, uuid, seat)

    def _stop_following(self, now: int, uuid: str, seat: Seat) -> None:
        if seat.follows:
            self._gpus[uuid].turns.withdraw(now, seat)
            self._touch(self._gpus[uuid])

    def _are_first(self, waiting: dict[str, Seat]) -> bool:
        return all(
            next(other for other in self._gpus[uuid].turns.queue if other is seat or other.gang is None) is seat
            for uuid, seat in waiting.items()
        )

    def _approach(self, now: int, gang: Gang, waiting: dict[str, Seat], out: list[Action]) -> None:
        gpus = {uuid: self._gpus[uuid] for uuid in waiting}
        due = max(gpu.switch_time(now, waiting[uuid]) for uuid, gpu in gpus.items())
        gang.due = due if gang.due is None else min(gang.due, due)
        when = min(gang.due, max(gpu.available_time(now, waiting[uuid]) for uuid, gpu in gpus.items()))
        if when > now:
            gang.stage = "ready"
            self.deadline = min(self.deadline, when)
            return
        gang.stage = "entering"
        for uuid, gpu in gpus.items():
            gpu.make_way(now, waiting[uuid], out)

    def drop_together(self, now: int, out: list[Action]) -> None:
        """Of those gangs of which a member must drop its lock, the others must too if somebody waits for theirs."""
        for gang in list(self.all.values()):
            if gang.dropped is None:
                continue
            cause, gang.dropped = gang.dropped, None
            if cause == "quantum":
                self._leave_out_the_idle(now, gang)
            for uuid, seat in gang.seats.items():
                gpu = self._gpus[uuid]
                if seat.state == "staying" and any(other.gang is not gang for other in gpu.turns.queue):
                    gpu.turns.preempt(now, seat, cause, out)
                    self._touch(gpu)
            gang.dropped = None

    def _leave_out_the_idle(self, now: int, gang: Gang) -> None:
        holding = {uuid: seat for uuid, seat in gang.seats.items() if seat.lock}
        if any(seat.idle_since is None for seat in holding.values()):
            for uuid, seat in holding.items():
                if seat.idle_since is not None and 2 * (now - seat.idle_since) > now - seat.held_since:
                    self.unlink(now, uuid, seat)

    def even_out_quanta(self, now: int) -> None:
        """The quantum of a gang that came in is the longest of those of its GPUs."""
        for gang in self.all.values():
            if gang.may_enter:
                began = [self._gpus[uuid].turns for uuid, seat in gang.seats.items() if seat.lock]
                began = [turns for turns in began if turns.timer_started == now]
                for turns in began:
                    turns.set_least_quantum(max(turns.quantum_ns for turns in began))

    def open(self) -> None:
        """Which gangs come in: those that find room at all GPUs."""
        for gang in self.all.values():
            waiting = gang.waiting() if gang.stage == "entering" else {}
            gang.may_enter = bool(waiting) and all(self._gpus[uuid].has_room(seat) for uuid, seat in waiting.items())
            if gang.may_enter:
                for uuid in waiting:
                    self._touch(self._gpus[uuid])

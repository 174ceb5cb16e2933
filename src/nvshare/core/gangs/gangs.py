"""Gangs: locks on several GPUs that are granted and dropped together (docs/decisions/0011-gang-turns.md).

Which seats belong together is learned. Seats of one client are linked when the client waits at one of them while it
holds another. A seat leaves the gang after a turn in which it was idle without interruption for more than half of the
time while another one worked, when its last context is destroyed, and with its client.

While a member waits:

    followers   members at rest wait too: a request at one GPU is a request at all GPUs of the gang
    queued      a client that is no member is ahead of a member, or a member still drains. Clients behind the gang may
                get its GPUs
    ready       the gang is first at all GPUs at which it waits. It is admitted when each of them is available: the
                quantum is over, or idle or outranked holders leave. That is at the latest `due`, the end of the quanta
                that ran when it became ready. Until then its GPUs make no switch for others, but admit clients that fit
    entering    clients leave at all its GPUs; once there is room at each, it gets all locks in one step, by UUID

A member that fits without a switch is admitted at once, as every client. When a member must drop its lock, all members
at whose GPUs another client waits must drop theirs, in the same step.

Jobs. Processes of one group that use collectives (CollectivesUsed) are a gang too, with one seat at each GPU: one that
has a lock or waits for one. Their kernels wait for each other, so they hold all locks or none: no member is admitted
before the others, and all drop their locks, whether a client waits or not. How they release them: gangs.departure.

No deadlock: locks for which others must leave are granted all or none, and of all waiting gangs the one with the lowest
rank is passed only by clients before it."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from nvshare.core.actions import Action, LetOne
from nvshare.core.client import Client
from nvshare.core.gangs.collectives import Collectives
from nvshare.core.gangs.departure import Departure, can_let
from nvshare.core.gangs.gang import Gang, one_less
from nvshare.core.gpu import Gpu
from nvshare.core.model import NEVER
from nvshare.core.turns.seat import Seat

MAX_OF_ACCOUNT = 32
"""A step at a GPU of a gang looks at all gangs. The clients of an account that has more take their own turns."""


class Gangs:
    """All gangs of a node. `touch` makes the present step decide on a GPU."""

    def __init__(self, gpus: Mapping[str, Gpu], touch: Callable[[Gpu], None]) -> None:
        self.all: dict[int, Gang] = {}
        self.deadline = NEVER
        """When something will follow from the passing of time alone."""
        self._gpus = gpus
        self.collectives = Collectives()
        self._at = Counter[str]()
        """How many gangs have a member at each GPU."""
        self._of_account = Counter[str]()
        self._touch = touch
        self._withheld: set[str] = set()
        """GPUs at which no client is admitted because a job has not released all its locks."""
        self._numbers = 0

    # Which clients belong together.

    def are_concerned(self, now: int, touched: Iterable[str]) -> bool:
        """Whether something may follow for a gang from a step that has touched these GPUs."""
        return self.deadline <= now or not (self._at.keys() | self._withheld).isdisjoint(touched)

    def look_at(self, now: int, client: Client) -> bool:
        """At the end of a step in which the client began to wait; true if a gang has a new member."""
        job = self.collectives.job_of(client)
        if job:
            return self._link_job(now, job)
        seats = {uuid: seat for uuid, seat in client.seats.items() if seat.state in ("staying", "waiting")}
        if len({seat.state for seat in seats.values()}) < 2:
            return False
        return self._link(next((seat.gang for seat in seats.values() if seat.gang is not None), None), seats)

    def _link_job(self, now: int, job: dict[str, Seat]) -> bool:
        gangs = {gang.number: gang for seat in job.values() if (gang := seat.gang) is not None}
        joined = next((gang for gang in gangs.values() if gang.is_job), None)
        for gang in gangs.values():
            if gang is not joined:  # Of one process.
                self._dissolve(now, gang)
        if not self._link(joined, job):
            return False
        next(gang for seat in job.values() if (gang := seat.gang) is not None).is_job = True
        return True

    def _dissolve(self, now: int, gang: Gang) -> None:
        for uuid, seat in list(gang.seats.items()):
            self.unlink(now, uuid, seat)

    def _link(self, gang: Gang | None, seats: dict[str, Seat]) -> bool:
        """Link those that are in no gang, one at each GPU, to this gang or to a new one. False if there are none."""
        taken = {} if gang is None else gang.seats
        seats = {uuid: seat for uuid, seat in seats.items() if seat.gang is None and uuid not in taken}
        if not seats:
            return False
        if gang is None:
            account = next(iter(seats.values())).account
            if self._of_account[account] == MAX_OF_ACCOUNT:
                return False
            self._numbers += 1
            gang = self.all[self._numbers] = Gang(self._numbers, account)
            self._of_account[account] += 1
        gang.seats = dict(sorted((gang.seats | seats).items()))
        self._at.update(list(seats))
        for uuid, seat in seats.items():
            seat.gang = gang
            self._touch(self._gpus[uuid])
        self._even_out_ranks(gang)
        return True

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
        one_less(self._at, uuid)
        self._stop_following(now, uuid, seat)
        self._touch_gpus((uuid, *gang.seats))
        if gang.departure is not None:
            gang.departure.let.discard(uuid)
        if len(gang.seats) == 1:
            self.unlink(now, *next(iter(gang.seats.items())))
        elif not gang.seats:
            del self.all[gang.number]
            one_less(self._of_account, gang.account)
            if not self.all:  # Nothing is decided any more for gangs.
                self.deadline = NEVER
                self.leave_jobs(now, [])

    def dissolve(self, now: int) -> None:
        for gang in list(self.all.values()):
            self._dissolve(now, gang)

    def note_entered(self, now: int, seat: Seat) -> None:
        """A member of a job no longer waits: the others could not work until now."""
        for uuid, other in seat.gang.seats.items() if seat.gang is not None else ():
            turns = self._gpus[uuid].turns
            if other.client in turns.idle:
                turns.pauses.restarted(now, other)

    def member_paused(self, seat: Seat) -> None:
        """All its gang may be idle now."""
        self._touch_gpus(() if seat.gang is None else seat.gang.seats)

    def _touch_gpus(self, uuids: Iterable[str]) -> None:
        for uuid in uuids:
            self._touch(self._gpus[uuid])

    # Decisions, in the order of a step.

    def decide(self, now: int, out: list[Action]) -> None:
        """Say how far each gang is, and make room for those whose time has come."""
        self.deadline = NEVER
        for gang in self.all.values():
            self._gather(now, gang)
        self.leave_jobs(now, out)
        taken: set[str] = set()
        for gang in sorted(self.all.values(), key=lambda gang: gang.order):
            waiting, stage_before = gang.waiting(), gang.stage
            gang.stage, gang.may_enter = "queued", False
            is_away = gang.is_away(lambda uuid, seat: self._gpus[uuid].turns.no_turns.has_had_enough(seat))
            if not waiting or is_away or not taken.isdisjoint(waiting) or not self._are_first(waiting):
                gang.due = None
            else:
                taken.update(waiting)
                self._approach(now, gang, waiting, out)
            if gang.stage != stage_before:
                self._touch_gpus(waiting)

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

    def leave_jobs(self, now: int, out: list[Action]) -> None:
        """No client is admitted at a job's GPUs before all its locks are released (gangs.departure)."""
        leaving = [gang for gang in self.all.values() if gang.is_job and self._is_leaving(now, gang)]
        withheld = {uuid for gang in leaving for uuid in gang.seats if not self._gpus[uuid].turns.staying}
        for uuid in withheld ^ self._withheld:
            self._gpus[uuid].turns.waits.withhold(on=uuid in withheld)
            self._touch(self._gpus[uuid])
        self._withheld = withheld
        for gang in leaving:
            self._let_through(now, gang, out)

    def _is_leaving(self, now: int, gang: Gang) -> bool:
        dropping = [seat for seat in gang.seats.values() if seat.state == "dropping"]
        if gang.departure is None and dropping:
            gang.departure = Departure(now, max(seat.drop_deadline for seat in dropping))
        if gang.departure is not None and not gang.departure.look(now, len(dropping)):
            gang.departure = None
            self._touch_gpus(gang.seats)  # A client that is held back leaves the queue only now.
        return gang.departure is not None

    def _let_through(self, now: int, gang: Gang, out: list[Action]) -> None:
        departure = gang.departure
        assert departure is not None
        self.deadline = min(self.deadline, departure.ends if now < departure.ends else NEVER)
        due: list[str] = []
        for uuid, seat in gang.seats.items():
            if can_let(seat) and uuid not in departure.let:
                time = departure.let_time(is_withheld=self._gpus[uuid].turns.waits.is_withheld)
                if time <= now:
                    due.append(uuid)
                else:
                    self.deadline = min(self.deadline, time)
        if due:
            out.extend(LetOne(gang.seats[uuid].client, uuid) for uuid in departure.let_through(now, due))
            self.deadline = min(self.deadline, departure.let_time(is_withheld=True))

    def let_finished(self, now: int, gpu: Gpu, seat: Seat) -> None:
        if seat.gang is not None and seat.gang.departure is not None:
            seat.gang.departure.finished(now, gpu.uuid)

    def _are_first(self, waiting: dict[str, Seat]) -> bool:
        return all(
            next(other for other in self._gpus[uuid].turns.queue if other is seat or other.gang is None) is seat
            for uuid, seat in waiting.items()
        )

    def _approach(self, now: int, gang: Gang, waiting: dict[str, Seat], out: list[Action]) -> None:
        gang.stage = "ready"  # It is the next client, so quanta depend on it.
        at = [(self._gpus[uuid], seat) for uuid, seat in waiting.items()]
        due = max(gpu.switch_time(now, seat) for gpu, seat in at)
        gang.due = due if gang.due is None else min(gang.due, due)
        outranks = not any(gpu.may_block(seat) for gpu, seat in at)
        when = min(gang.due, max(gpu.available_time(now, seat, outranks=outranks) for gpu, seat in at))
        if when > now:
            self.deadline = min(self.deadline, when)
            return
        gang.stage = "entering"
        for gpu, seat in at:
            gpu.make_way_for_gang(now, seat, out, is_due=gang.due <= now)

    def drop_together(self, now: int, out: list[Action]) -> None:
        """If a member of a gang must drop its lock, the others must too if a client waits for their GPUs."""
        for gang in list(self.all.values()):
            if gang.dropped is None:
                continue
            cause = gang.dropped
            if cause == "quantum":
                self._leave_out_the_idle(now, gang)
            for uuid, seat in gang.seats.items():
                gpu = self._gpus[uuid]
                if seat.state == "staying" and (
                    gang.is_job or any(other.gang is not gang for other in gpu.turns.queue)
                ):
                    gpu.turns.preempt(now, seat, cause, out)
                    self._touch(gpu)
            gang.all_told()

    def _leave_out_the_idle(self, now: int, gang: Gang) -> None:
        holding = {uuid: seat for uuid, seat in gang.seats.items() if seat.lock}
        if any(seat.idle_since is None for seat in holding.values()):
            for uuid, seat in holding.items():
                if seat.idle_since is not None and 2 * (now - seat.idle_since) > now - seat.held_since:
                    self.unlink(now, uuid, seat)

    def even_out_quanta(self, now: int) -> None:
        """The quantum of a gang that was admitted is the longest of those of its GPUs."""
        for gang in self.all.values():
            if gang.may_enter:
                began = [self._gpus[uuid].turns for uuid, seat in gang.seats.items() if seat.lock]
                began = [turns for turns in began if turns.timer.started == now]
                for turns in began:
                    turns.timer.set_least(max(turns.timer.quantum_ns for turns in began))

    def open(self) -> None:
        """Which gangs are admitted: those that are first and find room at all GPUs."""
        for gang in self.all.values():
            waiting = gang.waiting() if gang.stage == "entering" else {}
            gang.may_enter = bool(waiting) and all(self._gpus[uuid].may_admit(seat) for uuid, seat in waiting.items())
            if gang.may_enter:
                self._touch_gpus(waiting)

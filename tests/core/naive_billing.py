"""What of a step concerns the bills of policy fair, in the order in which it happens: turns that the event ends, waits
that it begins or ends, moves; then the turns that the core ends and begins."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

from core import gangs
from core.naive_bills import Account, NaiveBills
from core.naive_gpu import NaiveGpu, NaiveSeat
from core.naive_orders import NaiveOrders
from core.naive_use import NaiveUse, Span
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.compute.fair_shares import FairShares
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.gpu import Gpu
from nvshare.core.model import Settings
from nvshare.core.turns.seat import Seat

Change = Literal["from rest", "again", "resumed", "silent", "stopped"]


class NaiveBilling(NaiveOrders):
    """The part of Naive that knows bills. `note_event` is called before the event counts."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.bills: defaultdict[str, NaiveBills] = defaultdict(NaiveBills)
        self.is_scheduling = True
        self.settles_at: int | None = None
        self.event: ev.Event = ev.AlarmRang()
        self.actions: Sequence[ac.Action] = ()
        """Of the present step."""
        self.refused: set[tuple[int, str]] = set()
        """The clients whose late claims the present step refuses."""
        self.waits: list[tuple[str, int, Change]] = []
        """Which waits the event begins or ends, by GPU and client."""
        self.may_follow = self.had_gangs = False
        """There is a gang in this step; there was one at the end of the last one."""
        self.gang_of: dict[Seat, int] = {}
        self.new_members: set[Seat] = set()
        """Which gang each member belongs to; the members that did not belong to it at the end of the last step."""

    def note_event(self, now: int, event: ev.Event) -> None:
        self.event, self.waits = event, []
        for uuid, gpu in self.gpus.items():
            if isinstance(event, ev.SchedulingSwitched) and event.on != self.is_scheduling:
                self.waits += [(uuid, seat.client, "stopped") for seat in gpu.named("waiting", "blocked")]
            elif (seat := gpu.seats.get(getattr(event, "client", 0))) is not None:
                self.waits += [(uuid, seat.client, change) for change in self._changes(event, uuid, seat)]
        if isinstance(event, ev.ClientRegistered) and self.is_scheduling and now >= (self.settles_at or 0):
            late = [claim.gpu for claim in event.claims if claim.lock or claim.unshared]
            self.waits += [(uuid, event.client, "from rest") for uuid in late]

    def _changes(self, event: ev.Event, uuid: str, seat: NaiveSeat) -> list[Change]:
        is_here = getattr(event, "gpu", uuid) == uuid
        waits = seat.state in ("waiting", "blocked")
        match event:
            case ev.LockRequested() if is_here and seat.state == "rest":
                return ["from rest"] if self.is_scheduling else []
            case ev.LockReleased() if is_here and seat.state in ("staying", "dropping") and seat.lock == event.lock:
                return ["again"] if event.again else []
            case ev.LockReleased() if is_here and seat.revoked == event.lock != 0 and not event.again:
                return ["stopped"] if waits else []
            case ev.ClientLeft():
                return ["stopped"] if waits else []
            case ev.ClientSilent():
                if seat.follows:
                    return ["stopped"] if waits else []
                return ["silent"] if seat.state == "waiting" else []
        if seat.state != "silent":
            return []
        return ["resumed" if seat.keeps_rank else "from rest"]

    # At the end of a step.

    def note_bills(self, now: int, uuid: str, gpu: NaiveGpu, real: Gpu, divided: list[Span]) -> None:
        """`divided`: the looks that the step divided."""
        shares, bills, use = real.turns.ranking.fair_shares, self.bills[uuid], self.use(uuid)
        if not isinstance(shares, FairShares):
            bills.follow(real.turns.seats.values())
            return
        if self.has_new_policy:
            bills.restart()
        bills.holders = {one.client for one in use.uses.values() if one.lock}
        for client in gpu.seats:
            bills.accounts.setdefault(client, Account())
        bills.reweigh(use.uses)
        bills.book(divided, use.upto)
        bills.sync_recent(shares)
        self._note_turns(now, uuid, bills, gpu, real)
        for client in bills.accounts.keys() - gpu.seats.keys():
            del bills.accounts[client]
        bills.note_queue(now, is_waited_for=bool(gpu.named("waiting")))
        for seat in real.turns.seats.values():
            bills.check_bill(seat)
            if self.may_follow and gangs.may_be_member(seat):
                bills.take(seat, shares)
            bills.check_tag(seat)
            self._check_rank(gpu.seats[seat.client], seat, bills.accounts[seat.client].handicap)
        bills.check(shares, may_follow=self.may_follow)

    def _note_turns(self, now: int, uuid: str, bills: NaiveBills, gpu: NaiveGpu, real: Gpu) -> None:
        turns = [one for one in self.actions if isinstance(one, ac.EndTurn | ac.GiveLock) and one.gpu == uuid]
        first = [one for one in turns if isinstance(one, ac.EndTurn) and one.end != "revoked"]
        for one in first:
            self._end(now, uuid, bills, one.client)
        if isinstance(self.event, ev.ClientRegistered):
            self._claim(now, uuid, bills, self.event)
        if isinstance(self.event, ev.MemoryMoved) and self.event.gpu == uuid and not self.event.to_host:
            client = self.event.client
            swappable = gpu.swappable(gpu.seats[client])
            bills.moved(now, client, self.use(uuid).uses[client], self.event.took_ns, swappable)
        for where, client, change in self.waits:
            if where == uuid:
                self._wait(now, uuid, bills, client, change)
        for action in turns:
            if isinstance(action, ac.EndTurn) and action not in first:
                self._end(now, uuid, bills, action.client)
        self._note_blocked(now, uuid, bills, gpu, real)
        for action in turns:
            if isinstance(action, ac.GiveLock) and (action.client, uuid) not in self.refused:
                bills.began(now, action.client, self.use(uuid).uses[action.client])

    def _claim(self, now: int, uuid: str, bills: NaiveBills, event: ev.ClientRegistered) -> None:
        """A lock of an earlier scheduler."""
        claims = [claim for claim in event.claims if claim.gpu == uuid and claim.lock]
        if claims and self.is_scheduling and now < (self.settles_at or 0):
            bills.began(now, event.client, self.use(uuid).uses[event.client])

    def _end(self, now: int, uuid: str, bills: NaiveBills, client: int) -> None:
        bills.ended(now, client, self.use(uuid).uses[client], self._undivided(now, uuid))

    def _wait(self, now: int, uuid: str, bills: NaiveBills, client: int, change: Change) -> None:
        use, undivided = self.use(uuid).uses[client], self._undivided(now, uuid)
        if change == "stopped":
            bills.accounts[client].weight = None
        elif change == "silent":
            bills.stops(now, client, use, undivided)
        elif change == "resumed":
            bills.waits_again(now, client, use, undivided)
        else:
            bills.waits(now, client, use, undivided, from_rest=change == "from rest")

    def _note_blocked(self, now: int, uuid: str, bills: NaiveBills, gpu: NaiveGpu, real: Gpu) -> None:
        """A blocked client does not compete, unless it is held back by its weight alone."""
        turns, uses, undivided = real.turns, self.use(uuid).uses, self._undivided(now, uuid)
        back = sorted(gpu.unblocked, key=lambda client: turns.seats[client].ticket)
        for client in [one for one in turns.blocked if gpu.seats[one].state == "blocked"]:
            seat = gpu.seats[client]
            if client not in turns.no_turns.ahead or self.is_paused(uuid, seat) or seat.group in turns.no_turns.over:
                bills.stops(now, client, uses[client], undivided)
            else:
                back.append(client)
        for client in back:
            bills.waits_again(now, client, uses[client], undivided)

    def _undivided(self, now: int, uuid: str) -> int:
        """0, if nothing is known of any client."""
        use = self.use(uuid)
        return max(0, now - use.upto * LOOK_NS) if any(one.is_counted for one in use.uses.values()) else 0

    def _check_rank(self, seat: NaiveSeat, real: Seat, handicap: int) -> None:
        """Not of members of gangs, which may have the rank of another one, nor of clients that were outranked and keep
        one."""
        if real.state == "waiting" and not gangs.may_be_member(real) and not seat.is_outranked:
            assert real.rank == seat.arrived + self.handicap(seat) + handicap, (
                "a rank is arrival, handicap and priority"
            )

    def use(self, uuid: str) -> NaiveUse:
        raise NotImplementedError

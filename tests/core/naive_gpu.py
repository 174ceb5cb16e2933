"""What the naive account knows of one GPU and of each client at it."""

from dataclasses import dataclass, field

from core import naive_room
from nvshare.core import actions as ac
from nvshare.core.model import NO_MEMORY, SECOND, Memory, ModeName, Settings
from nvshare.core.turns.turns import Turns


@dataclass
class NaiveSeat:
    """One client at one GPU."""

    client: int
    priority: int
    group: str = ""
    own_priority: int = 0
    own_weight: int = 100
    """The operator may name others."""
    memory: Memory = NO_MEMORY
    state: str = "rest"
    lock: int = 0
    revoked: int = 0
    deadline: int = 0
    since: int = 0
    arrived: int = 0
    """When it began to wait. `since` is later if it was blocked or silent in between: it kept its rank."""
    ended: int = 0
    """When its last turn did."""
    order: int = 0
    passes: int = 0
    may_have_passes: int = 0
    """How often others passed it, as far as is known, and at most."""
    rank: int | None = None
    """None until it is known: by the account itself, or by the core after the step in which this wait began."""
    is_outranked: bool = False
    """Its lock was taken for a higher priority: it keeps the rank that it had."""
    may_lag: bool = False
    """This wait began in a mode with a lag."""
    contended: bool = False
    told_wait: bool = False
    used: int | None = None
    """What NVML saw of its process; None: nothing."""
    highest: int = 0
    """The most unswappable memory that it reported when it was measured."""
    host_room: int = 1 << 64
    """What the host can take of its memory."""
    resident: int = 0
    """The most of it that is on the card while it has no lock (core.naive_room)."""
    asked_out: int = 0
    """What it was asked to move out with its lock; in `room_asked` in all since its turn; it is waited for until."""
    room_asked: int = 0
    room_due: int = 0
    room_since: int | None = None
    """Since when there is no room for it on the card, in this wait and since a client was admitted. `head_since`: the
    same, but while it was first in the queue, would fit, and nobody dropped a lock."""
    head_since: int | None = None
    held: int = 0
    """What it says it keeps on the host, and in `keep` what it was asked to."""
    keep: int = 0
    working_set: int | None = None
    """What it says that it uses of its memory."""
    is_trusted: bool = True
    """As the core has it; when it may change is checked."""
    distrusted_until: int = 0
    distrusts: int = 0
    turn_of: int = 0
    most: int = 0
    least: int = 0
    has_regrown: bool = False
    keeps_room: bool = False
    """How its use has changed in the turn with this lock, and whether room is kept for it (core.naive_regrowth)."""
    follows: bool = False
    """It waits because another member of its gang does."""
    keeps_rank: bool = False
    """It was silent while it waited, and not because its lock was revoked."""
    late: int | None = None
    """The lock that it claims in this step although the time for claims is over; 0: it says it runs without one."""
    allowance: int = 0
    """What has to be added to the bound of this wait: the list of reasons is in core.modes.mode."""


@dataclass
class NaiveGpu:
    size: int = 0
    measured: bool = False
    stated_sizes: dict[int, int] = field(default_factory=dict)
    foreign: int = 0
    context: int = 0
    grace_ns: int = 0
    mode: ModeName = "auto"
    seats: dict[int, NaiveSeat] = field(default_factory=dict)
    unblocked: set[int] = field(default_factory=set)
    """The clients that were blocked until this step."""
    most_clients: int = 0
    longest_wait_ns: int = 0
    longest_lag_ns: int = 0
    """The core's own bound: the highest that held so far, because a rule may change while clients wait."""
    longest_gang_wait_ns: int = 0
    """The same, if there are gangs."""

    @classmethod
    def of(cls, settings: Settings, mode: ModeName) -> "NaiveGpu":
        return cls(context=settings.context_bytes, mode=mode, grace_ns=settings.grace_ns)

    def state_size(self, client: int, size: int) -> None:
        """Without NVML the size that most clients state counts; 0: it knows none, or has left."""
        self.stated_sizes[client] = size
        sizes = [size for size in self.stated_sizes.values() if size]
        most = max((sizes.count(size) for size in sizes), default=0)
        if not self.measured and sizes.count(self.size) < most:
            self.size = min(size for size in sizes if sizes.count(size) == most)

    def note_gang_wait(self, longest_ns: int) -> None:
        self.longest_gang_wait_ns = max(self.longest_gang_wait_ns, longest_ns)

    def named(self, *states: str) -> list[NaiveSeat]:
        return [seat for seat in self.seats.values() if seat.state in states]

    def taken(self, *states: str) -> int:
        fixed = sum(self.fixed(seat) for seat in self.seats.values())
        return fixed + self.foreign + sum(self.need(seat) for seat in self.named(*states))

    def need(self, seat: NaiveSeat) -> int:
        """What it must have on the card while it runs."""
        is_kept = seat.keeps_room and seat.state in ("staying", "dropping") and seat.turn_of == seat.lock
        if not is_kept:
            return self.used(seat)
        elsewhere = self.reported_swappable(seat) - self.swappable(seat)
        return min(seat.most, max(self.swappable(seat), seat.most - elsewhere))

    def used(self, seat: NaiveSeat) -> int:
        is_believed = seat.working_set is not None and seat.is_trusted
        return min(self.swappable(seat), seat.working_set or 0) if is_believed else self.swappable(seat)

    def own(self, seat: NaiveSeat) -> int:
        """What it uses itself, on the card or on the host."""
        is_believed = seat.working_set is not None and seat.is_trusted
        swappable = self.reported_swappable(seat)
        return min(swappable, seat.working_set or 0) if is_believed else swappable

    def reported_swappable(self, seat: NaiveSeat) -> int:
        return min(seat.memory.swappable, self.size)

    def on_card(self, seat: NaiveSeat) -> int:
        return min(max(0, seat.memory.swappable - min(seat.held, seat.keep)), self.size)

    def swappable(self, seat: NaiveSeat) -> int:
        return self.on_card(seat) - self.pinned(seat)

    def lacking(self, seat: NaiveSeat) -> int:
        """What the host cannot take."""
        return max(0, self.on_card(seat) - max(0, seat.host_room - min(seat.held, seat.keep)))

    def pinned(self, seat: NaiveSeat) -> int:
        """Half of the card is for all of them."""
        if not self.lacking(seat):
            return 0
        clients = sum(self.lacking(other) > 0 for other in self.seats.values())
        return min(self.lacking(seat), self.size // 2 // clients)

    def protected(self, seat: NaiveSeat) -> int:
        return min(self.lacking(seat), self.size // 2)

    def must_wait(self, now: int, seat: NaiveSeat) -> bool:
        """Its turn would evict memory of others that the host cannot take."""
        others = sum(self.protected(other) for other in self.seats.values() if other is not seat)
        stuck = naive_room.stuck(self, now, seat)
        pinned = sum(self.pinned(other) for other in self.seats.values())
        taken = self.taken() - pinned + min(others + stuck, self.size // 2)
        return others > 0 and taken + self.on_card(seat) > self.size - self.card_reserve

    def is_on_card(self, seat: NaiveSeat) -> bool:
        """Those whose memory cannot move and who ran after it leave it on the card."""
        later = [other for other in self.seats.values() if self.pinned(other) and other.ended > seat.ended]
        free = self.size - self.card_reserve - self.taken() + sum(self.pinned(other) for other in self.seats.values())
        return self.pinned(seat) > 0 and (not later or sum(self.on_card(other) for other in [seat, *later]) <= free)

    @property
    def card_reserve(self) -> int:
        return min(max(1 << 30, self.size // 20), self.size // 8)

    def reported(self, seat: NaiveSeat) -> int:
        return seat.memory.unswappable + seat.memory.contexts * self.context

    def fixed(self, seat: NaiveSeat) -> int:
        """Each client is an account of its own here."""
        reported = min(self.reported(seat), self.size)
        bound = self.size if len(self.seats) < 2 else self.size // (2 * len(self.seats))
        if seat.used is None:
            share = max(self.size // len(self.seats), self.context)
            return min(reported, share, bound) + self.pinned(seat)
        growth = max(0, self.reported(seat) - seat.highest)
        counted = min(reported, seat.used + growth)
        backed = min(seat.used, counted)
        return backed + min(counted - backed, bound) + self.pinned(seat)

    def check_thrash(self, now: int, seat: NaiveSeat, factor: int) -> None:
        """A client is sent back because those who run slow each other down."""
        staying = self.named("staying")
        assert len(staying) > 1, "nobody who is alone thrashes"
        assert factor >= 4 * len(staying), "clients that work at the same time share the GPU"
        assert self.taken() + sum(self.swappable(other) for other in staying) > self.size, "it may be the memory"
        assert self.need(seat) < self.swappable(seat), "only a working set can be wrong"
        seat.distrusted_until = now + min(64, 1 << seat.distrusts) * 60 * SECOND
        seat.distrusts += 1

    def note_trust(self, now: int, real: Turns) -> None:
        for seat in self.seats.values():
            is_trusted = real.seats[seat.client].is_trusted
            is_over = now >= seat.distrusted_until
            assert is_over if is_trusted else not (is_over and seat.is_trusted), "distrust lasts for a while"
            seat.is_trusted = is_trusted

    def check_capacity(self, action: ac.TellCapacity) -> None:
        others = sum(self.fixed(seat) for seat in self.seats.values() if seat.client != action.client)
        assert action.room == max(0, self.size - self.card_reserve - self.foreign - others), (
            "the room is what others leave"
        )
        assert action.context_bytes == self.context

    def block(self, now: int, action: ac.ReportBlocked, rank: int | None) -> None:
        seat, holder = self.seats[action.client], self.seats[action.holder]
        assert (seat.state, self.must_wait(now, seat)) == ("waiting", True), "a client that could run is not blocked"
        others = [self.protected(other) for other in self.seats.values() if other is not seat]
        assert action.protected == self.protected(holder) == max(others)
        seat.state, seat.rank = "blocked", rank

    def unblock(self, now: int, real: Turns, last_order: int) -> int:
        """Those whom the core no longer blocks wait again, behind all of the same rank; the time so far does not
        count. The last order that was given."""
        unblocked = [seat for seat in self.named("blocked") if real.seats[seat.client].state != "blocked"]
        self.unblocked = {seat.client for seat in unblocked}
        for order, seat in enumerate(sorted(unblocked, key=lambda seat: real.seats[seat.client].ticket), 1):
            may_run = self.is_on_card(seat) or not self.must_wait(now, seat)
            assert may_run, "a blocked client waits until the host has room, or runs if it evicts nothing"
            seat.state, seat.order = "waiting", last_order + order
            for other in self.seats.values():
                other.allowance += now - seat.since
        return last_order + len(unblocked)

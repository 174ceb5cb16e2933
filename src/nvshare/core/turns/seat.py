"""A seat: one client at one GPU, and its states.

    rest        has no lock and needs none
    waiting     is in the queue, ordered by `rank`
    staying     runs: holds the lock `lock` and may keep it
    dropping    runs, but was told to release `lock` by `drop_deadline`
    silent      is in no queue, so it costs the others no turns: its process sends nothing, because it was stopped or
                hangs. Either its lock was revoked, or it waited and keeps its rank. Any message makes it wait again
    blocked     waits, but is in no queue: its turn would evict memory that the host cannot take, it is paused, or it
                has used its share of GPU time (queue.blocking). It keeps its rank

TRANSITIONS lists every cause of a change, and from which states it leads to which. core.turns makes the changes; one
that is not in the table is a bug and raises KeyError. A client whose turn ends while it has more work goes to `rest`
and from there, in the same step, to `waiting` or `silent`."""

from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from nvshare.core.compute.recent_use import RecentUse
from nvshare.core.limits.groups import Group
from nvshare.core.model import GIB, NO_MEMORY, UNLIMITED, ProcessMemory
from nvshare.record import Record

if TYPE_CHECKING:
    from nvshare.core.compute.looks import Looks
    from nvshare.core.gangs.gang import Gang

State = Literal["rest", "waiting", "staying", "dropping", "silent", "blocked"]
Cause = Literal["claim", "request", "withdraw", "admit", "preempt", "end", "silence", "block", "unblock"]

TRANSITIONS: dict[Cause, dict[State, State]] = {
    "request": {"rest": "waiting", "silent": "waiting"},
    "withdraw": {"waiting": "rest", "silent": "rest", "blocked": "rest"},
    "admit": {"waiting": "staying"},
    "claim": {"rest": "staying"},
    "preempt": {"staying": "dropping"},
    "end": {"staying": "rest", "dropping": "rest"},
    "silence": {"rest": "silent", "waiting": "silent"},
    "block": {"waiting": "blocked"},
    "unblock": {"blocked": "waiting"},
}

PAUSES_KEPT = TURNS_KEPT = 5
"""How many of a client's pauses and turns are remembered."""


class Moved(Record, frozen=True):
    """What a client has moved between the host and one GPU, in all."""

    in_bytes: int = 0
    in_ns: int = 0
    out_bytes: int = 0
    out_ns: int = 0

    def plus(self, moved: int, took_ns: int, *, to_host: bool) -> "Moved":
        if to_host:
            return replace(self, out_bytes=_sum(self.out_bytes, moved), out_ns=_sum(self.out_ns, took_ns))
        return replace(self, in_bytes=_sum(self.in_bytes, moved), in_ns=_sum(self.in_ns, took_ns))


def _sum(a: int, b: int) -> int:
    """Clients say what they moved, so the sum may be anything; JSON has 64 bits for it."""
    return min(a + b, (1 << 63) - 1)


class Seat:
    """One client at one GPU. core.turns changes its state, memory.memory_reports its memory."""

    pauses: tuple[int, ...]
    last_turns: tuple[int, ...]
    working_set: int | None
    understands_expected_start: bool
    """It understands TellExpectedStart."""
    is_suspended: bool
    """Memory mode checkpoint: it suspends itself before it releases a lock, and has nothing on the card then."""
    crowded_when_left: int | None
    """How many steps there had been in which not all fitted, when its last turn ended (memory.moves); None if it was
    asked to move memory out."""
    rank: int | None
    kept_rank: int | None
    """Of a blocked seat, or a silent one that waited: the rank with which it will wait again."""
    won_rank: int | None
    """With which its turn began; `outranked_rank` is its aged rank if its lock is taken for a higher priority
    (queue.preemption)."""
    outranked_rank: int | None
    ticket: int
    passes: int
    """`ticket`: the order of arrival among equal ranks. `passes`: how often others overtook it in this wait, since
    `first_passed` (queue.admission)."""
    last_ran: int
    """When its last turn ended."""
    gpu_ns: int
    looks: "Looks | None"
    """For how long its work kept the GPU busy; `looks` is what is not counted yet (compute.gpu_time)."""
    bill_ns: int
    """Policy fair: what it was billed. `billed_ns`: the part of it that its tag contains. `turn_bill_ns`: the bill when
    its last turn began (compute.turn_bills)."""
    credit_ns: int
    lent_ns: int
    """What its moves have made its bill less since another client had a turn. `lent_ns`: the part of it that is not
    covered by divided looks yet. These begin with look `lent_from`, and the last ones end at `lent_until`."""
    owed_until: int
    """Policy fair: when it ceased to compete, plus by how much it had had less than its share then (negative: more)."""
    tag: int
    """Policy fair: bill * 100 / weight (compute.fair_shares)."""
    handicap: int
    """Policy fair: by how much this wait counts as begun later; negative: earlier."""
    lag_ns: int
    """What the mode added to its rank when it began to wait."""
    most_needed: int
    least_needed: int
    has_regrown: bool
    keeps_room: bool
    """The most that it used in this turn, and the least since then; whether that has risen again; whether room is kept
    for it (memory.regrowth)."""
    makes_room: bool
    resident: int
    room_asked: int
    room_due: int
    room_until: int
    """`makes_room`: it moves memory out also without a lock. `resident`: the most that is on the card while it has no
    lock. `room_asked`: how much it was asked to move out since its last turn. `room_due`: until when its answer is
    waited for; 0 if none is. `room_until`: until when it waits for others to make room; 0 if it does not
    (memory.card_room)."""
    backed: int
    unbacked: int
    """Of its unswappable memory that counts: what is measured or pinned, and what only it says."""
    account: str
    """The account that its connection belongs to: a pod, container or user (queue.wait_queue)."""

    __slots__ = (
        "account", "asked_out", "backed", "bill_ns", "billed_ns", "client", "credit_ns", "crowded_when_left",
        "distrusts", "drop_deadline", "first_passed", "fixed", "follows", "gang", "gpu_ns", "group", "handicap",
        "has_regrown", "held_bytes", "held_since", "held_total", "holds_memory", "host_room", "idle_since",
        "is_suspended", "is_trusted", "keep_asked", "keeps_room", "kept_rank", "lacking", "lag_ns", "last_ran",
        "last_scheduled", "last_turns", "least_needed", "lent_from", "lent_ns", "lent_until", "limit", "lock", "looks",
        "makes_room", "measured", "memory", "most_needed", "moved", "moves_memory", "need", "not_moving",
        "outranked_rank", "owed_until", "passes", "pauses", "pid", "pinned", "priority", "protected", "rank", "recent",
        "reported", "resident", "revoked", "room_asked", "room_due", "room_until", "siblings", "state", "tag", "ticket",
        "told_capacity", "told_wait", "turn_bill_ns", "turns", "unbacked", "understands_expected_start", "waited_since",
        "waited_total", "weight", "won_rank", "working_set",
    )  # fmt: skip

    def __init__(self, client: int, priority: int, weight: int, group: Group | None = None) -> None:
        self.client, self.account, self.pid = client, "", 0
        self.siblings: dict[str, Seat] = {}
        """All seats of this client by GPU, this one among them."""
        self.gang: Gang | None = None
        self.follows = self.told_wait = False
        """It waits only because another member of its gang does; it was told that it waits (QueueClient)."""
        self.group, self.priority, self.weight = group, priority, weight
        self.reported = self.memory = NO_MEMORY
        """What the client says, and in `memory` what counts of it (memory.memory_reports)."""
        self.fixed = self.limit = self.backed = self.unbacked = 0
        """What it says it has of unswappable memory with contexts; its group's limit when that last changed."""
        self.measured: ProcessMemory | None = None
        self.host_room, self.lacking, self.pinned, self.protected = UNLIMITED, 0, 0, 0
        """How much of its memory the host can take and cannot; how much counts as unswappable, and is protected."""
        self.working_set, self.is_trusted, self.distrusts, self.need = None, True, 0, 0
        """How much it says that it uses of its memory; if that counts, how often it did not; what it needs."""
        self.told_capacity: tuple[int, int] | None = None
        """What the client was last told that it may use, and what a context takes of it."""
        self.state: State = "rest"
        self.lock = self.held_since = self.drop_deadline = self.turns = self.held_total = self.waited_total = 0
        self.revoked = 0
        """The number of a lock that was revoked and has not been released since."""
        self.rank = self.kept_rank = self.won_rank = self.outranked_rank = self.crowded_when_left = None
        self.ticket = self.waited_since = self.passes = self.first_passed = self.last_ran = 0
        self.idle_since: int | None = None
        """When the work of a staying client had all finished; None while it works. It outlasts the
        lock: the pause ends when the client works again or asks for a lock."""
        self.pauses = self.last_turns = ()
        """The lengths of the last pauses between two stretches of work, and of the last turns."""
        self.moves_memory, self.not_moving, self.asked_out, self.moved = False, "", 0, Moved()
        """It moves memory when asked; why not; what it was asked for with the lock that it drops; what it has moved."""
        self.holds_memory, self.keep_asked, self.held_bytes = False, 0, 0
        """It keeps memory on the host when asked; how much it was asked to; how much it says it does."""
        self.understands_expected_start = self.makes_room = self.is_suspended = False
        self.has_regrown = self.keeps_room = False
        self.resident = self.room_asked = self.room_due = self.room_until = self.credit_ns = self.lent_ns = 0
        self.bill_ns = self.billed_ns = self.turn_bill_ns = self.lag_ns = self.gpu_ns = self.tag = self.handicap = 0
        self.last_scheduled: int | None = None
        self.looks, self.recent, self.lent_from, self.lent_until, self.owed_until = None, RecentUse(), 0, 0, 0

    @property
    def is_waiting(self) -> bool:
        return self.state == "waiting"

    @property
    def is_entering(self) -> bool:
        """Room is being made for its gang (core.gangs)."""
        return self.gang is not None and self.gang.stage == "entering"

    @property
    def enters_with_gang(self) -> bool:
        """It gets no lock before all of its gang can (core.gangs)."""
        return self.gang is not None and self.gang.is_job

    @property
    def is_needed_elsewhere(self) -> bool:
        """The client waits at the gate of another GPU, or its gang works: to have no work here is no pause."""
        if any(seat.state == "waiting" for seat in self.siblings.values()):
            return True
        return self.gang is not None and not self.gang.is_idle

    @property
    def leaves_card(self) -> bool:
        """All its memory, contexts included, is off the card while it has no lock. One that did not release its lock in
        time may still be there."""
        return self.is_suspended and not self.revoked

    @property
    def kept(self) -> int:
        """What counts of the memory that it keeps on the host."""
        return min(self.held_bytes, self.keep_asked)

    def aged_rank(self, at: int, move_ns_per_gib: int) -> int | None:
        """Of a running client: the rank of its turn, later by the time for which it had been served. That does not
        count as waiting, but the time in which its memory was moved in does. None if it runs without having waited."""
        if self.won_rank is None:
            return None
        return self.won_rank + max(0, at - self.held_since - self.need * move_ns_per_gib // GIB)

    def held_ns(self, now: int) -> int:
        """For how long the client has held locks in all, and in `waited_ns` waited for them."""
        return self.held_total + (now - self.held_since if self.lock else 0)

    def waited_ns(self, now: int) -> int:
        return self.waited_total + (now - self.waited_since if self.state in ("waiting", "blocked") else 0)

    def pause_ended(self, pause_ns: int) -> None:
        self.pauses = (*self.pauses[1 - PAUSES_KEPT :], pause_ns)

    def turn_ended(self, held_ns: int) -> None:
        self.held_total += held_ns
        self.last_turns = (*self.last_turns[1 - TURNS_KEPT :], held_ns)

    @property
    def usual_pause(self) -> int | None:
        """The median, the lower one of two: one long break does not turn short pauses into long ones."""
        return sorted(self.pauses)[(len(self.pauses) - 1) // 2] if self.pauses else None

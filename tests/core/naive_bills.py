"""What clients of one GPU are billed with policy fair, as the naive account counts it (docs/decisions/0017): look by
look, over all clients, from what went into the core and which turns came out.

    bill      Σ parts of looks - time of moves
    tag       Σ what was billed until each turn ended * 100 / weight
    rank      arrival + handicap - 30 s * priority (core.naive)

All of it is exact, but for how much of the past counts as recent. After RECENT_LOOKS the core forgets a half, where a
block of looks ends; and of the time in which nobody holds a lock it counts some. So this is taken from it, within
bounds. So are tags of members of gangs: they may wait for a moment
in a step, because of other GPUs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from core.naive_use import Span, Use
from nvshare.core.compute.fair_shares import FairShares
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.compute.turn_bills import RECENT_LOOKS
from nvshare.core.model import GIB, SECOND
from nvshare.core.turns.seat import Seat

MOST_NS = 900 * SECOND
MOVE_NS_PER_GIB = SECOND // 2
LEAST_RECENT_LOOKS, MOST_STRETCHED = 1000, 64


@dataclass
class Account:
    """Of one client."""

    bill: int = 0
    contained: int = 0
    """What its tag contains of the bill. More than the bill, if the last looks of a turn were less busy."""
    turn_bill: int = 0
    """The bill when its turn began."""
    held_since: int = 0
    ended: int | None = 0
    """When its last turn did; None while it has one."""
    credit: int = 0
    """What moves have made its bill less since another client had a turn. `lent`: for which part of it the looks of the
    turn until the report, which are those from `lent_from` to `lent_until`, are not divided."""
    lent: int = 0
    lent_from: int = 0
    lent_until: int = 0
    tag: int = 0
    handicap: int = 0
    owed: int = 0
    owed_at: int = 0
    """What it was owed when it last ceased to compete. What it rests for is taken from it."""
    weight: int | None = None
    """While it competes: waits, runs, or is held back by its weight; else None."""
    is_rested: bool = False
    """It had been at rest before it began to wait."""
    due: list[str] = field(default_factory=list)
    """Of what its bill consists in this step."""

    @property
    def open(self) -> int:
        return self.bill - self.contained


class NaiveBills:
    """Of one GPU, while the policy is fair."""

    def __init__(self) -> None:
        self.accounts: dict[int, Account] = {}
        self.waited: list[tuple[int, int]] = []
        """The looks at which a client waited; in `waits_from` since when one waits."""
        self.waits_from: int | None = None
        self.holders: set[int] = set()
        self.last_began = 0
        self.virtual = 0
        """The highest mean when a turn ended."""
        self.passed = self.paid = 0
        """Recent looks at which a client waited, and how many of them were billed."""
        self.upto = 0
        self.is_recent_known, self.unsure = True, 0
        """`unsure`: how many looks at which a client waited and nobody held a lock were divided in this step. The core
        counts those at which something is known of a client."""

    def restart(self) -> None:
        """The policy is new."""
        self.waited, self.waits_from, self.virtual, self.passed, self.paid, self.last_began = [], None, 0, 0, 0, 0
        for one in self.accounts.values():
            one.contained = one.turn_bill = one.bill
            one.tag = one.handicap = one.lent = one.owed = one.owed_at = 0

    def follow(self, seats: Iterable[Seat]) -> None:
        """At the end of a step with another policy."""
        self.accounts = {}
        for seat in seats:
            competes = seat.lock or seat.state == "waiting"
            one = Account(seat.bill_ns, held_since=seat.held_since, credit=seat.credit_ns)
            one.ended = None if seat.lock else seat.last_ran
            one.weight = max(1, seat.weight) if competes else None
            self.accounts[seat.client] = one

    def reweigh(self, uses: Mapping[int, Use]) -> None:
        """A new weight counts from now on."""
        for client, one in self.accounts.items():
            one.weight = None if one.weight is None else uses[client].counted_weight

    # Looks that are divided.

    def book(self, spans: list[Span], upto: int) -> None:
        self.is_recent_known = self.passed + sum(self._waited_in(span) for span in spans) <= RECENT_LOOKS
        self.unsure = 0
        for span in spans:
            self._bill(span)
            waited = self._waited_in(span)
            self.passed += waited if span.busy or span.held else 0
            self.unsure += 0 if span.busy or span.held else waited
            self.paid += waited if span.busy or span.idle else 0
        self.upto = max(self.upto, upto)
        self.waited = [(begin, end) for begin, end in self.waited if end > upto]
        for one in self.accounts.values() if spans else ():
            if one.lent and upto >= one.lent_until:  # The looks until the report cover no more of it.
                self._credit(one, -one.lent)
                one.lent = 0
                one.due.append("move")

    def _bill(self, span: Span) -> None:
        billed, looks = (span.busy, span.end - span.first) if span.busy else (span.idle, self._waited_in(span))
        for use in billed if looks else ():
            one = self.accounts.get(use.client)
            if one is None or use.has_left:
                continue
            one.bill += looks * (LOOK_NS // len(billed))
            one.due.append("work" if span.busy else "idleness")
            covering = min(span.end, one.lent_until) - max(span.first, one.lent_from)
            if one.lent and span.busy and covering > 0:
                one.lent -= min(one.lent, covering * (LOOK_NS // len(billed)))

    def _waited_in(self, span: Span) -> int:
        waited = [*self.waited, *([] if self.waits_from is None else [(self.waits_from, span.end)])]
        return sum(max(0, min(end, span.end) - max(begin, span.first)) for begin, end in waited)

    def note_queue(self, now: int, *, is_waited_for: bool) -> None:
        """At the end of a step."""
        look = -(-now // LOOK_NS)
        if is_waited_for and self.waits_from is None:
            self.waits_from = look
        elif not is_waited_for and self.waits_from is not None:
            self.waited.append((self.waits_from, look))
            self.waits_from = None

    # What happens to a client.

    def began(self, now: int, client: int, use: Use) -> None:
        one = self.accounts[client]
        self.holders.add(client)
        one.held_since, one.ended = now, None
        if one.weight is None:
            one.weight = use.counted_weight
        one.turn_bill = self._estimate(now, one, use)
        if self.last_began != client:
            self.last_began, one.credit = client, 0

    def ended(self, now: int, client: int, use: Use, undivided: int) -> None:
        self.accounts[client].ended = now
        self.stops(now, client, use, undivided)
        self.holders.discard(client)

    def stops(self, now: int, client: int, use: Use, undivided: int) -> None:
        """It competes no more: its turn ended, or it is blocked or silent."""
        one = self.accounts[client]
        if one.weight is None:
            return
        self.virtual = max(self.virtual, self._mean(undivided))
        one.weight = None
        self._book(now, one, use)
        one.owed, one.owed_at = min(self._behind(one, undivided), MOST_NS), now

    def _behind(self, one: Account, undivided: int) -> int:
        """By how much it has had less than its share."""
        others = self._total()
        return -((one.tag - self._mean(undivided + one.open)) * others // 100) if others else 0

    def waits(self, now: int, client: int, use: Use, undivided: int, *, from_rest: bool) -> None:
        one = self.accounts[client]
        one.is_rested = from_rest
        if from_rest:
            self._book(now, one, use)
        others = self._total()
        if others:
            mean = self._mean(undivided + one.open)  # Its tag contains its own part of the looks that are not divided.
            owed = max(0, one.owed - (now - one.owed_at)) if from_rest else MOST_NS
            lead = max(-owed, min((one.tag - mean) * others // 100, MOST_NS))
            one.tag, one.handicap = mean + lead * 100 // others, self._stretched(lead)
        else:
            one.tag, one.handicap = max(one.tag, self.virtual), 0
        one.weight = use.counted_weight

    def waits_again(self, now: int, client: int, use: Use, undivided: int) -> None:
        """With the rank that it had, after it was blocked or silent."""
        one = self.accounts[client]
        if one.weight is not None:
            return
        self._book(now, one, use)
        others = self._total()
        owed = max(0, one.owed - (now - one.owed_at)) * 100 // others if others else 0
        least = self._mean(undivided + one.open) - owed if others else self.virtual
        one.tag = max(one.tag, least)
        one.weight = use.counted_weight

    def moved(self, now: int, client: int, use: Use, took_ns: int, swappable: int) -> None:
        one = self.accounts[client]
        took_ns = min(took_ns, now - one.held_since) // max(1, len(self.holders))
        most = swappable * MOVE_NS_PER_GIB // GIB - one.credit
        credit = max(0, min(took_ns, most, self._estimate(now, one, use) - one.turn_bill))
        divided = max(0, one.bill + one.lent - one.turn_bill)
        if credit > divided:
            one.lent_from = one.lent_from if one.lent else -(-one.held_since // LOOK_NS)
            one.lent += credit - divided
            one.lent_until = -(-(now if one.ended is None else one.ended) // LOOK_NS)
        one.credit += credit
        paid = self.paid
        self._credit(one, credit)
        if not self.is_recent_known:  # What was taken from the core contains it.
            self.paid = paid
        one.due.append("move")

    def _credit(self, one: Account, credit: int) -> None:
        one.bill -= credit
        self.paid -= credit // LOOK_NS

    def _estimate(self, now: int, one: Account, use: Use) -> int:
        """The bill, if it shares the looks that are not divided with those who hold locks now."""
        looks = use.busy_looks(self.upto, now // LOOK_NS)
        return one.bill + max(looks * LOOK_NS // max(1, len(self.holders)), one.lent)

    def _book(self, now: int, one: Account, use: Use) -> None:
        more = self._estimate(now, one, use) - one.contained
        one.contained += more
        one.tag += more * 100 // use.counted_weight

    def _total(self) -> int:
        return sum(one.weight for one in self.accounts.values() if one.weight is not None)

    def _mean(self, undivided: int) -> int:
        """Of the tags of all who compete, weighted by the weights; looks that are not divided count as busy."""
        tags = sum(one.weight * one.tag + 100 * one.open for one in self.accounts.values() if one.weight is not None)
        return (tags + 100 * undivided) // self._total()

    def _stretched(self, lead: int) -> int:
        passed, paid = (max(0, looks) + LEAST_RECENT_LOOKS for looks in (self.passed, self.paid))
        handicap = lead * min(max(passed, paid), MOST_STRETCHED * paid) // paid
        return max(-MOST_NS, min(handicap, MOST_NS))

    # What must hold.

    def sync_recent(self, real: FairShares) -> None:
        bills = real._bills
        if self.is_recent_known:
            assert self.passed <= bills._passed <= self.passed + self.unsure, "time in which clients waited counts"
            self.passed = bills._passed
        else:
            assert bills._passed <= self.passed + self.unsure, "the past is forgotten"
            self.passed, self.paid = bills._passed, bills._paid

    def take(self, seat: Seat, real: FairShares) -> None:
        """As the core has it."""
        one = self.accounts[seat.client]
        one.tag, one.handicap, one.contained = seat.tag, seat.handicap, seat.billed_ns
        one.owed, one.owed_at = seat.owed_until, 0
        one.turn_bill, one.weight = seat.turn_bill_ns, real._members.get(seat.client, (None, 0))[0]

    def check_bill(self, seat: Seat) -> None:
        one = self.accounts[seat.client]
        due, one.due = one.due, []
        assert one.credit == seat.credit_ns, "a move is worth half a second for each GiB, once"
        is_right = one.bill == seat.bill_ns
        assert is_right or "move" not in due, "the time of a move is billed to nobody"
        assert is_right or "idleness" not in due, "an idle holder is billed while others wait, and only then"
        assert is_right, "a client that was busy at a look is billed an equal part of it"

    def check_tag(self, seat: Seat) -> None:
        one = self.accounts[seat.client]
        assert abs(seat.handicap) <= MOST_NS, "a handicap is within 900 s"
        assert one.contained == seat.billed_ns, "a tag contains what was billed until the turn ended"
        assert one.tag <= seat.tag or not one.is_rested, "time at rest is not saved up"
        assert one.tag == seat.tag, "a tag grows by bill * 100 / weight"
        assert one.handicap == seat.handicap, "a client that is ahead of its share waits until it is not"

    def check(self, real: FairShares, *, may_follow: bool) -> None:
        if may_follow:
            self.virtual = real._virtual
        assert self.virtual == real._virtual, "the right tag is the mean of all tags"
        if self.is_recent_known:
            assert self.paid == real._bills._paid, "what was billed of the time in which clients waited is known"

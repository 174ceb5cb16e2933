"""Which clients of one GPU are held back because they have had enough of its time (docs/decisions/0034).

    core limit      a group that owes more than its limit allows (compute.core_cap): all its clients
    weight          policy fair, among clients that run side by side: those that are ahead of their weight by more
                    than `most_lead_ns` (compute.weighted_time), while another running client has work; not members
                    of gangs

A client that is held back drops its lock, cause `share`. It is blocked when it requests the lock again: it sleeps at
its gate, in no queue, with its rank, until its debt is repaid, its lead is gone, or (weight) no other client is busy.

Exception: if a client that does not fit beside the others would take its place, no client is held back before the
quantum is over: memory would move for a fraction of a second. The debt of the turn is repaid in turns of others."""

from collections.abc import Iterable
from heapq import nsmallest
from typing import Literal

from nvshare.core.actions import Action
from nvshare.core.compute.check_pace import LEAST_STEP_NS, MOST_GROUPS, MOST_STEP_NS, crowd_pause_ns
from nvshare.core.compute.core_cap import MOST_AHEAD_NS, MOST_DEBT_NS, CoreCap
from nvshare.core.compute.gpu_time import Chunk
from nvshare.core.compute.kept_time import KeptTime
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.compute.weighted_time import WeightedTime, most_lead_ns
from nvshare.core.limits.groups import Group
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import NEVER, SECOND
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns

MOST_UNDIVIDED_NS = 10 * SECOND
"""While there are core limits, looks are divided up at least so often: many at once take long."""

LEAST_PRUNED = 64


class ComputeShares:
    """Decides on one GPU; compute.no_turns stores which clients are held back, and queue.blocking blocks them."""

    def __init__(self, turns: Turns, memory: MemoryPlanner) -> None:
        self._turns = turns
        self._memory = memory
        self._caps: dict[str, CoreCap] = {}
        """By group, of groups with clients here; `_dormant`: of groups that may come back."""
        self._dormant: dict[str, CoreCap] = {}
        self._kept_time = KeptTime(turns, self._caps)
        self._weighted: WeightedTime | None = None
        """None while weights decide nothing."""
        self._prune_at = LEAST_PRUNED
        self.deadline = NEVER
        self._looked: tuple[int, object] = -LEAST_STEP_NS, None
        """When debts and leads were last checked, and which clients ran and were held back then."""
        self.is_active = False
        """There are core limits, or weights may decide; otherwise there is nothing to decide."""
        self.policy_changed()

    @property
    def capped(self) -> Iterable[str]:
        """For tests: the groups with clients here that have a core limit."""
        return self._caps.keys()

    def policy_changed(self) -> None:
        self._note_activity()

    def set_limit(self, now: int, group: Group, percent: int) -> None:
        """0: none."""
        self._looked = self._looked[0], None
        if not percent:
            self._retire(now, group)
            return
        if group.key not in self._caps and not self._has_clients(group):
            return  # Others have its limit, because they share a claim.
        cap = self._caps.get(group.key) or self._dormant.pop(group.key, None)
        if cap is None:
            self._caps[group.key] = CoreCap(now // LOOK_NS + 1, percent, group)
        else:
            if group.key not in self._caps:  # What it owes is looked at before it gets a lock.
                self._turns.no_turns.hold_group(group.key)
                cap.is_over = True
                cap.begin = now // LOOK_NS + 1  # Not what its clients used without a limit.
            self._turns.gpu_time.divide(now)
            cap.set_percent(self._turns.gpu_time.upto, now // LOOK_NS + 1, percent)
            cap.group = group  # The group may have been forgotten meanwhile.
            self._caps[group.key] = cap
        self._note_activity()
        self._turns.waits.moved.add(group.key)

    def held_back_ns(self, now: int, seat: Seat) -> int | None:
        """After which time a client goes on that is blocked by its core limit; None: it is not."""
        if held_back_by(self._turns, seat) != "core limit" or seat.group is None:
            return None
        return max(0, self._caps[seat.group.key].free_at - now)

    def left(self, now: int, seat: Seat) -> None:
        self._turns.no_turns.release_client(seat.client)
        if self._weighted is not None:
            self._weighted.left(seat.client)
        if self._caps and seat.group is not None and not self._has_clients(seat.group, but=seat):
            self._retire(now, seat.group)  # It is the last one.

    def _has_clients(self, group: Group, *, but: Seat | None = None) -> bool:
        return any(seat.group is group and seat is not but for seat in self._turns.seats.values())

    def _retire(self, now: int, group: Group) -> None:
        """Its debt is remembered until it is repaid: the next process of the group owes it too."""
        self._turns.gpu_time.divide(now)
        cap = self._caps.pop(group.key, None)
        self._turns.no_turns.release_group(group.key)
        if cap is None:
            return
        pending = self._turns.gpu_time.lately_pending(now)
        cap.retire(pending)
        self._dormant[group.key] = cap
        if len(self._dormant) >= self._prune_at:
            self._dormant = {key: one for key, one in self._dormant.items() if one.debt_ns(pending) > 0}
            self._prune_at = max(LEAST_PRUNED, 2 * len(self._dormant))
        self._note_activity()

    def repaid_at(self, now: int) -> int:
        """When the groups without clients here will have repaid their debts; in the past if they have none now."""
        pending = self._turns.gpu_time.pending(now)
        return max((now + cap.repaid_ns(cap.debt_ns(pending)) - 1 for cap in self._dormant.values()), default=0)

    def admitted(self, now: int) -> None:
        """A client was admitted, so there may be something to look at."""
        self._look_again(now, max(LEAST_STEP_NS, self._next_in_crowd() - now))

    def longest_hold_ns(self, percent: int, quantum_ns: int, grace_ns: int) -> int:
        """For how long a core limit holds a group back at most: until what it used beyond its limit in one turn, and
        while it drained, is repaid."""
        return min(MOST_AHEAD_NS + quantum_ns + grace_ns, MOST_DEBT_NS) * 100 // percent

    def queue_changed(self, now: int) -> None:
        """Called at the end of a step."""
        self._kept_time.note_waits(now)

    def decide(self, now: int, out: list[Action]) -> None:
        """Debts and leads are checked at most once in LEAST_STEP_NS, unless something is due or other clients run. A
        check visits all clients, and events may come every millisecond. In a crowd nothing makes it come earlier."""
        self._kept_time.note_rule()
        looked, them = self._looked
        if (next_look := self._next_in_crowd()) > now:
            self.deadline = next_look if self.deadline <= now else min(self.deadline, next_look)
            return
        is_early = now < min(looked + LEAST_STEP_NS, self.deadline) and them == self._those_concerned()
        if is_early and (self._turns.staying or self._turns.no_turns.over or self._turns.no_turns.ahead):
            self.deadline = min(self.deadline, looked + LEAST_STEP_NS)
            return
        self._look(now, out)
        self._looked = now, self._those_concerned()
        self.deadline = max(self.deadline, self._next_in_crowd())

    def _next_in_crowd(self) -> int:
        """When the next check is allowed, if the clients here are many; 0 if they are few."""
        pause = crowd_pause_ns(len(self._turns.seats), len(self._caps))
        return self._looked[0] + pause if pause else 0

    def _those_concerned(self) -> object:
        turns = self._turns
        nobody_works = len(turns.idle) >= len(turns.staying)
        held_back = len(turns.no_turns.ahead), len(turns.no_turns.over), len(turns.blocked)
        return len(turns.staying), held_back, len(self._caps), nobody_works, turns.ranking.fair_shares

    def _look(self, now: int, out: list[Action]) -> None:
        self._turns.gpu_time.divide(now)
        pending = self._turns.gpu_time.pending(now)
        self.deadline = NEVER
        if self._caps:
            self._look_at_caps(now, pending)
        self._look_at_weights(now, pending, out)

    def preempt(self, now: int, out: list[Action]) -> None:
        """Clients that owe too much drop their locks. Called when the queue has been decided (queue.blocking)."""
        going = [seat for seat in self._turns.staying.values() if self._turns.no_turns.is_over(seat)]
        self._drop(now, going, out)

    def _note_activity(self) -> None:
        """Called when core limits or the policy have changed, or weights begin or cease to decide."""
        self._turns.gpu_time.observer = self._charge if self._caps or self._weighted is not None else None
        self._turns.waits.watch(on=bool(self._caps))
        self.is_active = self._may_decide()

    def _may_decide(self) -> bool:
        return bool(self._caps) or self._turns.ranking.fair_shares.are_kept or self._weighted is not None

    def check(self) -> None:
        """What must hold; for tests."""
        assert self.is_active == self._may_decide()
        self._kept_time.check()

    def _charge(self, chunk: Chunk) -> None:
        for key in {entry.group for entry in chunk.entries}:
            cap = self._caps.get(key)
            if cap is not None:
                cap.charge(chunk)
        if self._weighted is not None:
            self._weighted.charge(chunk)

    # Core limits.

    def _look_at_caps(self, now: int, pending: Chunk) -> None:
        turns = self._turns
        keys = turns.no_turns.over | {entry.group for entry in pending.entries}
        caps = [(self._caps[key].looked_at, key) for key in keys & self._caps.keys()]
        self.deadline = now if len(caps) > MOST_GROUPS else now + MOST_UNDIVIDED_NS  # At once: the others are next.
        for _, key in nsmallest(MOST_GROUPS, caps) if len(caps) > MOST_GROUPS else caps:
            cap = self._caps[key]
            debt = cap.debt_ns(pending)
            if cap.look(now, debt):
                turns.no_turns.hold_group(key)
                after_ns = cap.repaid_ns(debt)
                cap.free_at = now + after_ns
            else:
                turns.no_turns.release_group(key)
                after_ns = cap.reached_ns(debt)
            self.deadline = min(self.deadline, now + max(LOOK_NS, after_ns))

    # Weights.

    def _look_at_weights(self, now: int, pending: Chunk, out: list[Action]) -> None:
        turns = self._turns
        for client in [one for one in turns.no_turns.ahead if turns.seats[one].state in ("rest", "silent", "staying")]:
            self._release(now, turns.seats[client])  # It wants nothing, or got a lock although it was ahead.
        beside = [seat for seat in turns.staying.values() if seat.gang is None and not turns.no_turns.is_over(seat)]
        beside += [turns.seats[client] for client in turns.no_turns.ahead]
        weighs = turns.ranking.fair_shares.are_kept and len({seat.weight for seat in beside}) > 1
        turns.no_turns.want_pauses(on=weighs)
        if weighs != (self._weighted is not None):
            self._weighted = WeightedTime(now // LOOK_NS + 1) if weighs else None
            self._note_activity()
        if self._weighted is None:
            for seat in beside:
                self._release(now, seat)
            return
        leads, total = self._weighted.leads(pending)
        working = {
            seat.client
            for seat in turns.staying.values()
            if seat.idle_since is None and not turns.no_turns.has_had_enough(seat)
        }
        for seat in sorted(beside, key=lambda seat: -leads.get(seat.client, 0)):
            to_hold = most_lead_ns(seat.weight, total)
            self._weigh(now, seat, (leads.get(seat.client, 0), to_hold), working, out)
            if seat.client in turns.no_turns.ahead:
                working.discard(seat.client)

    def _weigh(self, now: int, seat: Seat, leads: tuple[int, int], working: set[int], out: list[Action]) -> None:
        """`leads`: its lead, and with which one it is held back."""
        turns, (lead, most) = self._turns, leads
        is_held = seat.client in turns.no_turns.ahead
        others_work = len(working) > (seat.client in working)
        if is_held and (lead <= 0 or not others_work):
            self._release(now, seat)
        elif not is_held and lead > most and others_work and seat.idle_since is None:
            self._hold_back(now, seat, out)
        if seat.client in turns.no_turns.ahead:
            self._look_again(now, lead)
        elif seat.state == "staying" and seat.idle_since is None and others_work:
            self._look_again(now, most - lead if lead <= most else MOST_STEP_NS)

    def _look_again(self, now: int, after_ns: int) -> None:
        self.deadline = min(self.deadline, now + max(LEAST_STEP_NS, min(after_ns, MOST_STEP_NS)))

    def _hold_back(self, now: int, seat: Seat, out: list[Action]) -> None:
        if self._drop(now, [seat], out):
            self._turns.no_turns.hold_client(seat.client)
            self._turns.gpu_time.hold_back(now, seat)

    def _release(self, now: int, seat: Seat) -> None:
        if seat.client in self._turns.no_turns.ahead:
            self._turns.no_turns.release_client(seat.client)
            self._turns.gpu_time.release(now, seat)

    # Both.

    def _drop(self, now: int, going: list[Seat], out: list[Action]) -> bool:
        """These clients drop their locks, unless memory would move before the quantum is over."""
        turns = self._turns
        ends = turns.timer.ends
        if going and ends is not None and now < ends and self._would_switch(going):
            self.deadline = min(self.deadline, ends)
            return False
        for seat in going:
            turns.preempt(now, seat, "share", out)
        return True

    def _would_switch(self, going: list[Seat]) -> bool:
        """A waiting client does not fit now, and would be admitted if these released their locks."""
        turns, memory = self._turns, self._memory
        first = next((seat for seat in turns.queue if not turns.no_turns.has_had_enough(seat)), None)
        if first is None or memory.fits(first.need):
            return False
        return len(going) == len(turns.staying) or memory.would_fit(first.need, sum(seat.need for seat in going))


def held_back_by(turns: Turns, seat: Seat) -> Literal["core limit", "weight"] | None:
    """Why a client is blocked, if it is because it has had enough."""
    if seat.state != "blocked" or not turns.no_turns.has_had_enough(seat):
        return None
    return "core limit" if turns.no_turns.is_over(seat) else "weight"

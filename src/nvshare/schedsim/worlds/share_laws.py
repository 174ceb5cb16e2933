"""What must hold of GPU time, core limits, weights and priorities in every world at every step.

The accounts here are computed from the input of the core since its scheduler began: which looks are reported busy, how
long locks are held, and by how much the scheduler is late.

    time        each client's GPU time only grows, and is at most what it held and reported; all clients of a GPU
                together had at most the time that passed
    bill        with policy fair, all clients of a GPU are billed no more than the looks that are divided; what a
                client owes or is owed shifts its rank by at most MAX_LEAD_NS
    core limit  in any stretch of time: GPU time of the group <= limit * time + slack, which is larger by one turn if
                others waited, and by one if the group has waited
    held back   no client for longer than docs/decisions/0034 says
    priority    if the first in the queue outranks so many running clients that it would fit without them, some of them
                are told to drop their locks"""

from collections import Counter

from nvshare.core import events as ev
from nvshare.core.compute.compute_shares import held_back_by
from nvshare.core.compute.core_cap import BURST_NS, MOST_AHEAD_NS, MOST_DEBT_NS
from nvshare.core.compute.fair_shares import MAX_LEAD_NS
from nvshare.core.compute.gpu_time import REPORT_LOOKS
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.compute.weighted_time import LONGEST_HOLD_NS
from nvshare.core.gpu import Gpu
from nvshare.core.model import SECOND
from nvshare.core.node import Node
from nvshare.core.turns.seat import Seat

UNKNOWN_NS = (REPORT_LOOKS + 100) * LOOK_NS
"""After this time at most, the GPU time of a client is counted."""
SHORT_NS = 5 * SECOND
"""Steps are not as frequent as looks."""


class Excess:
    """Of a group with a core limit at one GPU: what it used, less its limit and what nobody could prevent."""

    def __init__(self, now: int, percent: int) -> None:
        self.percent = percent
        self.has_waiters = False
        """Somebody waited since the excess was lowest: then a turn lasts until its quantum is over."""
        self.kept_ns = BURST_NS
        """The most that it may have kept of the time that it did not use: more if it has waited for a turn."""
        self._now = self._late_at = now
        self._late_ns = self._sum = self._lowest = 0

    def passes(self, now: int, used: int, late_ns: int, *, has_waiters: bool) -> int:
        """The largest excess of any stretch of time that ends now. What was used while the scheduler was late does not
        count; it may be known only some steps later."""
        if now - self._late_at > UNKNOWN_NS + late_ns:
            self._late_ns = 0
        if late_ns:
            self._late_ns, self._late_at = self._late_ns + late_ns, now
        forgiven = max(0, min(used, self._late_ns))
        self._late_ns -= forgiven
        used -= forgiven
        self._sum += used - (now - self._now) * self.percent // 100
        self._now = now
        self.has_waiters = self.has_waiters or has_waiters
        if self._sum <= self._lowest:
            self._lowest, self.has_waiters = self._sum, has_waiters
        return self._sum - self._lowest


class ShareLaws:
    """Since one scheduler began. Call `before` with each event, then `after`."""

    def __init__(self, now: int, grace_ns: int) -> None:
        self._began = self._now = now
        self._grace_ns = grace_ns
        self._late_ns = self._newly_late_ns = 0
        """For how long the scheduler did nothing after a deadline: the total, and before the present step."""
        self._reported: Counter[tuple[str, int]] = Counter()
        self._unlocked: Counter[tuple[str, str]] = Counter()
        """What each group reported without a lock since the last step, which nobody can prevent."""
        self._had: dict[tuple[str, int], int] = {}
        self._billed: dict[str, tuple[int, dict[int, int]]] = {}
        """Of each GPU: until which look it was divided, and what each client had been billed."""
        self._excess: dict[tuple[str, str], Excess] = {}
        self._held_back: dict[tuple[str, int, str], tuple[int, int]] = {}
        """Since when, and by when it must end."""

    def before(self, now: int, event: ev.Event, node: Node) -> None:
        now = max(now, self._now)
        deadline = node.next_deadline()
        self._newly_late_ns = 0 if deadline is None else max(0, now - max(deadline, self._now))
        self._late_ns += self._newly_late_ns
        self._now = now
        self._unlocked.clear()
        if isinstance(event, ev.GpuTimeReported):
            busy_ns = event.busy.bit_count() * LOOK_NS
            client = node.clients[event.client]
            self._reported[event.gpu, event.client] += busy_ns
            if not client.seats[event.gpu].lock:
                self._unlocked[event.gpu, client.group.key] += busy_ns

    def after(self, node: Node) -> None:
        for uuid, gpu in node.gpus.items():
            used = self._check_time(uuid, gpu)
            self._check_bills(uuid, gpu)
            self._check_limits(uuid, gpu, node, used)
            if node.is_scheduling and not node.is_settling:
                self._check_held_back(uuid, gpu)
                if gpu.deadline > self._now:
                    _check_priority(uuid, gpu)

    def _check_time(self, uuid: str, gpu: Gpu) -> Counter[str]:
        """What each group has used since the last step."""
        total = 0
        used: Counter[str] = Counter()
        for seat in gpu.turns.seats.values():
            before = self._had.get((uuid, seat.client), 0)
            assert seat.gpu_ns >= before, f"GPU time of client {seat.client} went back to {seat.gpu_ns} from {before}"
            most = seat.held_ns(self._now) + self._reported[uuid, seat.client] + (seat.turns + 1) * LOOK_NS
            assert seat.gpu_ns <= most, f"client {seat.client} is charged {seat.gpu_ns} ns, and had {most} at most"
            self._had[uuid, seat.client] = seat.gpu_ns
            used["" if seat.group is None else seat.group.key] += seat.gpu_ns - before
            total += seat.gpu_ns
        busy_ns, passed_ns = gpu.turns.gpu_time.busy_ns, self._now - self._began + 2 * LOOK_NS
        assert total <= busy_ns, f"clients had {total} ns of {uuid}, which was busy for {busy_ns}"
        assert busy_ns <= passed_ns, f"{uuid} was busy for {busy_ns} of {passed_ns} ns"
        return used

    def _check_bills(self, uuid: str, gpu: Gpu) -> None:
        """What is lent for a move is not billed yet."""
        upto, before = self._billed.get(uuid, (0, {}))
        seats, divided = gpu.turns.seats.values(), gpu.turns.gpu_time.upto
        bills = {seat.client: seat.bill_ns + seat.lent_ns for seat in seats}
        more = sum(max(0, bill - before.get(client, 0)) for client, bill in bills.items())
        most = (divided - upto) * LOOK_NS
        assert more <= most, f"clients are billed {more} ns of {uuid}, of which {most} were divided"
        for seat in seats:
            assert abs(seat.handicap) <= MAX_LEAD_NS, (
                f"client {seat.client} waits as if it came {seat.handicap} ns later"
            )
        self._billed[uuid] = divided, bills

    def _check_limits(self, uuid: str, gpu: Gpu, node: Node, used: Counter[str]) -> None:
        turns = gpu.turns
        quantum_ns = turns.mode.longest_turn_ns
        has_waiters = bool(turns.queue.order) or turns.timer.ends is not None
        is_kept = node.is_scheduling and not node.is_settling and quantum_ns < MOST_DEBT_NS
        limits = {key: group.core_limit_on(uuid) for key, group in node.groups.items() if is_kept}
        for where, group in [key for key in self._excess if key[0] == uuid and not limits.get(key[1])]:
            del self._excess[where, group]
        for group, percent in limits.items():
            excess = self._excess.get((uuid, group))
            if percent and (excess is None or excess.percent != percent):
                self._excess[uuid, group] = Excess(self._now, percent)
            elif percent and excess is not None:
                locked = used[group] - self._unlocked[uuid, group]
                beyond = excess.passes(self._now, locked, self._newly_late_ns, has_waiters=has_waiters)
                if any(seat.group is not None and seat.group.key == group for seat in turns.queue):
                    excess.kept_ns = max(excess.kept_ns, quantum_ns)
                slack = excess.kept_ns + MOST_AHEAD_NS + UNKNOWN_NS + 2 * self._grace_ns
                slack += quantum_ns * excess.has_waiters
                assert beyond <= slack, f"{group} used {beyond} ns of {uuid} more than {percent} %, {slack} at most"

    def _check_held_back(self, uuid: str, gpu: Gpu) -> None:
        now = self._now
        for seat in gpu.turns.seats.values():
            reason = held_back_by(gpu.turns, seat)
            for other in ("core limit", "weight"):
                if reason != other:
                    self._held_back.pop((uuid, seat.client, other), None)
            if reason is not None:
                since, due = self._held_back.get((uuid, seat.client, reason), (now, 0))
                due = max(due, since + self._longest_hold(uuid, gpu, seat, reason))
                self._held_back[uuid, seat.client, reason] = since, due
                assert now <= due, (
                    f"client {seat.client} is held back by its {reason} since {since}, until {due} at most"
                )

    def _longest_hold(self, uuid: str, gpu: Gpu, seat: Seat, reason: str) -> int:
        if reason == "weight":
            return LONGEST_HOLD_NS + SHORT_NS + self._late_ns
        quantum_ns = gpu.turns.mode.longest_turn_ns + self._late_ns + self._reported[uuid, seat.client]
        percent = 100 if seat.group is None else seat.group.core_limit_on(uuid) or 100
        return gpu.compute_shares.longest_hold_ns(percent, quantum_ns, 2 * self._grace_ns) + SHORT_NS


def _check_priority(uuid: str, gpu: Gpu) -> None:
    turns, memory = gpu.turns, gpu.memory
    first = turns.queue.first()
    if not turns.ranking.preempts or first is None or first.gang is not None or memory.would_fit(first.need):
        return
    outranked = [seat for seat in turns.staying.values() if _is_outranked(seat, first)]
    is_enough = len(outranked) == len(turns.staying) or memory.would_fit(
        first.need, sum(seat.need for seat in outranked)
    )
    assert not outranked or not is_enough, (
        f"client {first.client} waits for {uuid}, and outranks {[seat.client for seat in outranked]}"
    )


def _is_outranked(seat: Seat, first: Seat) -> bool:
    """Even if the time in which it or its gang was served counts as waiting."""
    assert first.rank is not None, "a client that waits has a rank"
    members = [seat] if seat.gang is None else seat.gang.seats.values()
    ranks = [one.won_rank if one.lock else one.rank for one in members if one.lock or one.rank is not None]
    is_later = all(rank is not None and first.rank < rank for rank in ranks)
    return is_later and all(first.priority > one.priority for one in members)

"""What the naive account knows of core limits: it counts for itself what each group owes, in one sum over all time.

Clients of these worlds report no GPU time, so those who hold locks share the time in equal parts."""

from dataclasses import dataclass

from core.naive_gpu import NaiveGpu
from core.naive_orders import NaiveOrders
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.core_cap import BURST_NS, MOST_AHEAD_NS, MOST_DEBT_NS
from nvshare.core.gpu import Gpu
from nvshare.core.model import MILLISECOND, Settings

ROUNDING_NS = 2 * MILLISECOND
"""The core counts milliseconds; each turn may begin and end within one."""


@dataclass
class NaiveCap:
    percent: int
    debt: int = 0
    unsure: int = BURST_NS + 50 * ROUNDING_NS
    """By how much the core's sum may differ: it forgets what a group does not use in blocks of looks."""
    late: int = 0
    """For how long a deadline was overlooked while it was held back: meanwhile its clients may have run."""
    held_since: int | None = None
    may_hold_ns: int = 0

    def passes(self, dt: int, used: int) -> None:
        self.debt = max(-BURST_NS, min(self.debt + used - dt * self.percent // 100, MOST_DEBT_NS))


class NaiveShares(NaiveOrders):
    """The part of Naive that counts core limits. A group keeps its limit without clients."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.core_limits: dict[str, int] = {}
        self.caps: dict[tuple[str, str], NaiveCap] = {}
        self.counted_until = 0

    def _CoreLimitSet(self, now: int, event: ev.CoreLimitSet) -> None:  # noqa: N802 - the event's own name
        self.core_limits.pop(event.group, None)
        if event.percent:
            self.core_limits[event.group] = event.percent

    def be_late_with_shares(self, late_ns: int) -> None:
        for cap in self.caps.values():
            cap.late += late_ns

    def count_time(self, now: int) -> None:
        """Since the last step, in which the same clients ran."""
        dt, self.counted_until = now - self.counted_until, now
        for (uuid, group), cap in self.caps.items():
            running = self.gpus[uuid].named("staying", "dropping")
            its = sum(seat.group == group for seat in running)
            cap.passes(dt, dt * its // max(1, len(running)))

    def note_shares(self, uuid: str, gpu: NaiveGpu, real: Gpu, actions: list[ac.Action]) -> None:
        self._note_held_back(gpu, real)
        self._note_caps(uuid, gpu)
        turns = sum(isinstance(it, ac.GiveLock | ac.EndTurn) and it.gpu == uuid for it in actions)
        for (where, _), cap in self.caps.items():
            cap.unsure += turns * ROUNDING_NS if where == uuid else 0

    def _note_caps(self, uuid: str, gpu: NaiveGpu) -> None:
        for group in {seat.group for seat in gpu.seats.values()}:
            percent = self.core_limits.get(group)
            if percent is None:
                self.caps.pop((uuid, group), None)
            else:
                self.caps.setdefault((uuid, group), NaiveCap(percent)).percent = percent

    def _note_held_back(self, gpu: NaiveGpu, real: Gpu) -> None:
        """Who is held back and waits leaves the queue, with its rank."""
        for seat in gpu.named("waiting"):
            one = real.turns.seats[seat.client]
            if one.state == "blocked" and real.turns.is_held_back(one):
                seat.state, seat.rank = "blocked", one.kept_rank

    def check_shares(self, now: int, uuid: str, gpu: NaiveGpu, real: Gpu) -> None:
        for seat in gpu.named("waiting"):
            assert not real.turns.is_held_back(real.turns.seats[seat.client]), "who is held back is in no queue"
        for (where, group), cap in self.caps.items() if real.deadline > now else ():  # not if an alarm is late
            if where != uuid:
                continue
            if not any(seat.group == group for seat in gpu.seats.values()):
                cap.held_since, cap.late = None, 0
                continue
            its = [seat for seat in gpu.named("staying") if seat.group == group]
            if group in real.turns.over:
                assert cap.debt > -cap.unsure, "only who owes GPU time is held back"
                self._check_end(now, cap, real)
            else:
                cap.held_since, cap.late = None, 0
            if its and not gpu.named("waiting"):
                assert cap.debt < MOST_AHEAD_NS + cap.unsure, "who owes too much is held back, unless memory would move"

    def _check_end(self, now: int, cap: NaiveCap, real: Gpu) -> None:
        quantum = real.turns.mode.longest_quantum_ns
        may = real.shares.longest_hold_ns(cap.percent, quantum + cap.late, self.settings.grace_ns)
        cap.may_hold_ns = max(cap.may_hold_ns if cap.held_since is not None else 0, may)
        cap.held_since = now if cap.held_since is None else cap.held_since
        assert now - cap.held_since <= cap.may_hold_ns + 100 * cap.unsure, "who is held back comes back"

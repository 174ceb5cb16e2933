"""What the naive account knows of GPU time, core limits and weights: it counts for itself what each client had
(core.naive_use), what each group owes (core.naive_caps) and which clients are ahead of their weights
(core.naive_weights)."""

from collections import defaultdict
from dataclasses import dataclass, field

from core.naive_billing import NaiveBilling
from core.naive_caps import NaiveCap
from core.naive_gpu import NaiveGpu
from core.naive_use import NaiveUse, Span, Use
from core.naive_weights import UNSURE_NS, NaiveLeads, most_lead_ns, total_weight, weight_of
from nvshare.core import events as ev
from nvshare.core.compute.check_pace import MOST_STEP_NS
from nvshare.core.compute.core_cap import BURST_NS, MOST_DEBT_NS
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.gpu import Gpu
from nvshare.core.model import Settings


@dataclass
class GpuShares:
    """Of one GPU."""

    use: NaiveUse = field(default_factory=NaiveUse)
    caps: dict[str, NaiveCap] = field(default_factory=dict)
    leads: NaiveLeads = field(default_factory=NaiveLeads)
    tail: list[Span] = field(default_factory=list)
    """The looks that are not divided."""
    wrong_since: dict[int, int] = field(default_factory=dict)
    """The clients that are held back by their weights and should not be, or the reverse, and since when. The core looks
    again after at most MOST_STEP_NS."""


class NaiveShares(NaiveBilling):
    """The part of Naive that counts GPU time. A group keeps its limit without clients."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.core_limits: dict[str, int] = {}
        self.shares: defaultdict[str, GpuShares] = defaultdict(GpuShares)
        self.reports: list[ev.GpuTimeReported] = []
        """Of the present step."""

    def _CoreLimitSet(self, now: int, event: ev.CoreLimitSet) -> None:  # noqa: N802 - the event's own name
        self.core_limits.pop(event.group, None)
        if event.percent:
            self.core_limits[event.group] = event.percent

    def _GpuTimeReported(self, now: int, event: ev.GpuTimeReported) -> None:  # noqa: N802 - the event's own name
        self.reports.append(event)

    # What came out.

    def note_held_back(self, gpu: NaiveGpu, real: Gpu) -> None:
        """A client that is held back and waits leaves the queue, with its rank."""
        for seat in gpu.named("waiting"):
            one = real.turns.seats[seat.client]
            if one.state == "blocked" and real.turns.no_turns.has_had_enough(one):
                seat.state, seat.rank = "blocked", one.kept_rank

    def note_use(self, now: int, uuid: str, gpu: NaiveGpu, real: Gpu) -> None:
        """At the end of a step: looks that are divided now, then what the step changed from now on."""
        shares, time = self.shares[uuid], real.turns.gpu_time
        use = shares.use
        use.check_divided(now, time.upto)
        for client, seat in gpu.seats.items():  # A new weight counts for all looks that are not divided.
            if client not in use.uses:
                use.uses[client] = Use(client, seat.group)
            use.uses[client].weight = self.weight(seat)
        divided = use.book(time.upto)
        for group, cap in shares.caps.items() if divided else ():
            cap.book(group, divided)
        shares.leads.book(divided, use.uses.values())
        self._check_sums(use, gpu, real)
        for event in (event for event in self.reports if event.gpu == uuid):  # Before what followed from the event.
            use.uses[event.client].report(now, event.first, event.count, event.busy, time.upto)
        self.note_bills(now, uuid, gpu, real, divided)
        self._note_clients(now, use, gpu, real)
        self.reports = [event for event in self.reports if event.gpu != uuid]
        here = {seat.group for seat in gpu.seats.values()}
        waiting = {seat.group for seat in gpu.named("waiting")}
        longest = max(BURST_NS, min(real.turns.mode.longest_quantum_ns, MOST_DEBT_NS))
        for group in here & self.core_limits.keys() | shares.caps.keys():
            percent = self.core_limits.get(group) if group in here else None
            kept = longest if group in waiting else None
            shares.caps.setdefault(group, NaiveCap()).order(now // LOOK_NS + 1, percent, kept)
        shares.leads.note(now, decides=real.turns.no_turns.wants_pauses)
        shares.tail = use.spans(use.upto, max(use.upto, now // LOOK_NS + 1)) if _counts(shares) else []

    def use(self, uuid: str) -> NaiveUse:
        return self.shares[uuid].use

    def _check_sums(self, use: NaiveUse, gpu: NaiveGpu, real: Gpu) -> None:
        for seat in gpu.seats.values():
            had, counted = use.sums.get(seat.client, 0), real.turns.seats[seat.client].gpu_ns
            assert had == counted, "a client that was busy at a look has an equal part of it"
        assert use.busy_ns == real.turns.gpu_time.busy_ns, "the GPU is busy while anybody is"

    def _note_clients(self, now: int, use: NaiveUse, gpu: NaiveGpu, real: Gpu) -> None:
        for seat in gpu.seats.values():
            weight = real.turns.seats[seat.client].weight
            assert use.uses[seat.client].weight == weight, "the operator's weight counts, or its own"
        for client, one in use.uses.items():
            its = gpu.seats.get(client)
            one.has_left = its is None
            one.hold(now, its.lock if its is not None and its.state in ("staying", "dropping") else 0)
            waits = its is not None and (its.state == "blocked" or client in gpu.unblocked)
            one.hold_back(now, is_ahead=client in real.turns.no_turns.ahead, waits=waits)

    # What must hold.

    def check_shares(self, now: int, uuid: str, gpu: NaiveGpu, real: Gpu) -> None:
        for seat in gpu.named("waiting"):
            assert not real.turns.no_turns.has_had_enough(real.turns.seats[seat.client]), (
                "a client that is held back is in no queue"
            )
        if real.deadline <= now:
            return  # An alarm is late.
        shares = self.shares[uuid]
        for group, cap in shares.caps.items():
            cap.check(now, cap.after(group, shares.tail), is_over=group in real.turns.no_turns.over)
        assert real.turns.no_turns.over <= shares.caps.keys(), "only groups of clients are held back"
        for seat in gpu.named("staying") if not gpu.named("waiting") else []:
            assert seat.group not in real.turns.no_turns.over, (
                "a client that owes too much drops its lock, unless memory would move"
            )
        self._check_weights(now, shares, gpu, real)

    def _check_weights(self, now: int, shares: GpuShares, gpu: NaiveGpu, real: Gpu) -> None:
        turns = real.turns
        working = {seat.client for seat in gpu.named("staying") if turns.seats[seat.client].idle_since is None}
        leads = shares.leads.after(shares.tail, shares.use.uses.values())
        wrong = {
            client for client in turns.no_turns.ahead if leads.get(client, 0) <= -UNSURE_NS or not working - {client}
        }
        may_hold = shares.leads.begin is not None and not gpu.named("waiting") and len(working) > 1
        for client in working if may_hold else ():
            most = most_lead_ns(weight_of(shares.use.uses[client]), total_weight(shares.tail))
            if leads.get(client, 0) > most + UNSURE_NS and turns.seats[client].gang is None:
                wrong.add(client)
        shares.wrong_since = {client: shares.wrong_since.get(client, now) for client in wrong}
        late = [client for client, since in shares.wrong_since.items() if now - since > MOST_STEP_NS]
        assert not [client for client in late if client in turns.no_turns.ahead], (
            "only a client that is ahead of its weight is held back"
        )
        assert not late, "a client that is ahead of its weight is held back while others work"


def _counts(shares: GpuShares) -> bool:
    return shares.leads.begin is not None or any(cap.orders for cap in shares.caps.values())

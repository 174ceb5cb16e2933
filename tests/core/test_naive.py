"""The naive account finds a core that breaks a rule: each rule is broken on purpose."""

import random
import traceback
from collections.abc import Callable, Iterable

import pytest

from core import naive_room
from core.happenings import HAPPENINGS
from core.naive import Naive
from core.naive_gpu import NaiveGpu, NaiveSeat
from core.world import World
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.compute import kept_time, weighted_time
from nvshare.core.compute.compute_shares import ComputeShares
from nvshare.core.compute.core_cap import BURST_NS, CoreCap
from nvshare.core.compute.gpu_time import Chunk, GpuTime
from nvshare.core.compute.kept_time import KeptTime
from nvshare.core.compute.looks import Looks
from nvshare.core.gangs.gangs import Gangs
from nvshare.core.gpu import Gpu
from nvshare.core.memory import regrowth
from nvshare.core.memory.card_room import CardRoom
from nvshare.core.memory.memory_reports import MemoryReports
from nvshare.core.model import GIB, Memory, Settings
from nvshare.core.modes.adaptive import Adaptive
from nvshare.core.node import Node
from nvshare.core.queue.admission import Admission
from nvshare.core.queue.notices import Notices
from nvshare.core.queue.preemption import Preemption
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns


def found(seeds: Iterable[int], steps: int = 600) -> str:
    """What the account says about the core as it is now."""
    for seed in seeds:
        chance = random.Random(seed)
        try:
            world = World(chance.choice)
            for what in chance.choices(list(HAPPENINGS), list(HAPPENINGS.values()), k=steps):
                getattr(world, what)(chance.choice)
            world.end()
        except AssertionError as error:
            return f"{error}; {traceback.extract_tb(error.__traceback__)[-1].line}"
    return ""


def tell_again(real: Callable[..., None]) -> Callable[..., None]:
    """A request that crossed its lock is answered with that lock again, as the core once did."""

    def note(self: Node, now: int, event: ev.LockRequested, out: list[ac.Action]) -> None:
        seat = self.clients[event.client].seats[event.gpu]
        real(self, now, event, out)
        if seat.lock:
            out.append(ac.GiveLock(event.client, event.gpu, seat.lock, self.gpus[event.gpu].turns.is_contended))

    return note


def shorten_grace(real: Callable[..., None]) -> Callable[..., None]:
    def preempt(self: Turns, now: int, seat: Seat, cause: ac.DropCause, out: list[ac.Action]) -> None:
        real(self, now, seat, cause, out)
        seat.drop_deadline -= 1

    return preempt


def wait_for_each(real: Callable[..., None]) -> Callable[..., None]:
    """A client that is asked is waited for, however long the client has waited for others."""

    def ask(self: CardRoom, now: int, coming: Seat, out: list[ac.Action]) -> None:
        real(self, now, coming, out)
        coming.room_until = 0

    return ask


def stay_silent(real: Callable[..., int]) -> Callable[..., int]:
    """Holders are never told that the GPU is contended."""

    def tell(self: Notices, now: int, admitted: list[object], out: list[ac.Action]) -> int:
        told: list[ac.Action] = []
        due = real(self, now, admitted, told)
        out.extend(action for action in told if not isinstance(action, ac.TellContended))
        return due

    return tell


def count_early(real: Callable[..., Seat | None]) -> Callable[..., Seat | None]:
    """A pass is counted when it is possible, also if there is no room on the card yet."""

    def passer(self: Admission, now: int) -> Seat | None:
        found = real(self, now)
        if found is not None:
            self._note_passed(now, found)
        return found

    return passer


def prefer_the_last(real: Callable[..., int]) -> Callable[..., int]:
    return lambda self, seat: -real(self, seat) - 1


def lose_the_place(real: Callable[..., None]) -> Callable[..., None]:
    """A release with more work to do does not queue the client."""
    return lambda self, now, seat, lock, again, out: real(self, now, seat, lock, False, out)


def count_twice(real: Callable[..., None]) -> Callable[..., None]:
    """What a client had is added twice."""

    def divide(self: GpuTime, looks: int, times: int = 1) -> None:
        before = [(entry.seat, entry.seat.gpu_ns) for entry in self._looks if entry.seat is not None]
        real(self, looks, times)
        for seat, had in before:
            seat.gpu_ns += seat.gpu_ns - had

    return divide


def charge_twice(real: Callable[..., None]) -> Callable[..., None]:
    def charge(self: CoreCap, chunk: Chunk) -> None:
        real(self, chunk)
        self._debt_ns += chunk.used(self.group.key, self.begin)[0]

    return charge


def keep_for_ever(real: Callable[..., int]) -> Callable[..., int]:
    """A group that waited keeps what it did not use until it uses it."""
    return lambda self, debt, looks, rule: debt if debt < -BURST_NS and not rule[2] else real(self, debt, looks, rule)


def hold_for_ever(real: Callable[..., bool]) -> Callable[..., bool]:
    def look(self: CoreCap, now: int, debt_ns: int) -> bool:
        self.is_over = self.is_over or real(self, now, debt_ns)
        return self.is_over

    return look


def hold_another(real: Callable[..., None]) -> Callable[..., None]:
    """The wrong group is held back."""

    def look(self: ComputeShares, now: int, pending: Chunk) -> None:
        real(self, now, pending)
        turns = self._turns
        if turns.no_turns.over:
            turns.no_turns.over.clear()
            turns.no_turns.over.add(min(seat.group.key for seat in turns.seats.values() if seat.group is not None))

    return look


def weigh_equally(real: Callable[..., list[int]]) -> Callable[..., list[int]]:
    return lambda masks, weights: real(masks, [1] * len(weights))


def compete_only_when_busy(real: Callable[..., int]) -> Callable[..., int]:
    """A client that is held back does not compete."""
    return lambda self, upto, looks: self.counts(upto, looks)


RARE = {"ask": 27, "_own": 26}
"""With which walk to begin, for faults that few walks show."""


@pytest.mark.parametrize(
    ("part", "name", "fault", "complaint"),
    [
        (Node, "_note_requested", tell_again, "only a client that waits, or runs without a lock, gets one"),
        (Turns, "preempt", shorten_grace, "nobody is revoked before its grace is over"),
        (Preemption, "switch", lambda real: lambda self, now, head, out: None, "the alarm never stops ringing"),
        (Preemption, "shed", lambda real: lambda self, now, out: None, "holds more than the safe limit"),
        (Notices, "tell", stay_silent, "a holder knows whether it has to report its pauses"),
        (MemoryReports, "crowded", lambda real: lambda self, staying: None, "room is kept for a client that frees"),
        (
            MemoryReports,
            "_own",
            lambda real: lambda self, seat, counted: counted.swappable,
            "room is kept for a client that frees",
        ),
        (regrowth, "is_expected", lambda real: lambda seat: False, "room is kept for a client that frees"),
        (Adaptive, "lag_ns", prefer_the_last, "a client lags by no more than its mode promises"),
        (Turns, "released", lose_the_place, "[seat.client for seat in queue] == "),
        (Admission, "_passer", count_early, "nobody is passed by a client that gets no lock"),
        (CardRoom, "ask", wait_for_each, "nobody waits for room for longer than the grace time"),
        (Gangs, "drop_together", lambda real: lambda self, now, out: None, "locks of a gang are dropped together"),
        (Gangs, "open", lambda real: lambda self: None, "a gang is admitted as soon as there is room at all its GPUs"),
        (
            Looks,
            "reported",
            lambda real: lambda *report: None,
            "a client that was busy at a look has an equal part of it",
        ),
        (
            Looks,
            "rest",
            lambda real: lambda self, look: None,
            "a client that was busy at a look has an equal part of it",
        ),
        (GpuTime, "_divide", count_twice, "a client that was busy at a look has an equal part of it"),
        (
            CoreCap,
            "_repaid",
            lambda real: lambda self, debt_ns, looks, percent: debt_ns,
            "only a group that owes GPU time is held back",
        ),
        (CoreCap, "charge", charge_twice, "only a group that owes GPU time is held back"),
        (CoreCap, "look", hold_for_ever, "only a group that owes GPU time is held back"),
        (CoreCap, "look", lambda real: lambda self, now, debt_ns: False, "a group that owes too much is held back"),
        (ComputeShares, "_look_at_caps", hold_another, "only a group that owes GPU time is held back"),
        (
            ComputeShares,
            "preempt",
            lambda real: lambda self, now, out: None,
            "a client that owes too much drops its lock",
        ),
        (
            CoreCap,
            "set_percent",
            lambda real: lambda self, upto, look, percent: None,
            "a group that owes too much is held back",
        ),
        (
            ComputeShares,
            "_release",
            lambda real: lambda self, now, seat: None,
            "only a client that is ahead of its weight",
        ),
        (
            CoreCap,
            "set_kept",
            lambda real: lambda self, upto, look, kept: None,
            "only a group that owes GPU time is held back",
        ),
        (kept_time, "kept_ns", lambda real: lambda longest: 1 << 60, "a group that owes too much is held back"),
        (KeptTime, "note_rule", lambda real: lambda self: None, "only a group that owes GPU time is held back"),
        (CoreCap, "_repaid", keep_for_ever, "a group that owes too much is held back"),
        (
            ComputeShares,
            "_hold_back",
            lambda real: lambda self, now, seat, out: None,
            "a client that is ahead of its weight is held",
        ),
        (Looks, "competes", compete_only_when_busy, "only a client that is ahead of its weight is held back"),
        (weighted_time, "dues", weigh_equally, "a client that is ahead of its weight is held back while others work"),
    ],
)
def test_a_core_that_breaks_a_rule_is_found(
    part: object,
    name: str,
    fault: Callable[[Callable[..., object]], object],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = fault(getattr(part, name))
    monkeypatch.setattr(part, name, broken)
    first = RARE.get(name, 0)
    said = found(range(first, first + 40))
    assert complaint in said


@pytest.mark.parametrize("seeds", [range(12), (40, 91, 92), (184, 218, 226)])
def test_a_core_that_keeps_the_rules_is_not_accused(seeds: Iterable[int]) -> None:
    """The single seeds once found an error, of the core or of the account."""
    assert found(seeds) == ""


def test_a_wait_beyond_the_promised_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that promises less than it keeps: a quarter. It was not found while each turn that ended excused 10 s."""
    promise, with_gangs = Gpu.longest_wait_ns, Gpu.longest_gang_wait_ns
    monkeypatch.setattr(Gpu, "longest_wait_ns", lambda self, clients: promise(self, clients) // 4)
    monkeypatch.setattr(Gpu, "longest_gang_wait_ns", lambda self, clients: with_gangs(self, clients) // 4)
    assert "every wait ends" in found(range(40)) or "this wait has ended" in found(range(40))


@pytest.mark.parametrize(("host_room", "allowance"), [(GIB, 0), (0, Settings().grace_ns)])
def test_a_turn_that_ends_excuses_a_wait_only_if_the_host_cannot_take_all_memory(
    host_room: int, allowance: int
) -> None:
    naive = Naive(Settings(), None)
    gpu = naive.gpus["g0"] = NaiveGpu.of(naive.settings, "auto")
    gpu.size = 16 * GIB
    gpu.seats = {client: NaiveSeat(client, 0, memory=Memory(GIB), host_room=host_room) for client in (1, 2)}
    naive_room.note_end(naive, 0, ac.EndTurn(1, "g0", 7, 0, "released"))
    assert gpu.seats[2].allowance == allowance

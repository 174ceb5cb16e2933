"""Core limits of programs that do not fit together: a group that waits for its turn keeps the time that it cannot use,
up to one longest turn (core.compute.core_cap)."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from core.busy_gpu import BusyGpu
from core.naive import Naive
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.compute.core_cap import BURST_NS, MOST_AHEAD_NS, CoreCap
from nvshare.core.compute.gpu_time import Chunk
from nvshare.core.compute.kept_time import kept_ns
from nvshare.core.compute.look_bits import LOOK_NS, ones
from nvshare.core.model import GIB, SECOND, QuantumRule, Settings
from nvshare.core.node import Node

BIG = 12 * GIB


def in_turns(seconds: int) -> Settings:
    return Settings(quantum=QuantumRule(mode="fixed", fixed_ns=seconds * SECOND))


@pytest.mark.parametrize(("turn_s", "tick_ms"), [(1, 5), (10, 25), (60, 125)])
def test_two_programs_with_core_limits_get_theirs_in_turns(turn_s: int, tick_ms: int) -> None:
    gpu = BusyGpu(in_turns(turn_s), tick_ms=tick_ms)
    gpu.add(limit=30, need=BIG)
    gpu.add(limit=60, need=BIG)
    gpu.run(10 * turn_s * 1000)
    assert gpu.run(50 * turn_s * 1000) == pytest.approx([30, 60], rel=0.05)


def test_a_program_with_a_core_limit_gets_no_more_than_it_beside_programs_that_wait() -> None:
    gpu = BusyGpu(in_turns(10), tick_ms=25)
    gpu.add(limit=30, need=BIG)
    gpu.add(need=BIG)
    gpu.run(50_000)
    assert gpu.run(300_000) == pytest.approx([30, 70], abs=1.5)


def one_that_waits_and_rests() -> BusyGpu:
    """It waits for 30 s, then is alone, and rests from 30.5 s to 44.75 s."""
    gpu = BusyGpu(in_turns(30), tick_ms=25)
    gpu.add(need=BIG, wants=lambda ms: ms < 30_000)
    gpu.add(limit=50, need=BIG, queued_ms=25, wants=lambda ms: ms < 30_500 or ms > 44_750)
    return gpu


def test_a_program_that_has_waited_and_rested_is_held_back_as_soon_as_it_has_had_enough() -> None:
    """Nothing but the passing of time says that it owes too much."""
    gpu = one_that_waits_and_rests()
    gpu.run(44_750)
    gpu.drops()
    held_back_at = 0
    while not held_back_at and gpu.now_ms < 60_000:
        gpu.run(25)
        held_back_at = gpu.now_ms if (2, "share") in gpu.drops() else 0
    assert held_back_at == pytest.approx(44_750 + (250 + 50) * 2, abs=1000)


def test_a_program_that_waits_keeps_no_more_than_the_quantum_that_the_operator_has_set_meanwhile() -> None:
    gpu = BusyGpu(in_turns(30), tick_ms=25)
    gpu.add(need=BIG, wants=lambda ms: ms < 24_000)
    gpu.add(limit=50, need=BIG, queued_ms=25)
    gpu.run(24_000)
    gpu.handle(ev.QuantumSet(SECOND))
    while (2, "share") not in gpu.drops() and gpu.now_ms < 60_000:
        gpu.run(25)
    assert gpu.now_ms == pytest.approx(24_000 + (1000 + 50) * 2, abs=1000)


@pytest.mark.parametrize("is_late", [False, True])
def test_the_naive_account_finds_a_core_that_looks_too_late_at_what_is_owed(
    is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if what is kept were only used up by work."""

    def handle(self: Node, now: int, event: ev.Event) -> list[ac.Action]:
        naive.before(now, event)
        actions = real(self, now, event)
        naive.after(now, actions, self)
        return actions

    naive, real = Naive(in_turns(30), None), Node.handle
    monkeypatch.setattr(Node, "handle", handle)
    if is_late:
        monkeypatch.setattr(CoreCap, "reached_ns", lambda self, debt: (MOST_AHEAD_NS - debt) * 100 // 50 + 1)
    gpu = one_that_waits_and_rests()
    with pytest.raises(AssertionError, match="a group that owes too much is held back") if is_late else nullcontext():
        gpu.run(52_000)


# What one group keeps.


def looks(cap: CoreCap, first: int, seconds: float, *, is_busy: bool = False) -> int:
    """The group waits, rests or works from this look on; returns the next one."""
    count = round(seconds * SECOND / LOOK_NS)
    entries = [SimpleNamespace(group=cap.group.key)] if is_busy else []
    parts = [(ones(count), count * LOOK_NS)] if is_busy else []
    cap.charge(Chunk(entries, [bits for bits, _ in parts], [had for _, had in parts], first, count))  # type: ignore[arg-type]
    return first + count


def owed(cap: CoreCap, first: int) -> float:
    return cap.debt_ns(Chunk([], [], [], first, 0)) / SECOND


def a_cap(percent: int) -> CoreCap:
    return CoreCap(0, percent, SimpleNamespace(key="run/1"))  # type: ignore[arg-type]


def test_a_group_that_waits_keeps_up_to_one_longest_turn() -> None:
    cap = a_cap(20)
    cap.set_kept(0, 0, kept_ns(10 * SECOND))
    at = looks(cap, 0, 40)
    assert owed(cap, at) == -8
    at = looks(cap, at, 400)
    assert owed(cap, at) == -10


def test_a_group_without_work_keeps_a_quarter_of_a_second() -> None:
    cap = a_cap(20)
    at = looks(cap, 0, 400)
    assert owed(cap, at) == -BURST_NS / SECOND


def test_what_was_kept_is_used_up_by_work_and_forgotten_in_pauses() -> None:
    cap = a_cap(20)
    cap.set_kept(0, 0, kept_ns(10 * SECOND))
    at = looks(cap, 0, 400)
    cap.set_kept(at, at, 0)
    at = looks(cap, at, 5, is_busy=True)
    assert owed(cap, at) == -10 + 5 * 0.8
    at = looks(cap, at, 3)
    assert owed(cap, at) == -3
    at = looks(cap, at, 60)
    assert owed(cap, at) == -BURST_NS / SECOND


def test_a_group_that_keeps_time_may_have_had_enough_as_soon_as_it_has_rested_and_worked() -> None:
    cap = a_cap(50)
    cap.set_kept(0, 0, kept_ns(10 * SECOND))
    at = looks(cap, 0, 8)
    assert owed(cap, at) == -4
    reached = at + cap.reached_ns(cap.debt_ns(Chunk([], [], [], at, 0))) // LOOK_NS
    cap.set_kept(at, at, 0)
    at = looks(cap, looks(cap, at, 3.75), 0.6, is_busy=True)
    assert reached == at
    assert owed(cap, at) == MOST_AHEAD_NS / SECOND


def test_what_is_kept_has_bounds_for_any_turns() -> None:
    assert [kept_ns(ns) for ns in (0, SECOND, 10_000 * SECOND)] == [BURST_NS, SECOND, 900 * SECOND]

"""Policy fair in turns: weights are proportions of the work, however much memory moves for it; idle holders pay."""

import pytest

from core.busy_gpu import BusyGpu
from core.test_step_cost import lines_of
from nvshare.core import events as ev
from nvshare.core.fair_shares import FairShares
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, Memory, ModeName, QuantumRule, Settings
from nvshare.core.node import Node

BIG = 9 * GIB


def turns(mode: ModeName = "fixed") -> Settings:
    """Of 1 s, or in other modes of at most 20 s."""
    return Settings(policy="fair", quantum=QuantumRule(mode=mode, fixed_ns=SECOND, most_ns=20 * SECOND))


def parts(got: list[float]) -> list[float]:
    return [100 * one / sum(got) for one in got]


def three(gpu: BusyGpu, *, move_ms: int, queued_ms: int = 200) -> None:
    """1 : 2 : 5; they do not fit together."""
    for weight in (100, 200, 500):
        gpu.add(weight=weight, need=BIG, move_ms=move_ms, queued_ms=queued_ms)


@pytest.mark.parametrize(("move_ms", "queued_ms"), [(0, 50), (250, 400), (750, 50), (750, 400), (1500, 400)])
def test_weights_are_proportions_of_the_work_although_memory_moves(move_ms: int, queued_ms: int) -> None:
    """In turns of 1 s, of which the larger part may be a move."""
    gpu = BusyGpu(turns(), tick_ms=25)
    three(gpu, move_ms=move_ms, queued_ms=queued_ms)
    gpu.run(20_000)
    assert parts(gpu.run(200_000)) == pytest.approx([12.5, 25, 62.5], rel=0.05)


@pytest.mark.parametrize("mode", ["balanced", "auto", "adaptive"])
def test_so_they_are_in_every_mode(mode: ModeName) -> None:
    gpu = BusyGpu(turns(mode), tick_ms=125)
    three(gpu, move_ms=750)
    gpu.run(100_000)
    assert parts(gpu.run(1_600_000)) == pytest.approx([12.5, 25, 62.5], rel=0.05)


def test_without_reports_of_gpu_time_the_held_time_without_moves_counts() -> None:
    gpu = BusyGpu(turns(), reports=False, tick_ms=25)
    three(gpu, move_ms=500, queued_ms=50)
    gpu.run(20_000)
    assert parts(gpu.run(200_000)) == pytest.approx([12.5, 25, 62.5], rel=0.05)


@pytest.mark.parametrize("reports", [True, False], ids=["reports", "no reports"])
def test_a_holder_that_has_no_work_pays_for_the_time_in_which_others_wait(reports: bool) -> None:
    """It works for 100 ms in each second, and keeps its lock in its pauses, which are too short for a switch."""
    gpu = BusyGpu(turns(), reports=reports, tick_ms=25)
    gpu.add(need=BIG, queued_ms=25, wants=lambda ms: ms % 1000 < 100)
    gpu.add(need=BIG, queued_ms=25)
    gpu.run(20_000)
    assert gpu.run(200_000)[1] > 40
    held = [seat.held_until(gpu.now_ms * MILLISECOND) for seat in gpu.node.gpus["g0"].turns.seats.values()]
    assert held[0] == pytest.approx(held[1], rel=0.1)


def test_idleness_while_nobody_waits_costs_nothing() -> None:
    gpu = BusyGpu(turns(), tick_ms=25)
    gpu.add(need=BIG, queued_ms=25, wants=lambda ms: ms < 1000)
    gpu.run(300_000)
    gpu.clients[1].wants = lambda ms: True
    gpu.add(need=BIG, queued_ms=25)
    gpu.run(1000)
    assert gpu.run(40_000) == pytest.approx([50, 50], abs=4)


def test_a_move_is_worth_no_more_than_the_turn_was_billed() -> None:
    """Whatever a client says, it cannot save up time."""
    node = Node(turns(), epoch=1, is_paranoid=True)
    node.handle(0, ev.ClientRegistered(1, "run/1", "x", "x", (Claim("g0", 16 * GIB),)))
    node.handle(0, ev.MemoryMoved(1, "g0", False, BIG, 100 * SECOND))
    node.handle(0, ev.LockRequested(1, "g0", Memory(BIG)))
    for second in (1, 2, 3):
        node.handle(second * SECOND, ev.MemoryMoved(1, "g0", False, BIG, 100 * SECOND))
    seat = node.gpus["g0"].turns.seats[1]
    node.handle(5 * SECOND, ev.LockReleased(1, "g0", seat.lock, True))
    assert seat.tag == 2 * SECOND


def test_what_a_turn_was_billed_too_much_comes_off_the_next_one() -> None:
    """A client is taken to be busy until its report says otherwise."""
    node = Node(turns(), epoch=1, is_paranoid=True)
    node.handle(0, ev.ClientRegistered(1, "run/1", "x", "x", (Claim("g0", 16 * GIB),)))
    node.handle(0, ev.LockRequested(1, "g0", Memory(BIG)))
    seat = node.gpus["g0"].turns.seats[1]
    node.handle(SECOND // 4, ev.LockReleased(1, "g0", seat.lock, True))
    assert seat.tag == SECOND // 4
    node.handle(SECOND // 3, ev.GpuTimeReported(1, "g0", 0, 250, (1 << 100) - 1))
    node.handle(10 * SECOND, ev.LockReleased(1, "g0", seat.lock, False))
    assert seat.tag == SECOND // 10 + 10 * SECOND - SECOND // 4


def test_the_sums_are_right_when_the_policy_changes_and_clients_come_and_go() -> None:
    gpu = BusyGpu(turns())
    three(gpu, move_ms=100)
    gpu.run(3_000)
    for policy in ("fcfs", "fair"):
        gpu.handle(ev.PolicySet(policy))
        gpu.run(1_500)
    assert isinstance(gpu.node.gpus["g0"].turns.ranking.shares, FairShares)
    gpu.handle(ev.ClientLeft(1))
    del gpu.clients[1]
    gpu.run(5_000)


def test_a_step_after_days_of_silence_bills_them_all_at_once() -> None:
    """A holder whose library reports no GPU time, and one that waits although its turn has come: its process hangs."""
    node, days = Node(turns(), epoch=1, is_paranoid=True), 10 * 24 * 3600
    for client in (1, 2):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "x", "x", (Claim("g0", 16 * GIB),)))
        node.handle(0, ev.LockRequested(client, "g0", Memory(BIG)))
    seat = node.gpus["g0"].turns.seats[1]
    assert lines_of(lambda: node.gpus["g0"].turns.gpu_time.divide(days * SECOND)) < 1000
    assert seat.bill_ns == pytest.approx(days * SECOND, rel=0.001)
    node.handle(days * SECOND, ev.GpuTimeReported(1, "g0", 0, 0, 0))
    idle = days + 100
    node.gpus["g0"].turns.gpu_time.divide(idle * SECOND)
    assert seat.bill_ns == pytest.approx(idle * SECOND, rel=0.001)


def test_an_idle_holder_pays_until_nobody_waits_any_more() -> None:
    node = Node(Settings(policy="fair", quantum=QuantumRule(mode="fixed")), epoch=1, is_paranoid=True)
    for client in (1, 2):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "x", "x", (Claim("g0", 16 * GIB),)))
    node.handle(0, ev.LockRequested(1, "g0", Memory(BIG)))
    node.handle(0, ev.GpuTimeReported(1, "g0", 0, 0, 0))
    node.handle(SECOND, ev.LockRequested(2, "g0", Memory(BIG)))
    node.handle(2 * SECOND, ev.ClientLeft(2))
    node.gpus["g0"].turns.gpu_time.divide(10 * SECOND)
    assert node.gpus["g0"].turns.seats[1].bill_ns == SECOND

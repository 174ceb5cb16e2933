"""Policy fair in turns: weights are proportions of the work, however much memory moves for it; idle holders pay."""

from functools import partial

import msgspec
import pytest

from core.busy_gpu import BusyGpu
from core.step_cost import lines_of
from nvshare.core import events as ev
from nvshare.core.compute.fair_shares import FairShares
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
    held = [seat.held_ns(gpu.now_ms * MILLISECOND) for seat in gpu.node.gpus["g0"].turns.seats.values()]
    assert held[0] == pytest.approx(held[1], rel=0.1)


def test_idleness_while_nobody_waits_costs_nothing() -> None:
    gpu = BusyGpu(turns(), tick_ms=25)
    gpu.add(need=BIG, queued_ms=25, wants=lambda ms: ms < 1000)
    gpu.run(300_000)
    gpu.clients[1].wants = lambda ms: True
    gpu.add(need=BIG, queued_ms=25)
    gpu.run(1000)
    assert gpu.run(40_000) == pytest.approx([50, 50], abs=4)


def test_idleness_that_is_not_divided_yet_does_not_count_as_a_share_of_a_client_that_comes() -> None:
    """It worked for 1 s, and then nobody said anything for 600 s. Only looks whose reports are due count as busy."""
    node = Node(turns(), epoch=1, is_paranoid=True)
    for client in (1, 2):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "x", "x", (Claim("g0", 16 * GIB),)))
    node.handle(0, ev.LockRequested(1, "g0", Memory(BIG)))
    node.handle(SECOND, ev.GpuTimeReported(1, "g0", 1000, 0, 0))
    node.handle(600 * SECOND, ev.LockRequested(2, "g0", Memory(BIG)))
    assert SECOND <= node.gpus["g0"].turns.seats[2].tag <= 1.6 * SECOND


def test_the_first_looks_of_an_earlier_turn_are_free_too() -> None:
    """A client has two turns before the looks of the first one are divided, and works in neither."""
    node = Node(turns(), epoch=1, is_paranoid=True)
    for client in (1, 2):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "x", "x", (Claim("g0", 16 * GIB),)))
        node.handle(0, ev.LockRequested(client, "g0", Memory(BIG)))
    first, second = (node.gpus["g0"].turns.seats[client] for client in (1, 2))
    node.handle(0, ev.GpuTimeReported(1, "g0", 0, 0, 0))
    node.handle(200 * MILLISECOND, ev.LockReleased(1, "g0", first.lock, True))
    node.handle(400 * MILLISECOND, ev.LockReleased(2, "g0", second.lock, True))
    for client in (1, 2):
        node.handle(600 * MILLISECOND, ev.GpuTimeReported(client, "g0", 0, 250, 0))
        node.handle(600 * MILLISECOND, ev.GpuTimeReported(client, "g0", 250, 250, 0))
    node.handle(900 * MILLISECOND, ev.GpuTimeAsked())
    assert first.lock, "it has its second turn"
    assert first.bill_ns == 150 * MILLISECOND


def test_a_new_weight_counts_while_its_client_waits() -> None:
    """The client that runs owes the waiting one ten times as much from then on."""
    node = Node(turns(), epoch=1, is_paranoid=True)
    for client in (1, 2):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "x", "x", (Claim("g0", 16 * GIB),)))
        node.handle(0, ev.LockRequested(client, "g0", Memory(BIG)))
    seat = node.gpus["g0"].turns.seats[1]
    node.handle(SECOND // 2, ev.WeightSet("run/2", 1000))
    node.handle(SECOND, ev.LockReleased(1, "g0", seat.lock, True))
    assert seat.handicap == 10 * SECOND


def test_a_client_that_comes_back_with_a_lock_has_the_weight_and_the_priority_of_its_group() -> None:
    """Its connection was lost. The operator's orders were given before."""
    node = Node(turns(), epoch=1, is_paranoid=True)
    node.handle(0, ev.ClientRegistered(1, "run/1", "x", "x", (Claim("g0", 16 * GIB),)))
    node.handle(0, ev.LockRequested(1, "g0", Memory(BIG)))
    node.handle(0, ev.WeightSet("run/2", 1000))
    node.handle(0, ev.PrioritySet("run/2", -2))
    node.handle(0, ev.ClientRegistered(2, "run/2", "x", "x", (Claim("g0", 16 * GIB, 7, memory=Memory(BIG)),)))
    first, second = (node.gpus["g0"].turns.seats[client] for client in (1, 2))
    assert second.rank == 60 * SECOND
    node.handle(SECOND, ev.LockReleased(1, "g0", first.lock, True))
    assert first.handicap == 10 * SECOND


def test_a_move_that_is_reported_after_the_turn_is_billed_again_if_no_look_covers_it() -> None:
    """The client had no work in its turn, and says so later."""
    node = Node(turns(), epoch=1, is_paranoid=True)
    for client in (1, 2):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "x", "x", (Claim("g0", 16 * GIB),)))
        node.handle(0, ev.LockRequested(client, "g0", Memory(GIB)))
    seat = node.gpus["g0"].turns.seats[1]
    node.handle(100 * MILLISECOND, ev.LockReleased(1, "g0", seat.lock, False))
    node.handle(350 * MILLISECOND, ev.MemoryMoved(1, "g0", False, GIB, 100 * MILLISECOND))
    node.handle(350 * MILLISECOND, ev.GpuTimeReported(1, "g0", 0, 100, 0))
    assert seat.bill_ns == -100 * MILLISECOND
    node.handle(700 * MILLISECOND, ev.GpuTimeAsked())
    node.handle(2 * SECOND, ev.GpuTimeAsked())
    assert (seat.bill_ns, seat.lent_ns) == (0, 0)


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
    assert isinstance(gpu.node.gpus["g0"].turns.ranking.fair_shares, FairShares)
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


@pytest.mark.parametrize("is_set_later", [False, True])
def test_the_length_of_uptime_and_of_silence_makes_no_difference(is_set_later: bool) -> None:
    """The looks at which a client waited are bits of an integer. It has a bit for each look of the last second."""
    settings = turns()
    node, day = Node(msgspec.structs.replace(settings, policy="fcfs") if is_set_later else settings, epoch=1), 24 * 3600
    start = 100 * day * SECOND
    node.handle(start, ev.GpuFound("g0", 16 * GIB))
    node.handle(start, ev.PolicySet("fair"))
    for client in (1, 2):
        node.handle(start, ev.ClientRegistered(client, f"run/{client}", "x", "x", (Claim("g0", 16 * GIB),)))
    seats, bills = node.gpus["g0"].turns.seats, node.gpus["g0"].turns.gpu_time.bills
    assert bills is not None
    for days in (100, 101, 104, 204):
        begin = days * day * SECOND
        for client in (1, 2):
            node.handle(begin, ev.LockRequested(client, "g0", Memory(BIG)))
        for client in (1, 2):
            released = ev.LockReleased(client, "g0", seats[client].lock, False)
            assert lines_of(partial(node.handle, begin + client * SECOND // 10, released)) < 2000
            assert 0 < bills._waited.bit_length() < 1000
    assert [seat.bill_ns for seat in seats.values()] == [3 * SECOND // 10] * 2


class Liar(BusyGpu):
    """Client 1 says all the time that it is moving memory."""

    def _report(self) -> None:
        super()._report()
        if self.clients[1].lock:
            self.handle(ev.MemoryMoved(1, "g0", False, 1, 1 << 40))


def test_a_client_that_claims_to_move_all_the_time_gains_half_a_second_for_each_gib() -> None:
    """Of its 9 GiB, in each turn of 30 s, of three equals: it pays for 25.5 s."""
    gpu = Liar(Settings(policy="fair", quantum=QuantumRule(mode="fixed", fixed_ns=30 * SECOND)), tick_ms=125)
    for _ in range(3):
        gpu.add(need=BIG)
    gpu.run(1_000_000)
    expected = parts([30 / 25.5, 1, 1])
    assert gpu.run(3_000_000) == pytest.approx(expected, rel=0.05)


def test_a_client_cannot_claim_the_same_move_in_many_turns() -> None:
    """It ends its turns itself, and is the first in the queue again."""
    node = Node(turns(), epoch=1, is_paranoid=True)
    for client in (1, 2):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "x", "x", (Claim("g0", 16 * GIB),)))
    node.handle(0, ev.LockRequested(1, "g0", Memory(GIB)))
    seat = node.gpus["g0"].turns.seats[1]
    for second in range(1, 11):
        node.handle(second * SECOND, ev.MemoryMoved(1, "g0", False, GIB, SECOND))
        node.handle(second * SECOND, ev.LockReleased(1, "g0", seat.lock, True))
    node.handle(20 * SECOND, ev.LockReleased(1, "g0", seat.lock, False))
    assert seat.tag == 20 * SECOND - SECOND // 2
    node.handle(20 * SECOND, ev.LockRequested(2, "g0", Memory(GIB)))
    other = node.gpus["g0"].turns.seats[2]
    node.handle(21 * SECOND, ev.LockReleased(2, "g0", other.lock, False))
    node.handle(21 * SECOND, ev.LockRequested(1, "g0", Memory(GIB)))
    node.handle(22 * SECOND, ev.MemoryMoved(1, "g0", False, GIB, SECOND))
    node.handle(30 * SECOND, ev.LockReleased(1, "g0", seat.lock, False))
    node.gpus["g0"].turns.gpu_time.divide(40 * SECOND)
    assert seat.bill_ns == 29 * SECOND - SECOND


@pytest.mark.parametrize("busy_ms", [0, 100, 500])
def test_a_turn_costs_at_least_nothing_when_its_last_looks_are_known(busy_ms: int) -> None:
    """It says that it moved memory for 400 ms of a turn of 500 ms, and then when it was busy."""
    node, at = Node(turns(), epoch=1, is_paranoid=True), 0
    node.handle(0, ev.ClientRegistered(1, "run/1", "x", "x", (Claim("g0", 16 * GIB),)))
    for _ in range(5):
        node.handle(at, ev.LockRequested(1, "g0", Memory(BIG)))
        seat, first = node.gpus["g0"].turns.seats[1], at // MILLISECOND
        at += SECOND // 2
        for _ in range(2):
            node.handle(at, ev.MemoryMoved(1, "g0", False, GIB, SECOND // 5))
        for part in (0, 250):
            busy = ((1 << busy_ms) - 1) >> part & (1 << 250) - 1
            node.handle(at, ev.GpuTimeReported(1, "g0", first + part, 250, busy))
        node.handle(at, ev.LockReleased(1, "g0", seat.lock, False))
        at += 2 * SECOND
        node.handle(at, ev.GpuTimeReported(1, "g0", at // MILLISECOND, 0, 0))
    assert seat.bill_ns == 5 * max(0, busy_ms - 400) * MILLISECOND
    assert seat.lent_ns == 0
    assert seat.tag >= seat.bill_ns

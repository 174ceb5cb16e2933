"""A program of higher priority gets the GPU after one drain: in every mode, with each policy that counts priorities,
and with any quantum, until the preempted programs have waited as long as the priority is worth."""

import pytest

from core.busy_gpu import BusyGpu
from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, ModeName, QuantumRule, Settings
from nvshare.core.modes import MODES
from nvshare.core.modes.balanced import Balanced

BIG = 9 * GIB
DRAIN_MS = 400
ANSWER_MS = 600


def settings(mode: ModeName = "fixed", policy: str = "priority") -> Settings:
    return Settings(policy=policy, quantum=QuantumRule(mode=mode, fixed_ns=300 * SECOND))


def batch_gpu(mode: ModeName = "fixed", policy: str = "priority", tick_ms: int = 25) -> BusyGpu:
    """One client fills the card."""
    gpu = BusyGpu(settings(mode, policy), tick_ms=tick_ms)
    gpu.add(need=BIG, queued_ms=DRAIN_MS)
    return gpu


def holders(gpu: BusyGpu) -> set[int]:
    return set(gpu.node.gpus["g0"].turns.staying)


def answer_ms(gpu: BusyGpu, client: int, most_ms: int = 400_000) -> int:
    """The time until the client has a lock."""
    began = gpu.now_ms
    while not gpu.clients[client].lock and gpu.now_ms - began < most_ms:
        gpu.run(gpu.tick_ms)
    return gpu.now_ms - began


@pytest.mark.parametrize("policy", ["priority", "fair"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("held_ms", [100, 44_000])
@pytest.mark.parametrize("priority", [1, 10])
def test_it_has_the_gpu_after_one_drain(mode: ModeName, policy: str, held_ms: int, priority: int) -> None:
    """Its quantum has just begun, or lasts for longer than the priority is worth."""
    gpu = batch_gpu(mode, policy)
    gpu.run(held_ms)
    client = gpu.add(need=BIG, priority=priority)
    assert answer_ms(gpu, client) <= ANSWER_MS


@pytest.mark.parametrize("policy", ["priority", "fcfs"])
def test_without_a_higher_priority_it_waits_for_the_end_of_the_quantum(policy: str) -> None:
    gpu = batch_gpu(policy=policy)
    gpu.run(1000)
    client = gpu.add(need=BIG, priority=10 if policy == "fcfs" else 0)
    assert answer_ms(gpu, client) > 200_000


def test_it_takes_the_locks_of_as_many_holders_as_it_needs() -> None:
    gpu = BusyGpu(settings(), tick_ms=25)
    for _ in range(2):
        gpu.add(need=5 * GIB, queued_ms=DRAIN_MS // 2)
    gpu.run(1000)
    client = gpu.add(need=12 * GIB, priority=1)
    assert answer_ms(gpu, client) <= ANSWER_MS
    assert set(gpu.drops()) == {(1, "priority"), (2, "priority")}


def test_it_takes_no_lock_if_it_would_still_have_to_wait_for_an_equal() -> None:
    gpu = BusyGpu(settings(), tick_ms=25)
    gpu.add(need=5 * GIB)
    gpu.add(need=5 * GIB, priority=3)
    gpu.run(1000)
    gpu.add(need=12 * GIB, priority=3)
    gpu.run(10_000)
    assert gpu.drops() == []


def test_it_takes_the_lock_of_a_lower_priority_although_an_equal_would_leave_first() -> None:
    """Either of the two would be enough. The older one is first in the order of the mode."""
    gpu = BusyGpu(settings(), tick_ms=25)
    gpu.add(need=5 * GIB, priority=3, queued_ms=DRAIN_MS // 2)
    gpu.run(1000)
    gpu.add(need=5 * GIB, queued_ms=DRAIN_MS // 2)
    gpu.run(1000)
    client = gpu.add(need=9 * GIB, priority=3)
    assert answer_ms(gpu, client) <= ANSWER_MS
    assert gpu.drops() == [(2, "priority")]


def test_the_others_finish_their_quantum_if_the_first_one_leaves_meanwhile() -> None:
    """The next one outranks nobody, so it waits, and the preempted client gets its lock back."""
    gpu = BusyGpu(settings(), tick_ms=25)
    gpu.add(need=5 * GIB, priority=3, queued_ms=DRAIN_MS // 2)
    gpu.add(need=5 * GIB, queued_ms=DRAIN_MS // 2)
    gpu.run(1000)
    gpu.add(need=14 * GIB)
    gpu.run(1000)
    client = gpu.add(need=9 * GIB, priority=3)
    gpu.run(gpu.tick_ms)
    del gpu.clients[client]
    gpu.handle(ev.ClientLeft(client))
    gpu.run(2000)
    assert gpu.drops() == [(2, "priority")]
    assert holders(gpu) == {1, 2}


def test_two_of_higher_priority_both_have_it_after_their_drains() -> None:
    """The second one becomes first when the first one is admitted."""
    gpu = BusyGpu(settings(), tick_ms=25)
    for _ in range(2):
        gpu.add(need=6 * GIB, queued_ms=DRAIN_MS // 2)
    gpu.run(1000)
    for _ in range(2):
        gpu.add(need=6 * GIB, priority=1)
    answers = [answer_ms(gpu, client) for client in (3, 4)]
    assert sum(answers) <= 2 * ANSWER_MS
    assert gpu.drops() == [(1, "priority"), (2, "priority")]


def test_bursts_are_answered_for_as_long_as_the_batch_job_waits_little() -> None:
    """1 s of work in 10 s, for half an hour: the batch job works for the rest, which does not count as waiting."""
    gpu = BusyGpu(settings(), tick_ms=125)
    gpu.add(need=BIG, queued_ms=DRAIN_MS, move_ms=500)
    gpu.add(need=BIG, priority=10, queued_ms=125, move_ms=500, wants=lambda ms: ms % 10_000 < 1000)
    longest = 0
    for _ in range(180):
        gpu.run(10_000 - gpu.now_ms % 10_000)
        longest = max(longest, answer_ms(gpu, 2))
    assert longest <= ANSWER_MS + 250
    assert gpu.clients[1].used_ms > 0.7 * gpu.now_ms


@pytest.mark.parametrize("mode", MODES)
def test_a_client_that_waits_for_as_long_as_the_priority_is_worth_gets_a_whole_quantum(mode: ModeName) -> None:
    """The other one rests for a moment only, so that it comes back again and again. In mode balanced it is a visitor,
    and moves cost nothing here, so the quantum before its visits is as short as they are."""
    gpu = batch_gpu(mode, tick_ms=125)
    gpu.add(need=BIG, priority=10, queued_ms=125, wants=lambda ms: ms % 2000 < 1750)
    turn, longest = 0, 0
    for _ in range(1000 * 8):
        gpu.run(125)
        turn = turn + 125 if gpu.clients[1].lock else 0
        longest = max(longest, turn)
    assert longest >= (1_750 if mode == "balanced" else 9_000)
    assert max(one.waited_total for one in gpu.node.gpus["g0"].turns.seats.values()) < 1000 * SECOND


def test_long_turns_of_its_past_do_not_outweigh_its_priority() -> None:
    """Mode balanced lets clients with long turns wait longer, by up to 300 s (lag)."""
    gpu = batch_gpu("balanced", tick_ms=125)
    gpu.add(need=BIG, priority=1, queued_ms=DRAIN_MS, wants=lambda ms: ms % 100_000 > 50_000)
    gpu.run(149_000)
    assert gpu.node.gpus["g0"].turns.mode.lag_ns(gpu.node.gpus["g0"].turns.seats[2]) > 30 * SECOND
    gpu.run(252_000 - gpu.now_ms)
    assert holders(gpu) == {2}


def test_an_order_raises_a_client_that_waits_and_lowers_one_that_runs() -> None:
    for group, priority in (("run/2", 5), ("run/1", -5)):
        gpu = batch_gpu()
        gpu.run(1000)
        client = gpu.add(need=BIG)
        gpu.run(20_000)
        assert not gpu.clients[client].lock
        gpu.handle(ev.PrioritySet(group, priority))
        assert answer_ms(gpu, client) <= ANSWER_MS


def test_an_order_for_a_client_that_waits_with_a_lag_counts_at_once() -> None:
    gpu = batch_gpu("balanced", tick_ms=125)
    gpu.add(need=BIG, queued_ms=DRAIN_MS)
    turns = gpu.node.gpus["g0"].turns
    assert isinstance(turns.mode, Balanced)
    turns.mode.habits.cost.set_measured(SECOND // 5)
    for _ in range(100):
        gpu.run(1000)
        waiting = [seat for seat in turns.queue if seat.lag_ns > 100 * SECOND]
        if waiting:
            break
    (seat,) = waiting
    gpu.handle(ev.PrioritySet(f"run/{seat.client}", 1))
    assert answer_ms(gpu, seat.client) <= ANSWER_MS + 250
    gpu.handle(ev.PrioritySet(f"run/{seat.client}", None))
    gpu.run(60_000)
    assert holders(gpu) != set()


def test_an_order_during_a_drain_moves_the_rank_of_a_client_that_is_preempted() -> None:
    gpu = batch_gpu()
    gpu.run(1000)
    gpu.add(need=BIG, priority=10)
    gpu.run(gpu.tick_ms)
    (batch,) = gpu.node.gpus["g0"].turns.dropping.values()
    before = batch.outranked_rank
    assert before is not None
    gpu.handle(ev.PrioritySet(f"run/{batch.client}", -10))
    assert batch.outranked_rank == before + 10 * 30 * SECOND


def test_with_weights_a_priority_says_how_soon_and_the_weight_how_much() -> None:
    """The light one has the higher priority; both always have work, so its lead soon outweighs its priority."""
    gpu = BusyGpu(Settings(policy="fair", quantum=QuantumRule(mode="fixed", fixed_ns=2 * SECOND)), tick_ms=125)
    gpu.add(need=BIG, weight=300, queued_ms=125)
    gpu.add(need=BIG, weight=100, queued_ms=125, priority=1)
    gpu.run(200_000)
    heavy, light = gpu.run(800_000)
    assert heavy == pytest.approx(3 * light, rel=0.05)

"""Policy fair: a client that is blocked or silent saves up no time, and keeps what it is owed less its pause."""

from collections.abc import Callable
from typing import Any

import pytest

from core.busy_gpu import BusyGpu
from core.naive import Naive
from nvshare.core import events as ev
from nvshare.core.compute.fair_shares import FairShares
from nvshare.core.compute.no_turns import NoTurns
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot
from nvshare.core.turns.seat import Seat

BIG = 12 * GIB
TURNS = Settings(policy="fair", quantum=QuantumRule(mode="fixed", fixed_ns=2 * SECOND))
LONG_TURNS = Settings(policy="fair", quantum=QuantumRule(mode="fixed", fixed_ns=300 * SECOND))


def gpu_with(*clients: tuple[int, int | None]) -> BusyGpu:
    """The weight and the core limit of each."""
    gpu = BusyGpu(TURNS, tick_ms=50)
    for weight, limit in clients:
        gpu.add(weight=weight, limit=limit, need=BIG, queued_ms=50)
    return gpu


def test_after_a_pause_both_go_on_with_their_shares() -> None:
    gpu = gpu_with((100, None), (100, None))
    gpu.run(20_000)
    gpu.handle(ev.PauseSet(True, "run/1"))
    gpu.run(600_000)
    gpu.handle(ev.PauseSet(False, "run/1"))
    assert gpu.run(60_000) == pytest.approx([50, 50], abs=5)


def test_after_a_pause_of_the_gpu_nobody_owes_anything() -> None:
    gpu = gpu_with((100, None), (100, None))
    gpu.run(3_000)
    gpu.handle(ev.PauseSet(True, gpu="g0"))
    assert gpu.run(20_000) == pytest.approx([0, 0], abs=1)
    gpu.handle(ev.PauseSet(False, gpu="g0"))
    assert gpu.run(20_000) == pytest.approx([50, 50], abs=10)


def test_after_a_core_limit_too() -> None:
    gpu = gpu_with((100, 10), (100, None))
    gpu.run(600_000)
    gpu.handle(ev.CoreLimitSet("run/1", None))
    assert gpu.run(60_000) == pytest.approx([50, 50], abs=5)


def test_a_client_with_a_core_limit_leaves_the_rest_in_proportion_to_the_weights() -> None:
    """As `status` says that it is due to them."""
    gpu = gpu_with((1000, 10), (100, None), (300, None))
    gpu.run(300_000)
    assert gpu.run(200_000) == pytest.approx([10, 22.5, 67.5], rel=0.05)
    clients = snapshot(gpu.node, gpu.now_ms * MILLISECOND).clients
    assert [seat.due_percent for client in clients for seat in client.seats] == pytest.approx([10, 22.5, 67.5])


def test_a_newcomer_and_a_client_with_a_core_limit_leave_the_third_one_its_share() -> None:
    gpu = gpu_with((100, 25), (100, None))
    gpu.run(600_000)
    gpu.add(need=BIG, queued_ms=50)
    assert gpu.run(100_000) == pytest.approx([25, 37.5, 37.5], abs=5)


class Bursts:
    """Work for half a second, 10 s after the last was done; and for how long each took."""

    def __init__(self) -> None:
        self.gpu: BusyGpu | None = None
        self.due_ms = 30_000
        self.done_ms = 0.0
        self.took_ms: list[int] = []

    def __call__(self, ms: int) -> bool:
        if self.gpu is None or ms < self.due_ms:
            return False
        used = list(self.gpu.clients.values())[-1].used_ms
        if used - self.done_ms < 500:
            return True
        self.took_ms.append(ms - self.due_ms)
        self.due_ms, self.done_ms = ms + 10_000, used
        return False


@pytest.mark.parametrize("limit", [10, 25])
def test_a_high_priority_counts_beside_a_batch_job_with_a_core_limit(limit: int) -> None:
    gpu, bursts = gpu_with((100, limit), (100, None)), Bursts()
    gpu.add(need=BIG, queued_ms=50, priority=10, wants=bursts)
    bursts.gpu = gpu
    gpu.run(600_000)
    assert len(bursts.took_ms) > 50
    assert sum(bursts.took_ms) / len(bursts.took_ms) <= 1000


# What is owed, exactly.

STOPS: dict[str, tuple[ev.Event, ev.Event]] = {
    "paused": (ev.PauseSet(True, "run/2"), ev.PauseSet(False, "run/2")),
    "silent": (ev.ClientSilent(2), ev.ClientHeard(2)),
}


def two_of_which_one_waits() -> list[tuple[int, ev.Event]]:
    return [
        *((0, ev.ClientRegistered(one, f"run/{one}", "x", "x", (Claim("g0", 16 * GIB),))) for one in (1, 2)),
        *((0, ev.LockRequested(one, "g0", Memory(BIG))) for one in (1, 2)),
    ]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize(("pause_s", "owed_s"), [(0, 20), (5, 15), (19, 1), (20, 0), (200, 0)])
def test_what_it_is_owed_is_less_by_the_length_of_its_pause(stop: str, pause_s: int, owed_s: int) -> None:
    node, (stopped, resumed) = Node(LONG_TURNS, epoch=1, is_paranoid=True), STOPS[stop]
    for at, event in two_of_which_one_waits():
        node.handle(at, event)
    rank = node.gpus["g0"].turns.seats[2].rank
    node.handle(20 * SECOND, stopped)
    now = (20 + pause_s) * SECOND
    node.handle(now, resumed)
    assert node.gpus["g0"].turns.seats[2].tag == now - owed_s * SECOND
    assert node.gpus["g0"].turns.seats[2].rank == rank


def test_a_client_that_is_held_back_by_its_weight_competes_until_it_is_paused() -> None:
    gpu = BusyGpu(Settings(policy="fair"))
    for weight in (100, 300):
        gpu.add(weight=weight)
    turns = gpu.node.gpus["g0"].turns
    while not turns.blocked:
        gpu.run(5)
    competing: list[set[int]] = []
    for event in (ev.AlarmRang(), ev.PauseSet(True, "run/1"), ev.PauseSet(False, "run/1")):
        gpu.handle(event)
        assert isinstance(turns.ranking.fair_shares, FairShares)
        competing.append(set(turns.ranking.fair_shares._members))
    assert competing == [{1, 2}, {2}, {1, 2}]


def go_on(real: Callable[..., bool]) -> Callable[..., bool]:
    """Every blocked client competes, as in the core once."""
    return lambda self, seat: True


def forget(real: Callable[..., None]) -> Callable[..., None]:
    """It returns without what it was owed."""

    def wait_paused(self: FairShares, now: int, seat: Seat) -> None:
        real(self, now, seat)
        seat.owed_until = 0

    return wait_paused


FAULTS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "blocked clients compete": (NoTurns, "keeps_competing", go_on),
    "a pause costs all that is owed": (FairShares, "wait_paused", forget),
}


@pytest.mark.parametrize("fault", ["", *FAULTS])
def test_the_naive_account_finds_a_core_that_counts_a_pause_wrongly(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, naive = Node(LONG_TURNS, epoch=1, is_paranoid=True), Naive(LONG_TURNS, None)
    if fault:
        part, name, broken = FAULTS[fault]
        monkeypatch.setattr(part, name, broken(getattr(part, name)))
    events = [*two_of_which_one_waits(), (20, STOPS["paused"][0]), (25, STOPS["paused"][1]), (400, ev.AlarmRang())]
    said = ""
    try:
        for at, event in events:
            naive.before(at * SECOND, event)
            naive.after(at * SECOND, node.handle(at * SECOND, event), node)
    except AssertionError as error:
        said = str(error)
    assert ("the right tag" in said or "a tag grows" in said) == bool(fault), said
    assert bool(said) == bool(fault)

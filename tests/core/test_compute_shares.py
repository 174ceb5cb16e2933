"""Core limits, and weights side by side: on a simulated GPU, judged by what clients really had."""

import pytest

from core.busy_gpu import TICK_MS, BusyGpu
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.compute.compute_shares import LEAST_PRUNED
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot

FAIR = Settings(policy="fair")
TURNS = Settings(quantum=QuantumRule(mode="fixed", fixed_ns=2 * SECOND))
BIG = 12 * GIB


def state(gpu: BusyGpu, client: int) -> tuple[str, str | None]:
    seat = next(one for one in snapshot(gpu.node, gpu.now_ms * MILLISECOND).clients if one.id == client).seats[0]
    return seat.state, seat.held_back_by


# Core limits.


@pytest.mark.parametrize("percent", [25, 50, 75])
@pytest.mark.parametrize("queued_ms", [20, 400])
@pytest.mark.parametrize("reports", [True, False], ids=["reports", "no reports"])
def test_a_program_alone_gets_its_core_limit(percent: int, queued_ms: int, reports: bool) -> None:
    gpu = BusyGpu(reports=reports)
    gpu.add(limit=percent, queued_ms=queued_ms)
    gpu.run(2000)
    assert gpu.run(20_000) == pytest.approx([percent], abs=3)


def test_on_a_machine_that_is_up_for_days_a_new_limit_looks_at_the_programs_turn_only() -> None:
    node, booted = Node(Settings(), epoch=1), 10 * 24 * 3600 * SECOND
    node.handle(booted, ev.ClientRegistered(1, "run/1", "x", "x", (Claim("g0", 16 * GIB),)))
    node.handle(booted, ev.LockRequested(1, "g0", Memory(GIB)))
    assert node.gpus["g0"].turns.gpu_time.pending(booted + SECOND).looks <= 1001
    node.handle(booted + SECOND, ev.CoreLimitSet("run/1", 25))
    (client,) = snapshot(node, booted + SECOND).clients
    assert client.seats[0].core_limit_percent == 25


def test_it_is_said_when_a_program_that_is_held_back_goes_on() -> None:
    gpu = BusyGpu()
    gpu.add(limit=25)
    while state(gpu, 1) != ("blocked", "core limit"):
        gpu.run(TICK_MS)
    (client,) = snapshot(gpu.node, gpu.now_ms * MILLISECOND).clients
    wait_ns = client.seats[0].held_back_ns
    assert wait_ns is not None
    assert 50 * MILLISECOND < wait_ns < 2 * SECOND
    gpu.run(wait_ns // MILLISECOND - TICK_MS)
    assert state(gpu, 1) == ("blocked", "core limit")
    gpu.run(6 * TICK_MS)
    (client,) = snapshot(gpu.node, gpu.now_ms * MILLISECOND).clients
    assert (client.seats[0].state, client.seats[0].held_back_ns) == ("running", None)


def test_two_programs_with_core_limits_get_theirs_side_by_side() -> None:
    gpu = BusyGpu()
    gpu.add(limit=30)
    gpu.add(limit=60)
    gpu.run(2000)
    assert gpu.run(20_000) == pytest.approx([30, 60], rel=0.05)


def test_a_client_that_has_no_limit_gets_the_rest() -> None:
    gpu = BusyGpu()
    gpu.add(limit=20)
    gpu.add()
    gpu.run(2000)
    assert gpu.run(20_000) == pytest.approx([20, 80], abs=2)


def test_a_new_limit_takes_effect_within_a_second_and_a_removed_one_at_once() -> None:
    gpu = BusyGpu()
    gpu.add(limit=75)
    gpu.run(5000)
    gpu.handle(ev.CoreLimitSet("run/1", 25))
    gpu.run(1000)
    assert gpu.run(10_000) == pytest.approx([25], abs=3)
    gpu.handle(ev.CoreLimitSet("run/1", None))
    assert gpu.run(1000) == pytest.approx([100], abs=1)


def test_idle_time_is_saved_up_for_a_quarter_of_a_second_only() -> None:
    gpu = BusyGpu()
    gpu.add(limit=20, queued_ms=5, wants=lambda ms: ms > 10_000)
    gpu.run(10_000)
    assert gpu.run(2000) == pytest.approx([20 + 12.5], abs=3)


def test_a_client_that_is_held_back_is_blocked_and_says_why() -> None:
    gpu = BusyGpu()
    gpu.add(limit=10, queued_ms=5)
    gpu.run(500)
    assert state(gpu, 1) == ("blocked", "core limit")
    assert set(gpu.drops()) == {(1, "share")}


def test_a_process_that_starts_again_owes_what_its_group_owed() -> None:
    gpu = BusyGpu()
    gpu.add(limit=10, queued_ms=400)
    gpu.run(500)
    gpu.handle(ev.ClientRegistered(7, "run/1", "x", "x", (Claim("g0", 16 * GIB),)))
    gpu.handle(ev.ClientLeft(1))
    gpu.clients[7] = gpu.clients.pop(1)
    gpu.clients[7].id, gpu.clients[7].lock = 7, 0
    gpu.run(500)
    assert state(gpu, 7) == ("blocked", "core limit")


def test_memory_does_not_move_for_a_core_limit_before_the_quantum_is_over() -> None:
    """Two that do not fit together: a debt of one turn is repaid in the turns of the other."""
    gpu = BusyGpu(TURNS)
    gpu.add(limit=25, need=BIG)
    gpu.add(need=BIG)
    gpu.run(1_900)
    assert gpu.drops() == []
    gpu.run(200)
    assert gpu.drops() == [(1, "share")]
    gpu.run(6_000)
    assert gpu.run(32_000) == pytest.approx([25, 75], abs=4)


def test_a_long_wait_because_of_a_core_limit_is_not_blamed_on_the_host() -> None:
    gpu = BusyGpu(TURNS)
    gpu.add(limit=5, need=BIG)
    gpu.add(need=BIG)
    gpu.run(35_000)
    (report,) = [action for action in gpu.actions if isinstance(action, ac.ReportLongWait)]
    assert (report.client, report.place, report.holder, report.is_held_back) == (1, 1, 2, True)


def test_a_run_whose_processes_want_a_limit_remembers_what_the_last_one_owed() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", GIB))
    for client in (1, 2):
        node.handle(client * SECOND, ev.ClientRegistered(client, "run/1", "x", "x", (Claim("g0", GIB),)))
        node.handle(client * SECOND, ev.CoreLimitWanted(client, 10))
        node.handle(client * SECOND, ev.LockRequested(client, "g0", Memory(0)))
        if client == 1:
            node.handle(2 * SECOND - 1, ev.ClientLeft(1))
            assert node.next_deadline() is None
    assert node.gpus["g0"].turns.seats[2].state == "blocked"
    assert node.next_deadline() is not None


def test_an_order_for_nobody_changes_nothing() -> None:
    assert Node(Settings(), epoch=1).handle(0, ev.CoreLimitSet("run/1", None)) == []


def test_groups_without_clients_are_forgotten_when_they_owe_nothing() -> None:
    node = Node(Settings(), epoch=1)
    for number in range(1, 3 * LEAST_PRUNED):
        node.handle(number * SECOND, ev.ClientRegistered(number, f"run/{number}", "x", "x", (Claim("g0", GIB),)))
        node.handle(number * SECOND, ev.CoreLimitWanted(number, 30))
        if number > 1:
            node.handle(number * SECOND, ev.ClientLeft(number))
    shares = node.gpus["g0"].compute_shares
    assert list(shares._caps) == ["run/1"]
    assert len(shares._dormant) <= LEAST_PRUNED


def test_a_job_is_held_back_as_a_whole() -> None:
    """Two processes that use collectives; one of their GPUs is over the limit. All locks go, none comes alone."""
    node = Node(Settings(), epoch=1, is_paranoid=True)
    for client, uuid in ((1, "g0"), (2, "g1")):
        node.handle(0, ev.ClientRegistered(client, "run/1", "x", "x", (Claim(uuid, GIB),)))
        node.handle(0, ev.CollectivesUsed(client))
    locks: dict[int, int] = {}
    for client, uuid in ((1, "g0"), (2, "g1")):
        for action in node.handle(0, ev.LockRequested(client, uuid, Memory(0))):
            if isinstance(action, ac.GiveLock):
                locks[action.client] = action.lock
    assert node.gangs.all
    node.handle(0, ev.CoreLimitSet("run/1", 50))
    now = 0
    dropped: list[ac.Action] = []
    while not dropped:
        now = node.next_deadline() or 0
        dropped = [one for one in node.handle(now, ev.AlarmRang()) if isinstance(one, ac.DropLock)]
    assert {one.client for one in dropped if isinstance(one, ac.DropLock)} == {1, 2}
    given = node.handle(now, ev.LockReleased(1, "g0", locks[1], True))
    given += node.handle(now, ev.LockReleased(2, "g1", locks[2], True))
    assert not [one for one in given if isinstance(one, ac.GiveLock)]
    assert [node.gpus[uuid].turns.seats[client].state for client, uuid in ((1, "g0"), (2, "g1"))] == ["blocked"] * 2
    given = []
    while not given:
        now = node.next_deadline() or 0
        given = [one for one in node.handle(now, ev.AlarmRang()) if isinstance(one, ac.GiveLock)]
    assert {one.client for one in given if isinstance(one, ac.GiveLock)} == {1, 2}


# Weights.


@pytest.mark.parametrize("queued_ms", [20, 400])
@pytest.mark.parametrize("reports", [True, False], ids=["reports", "no reports"])
def test_weights_are_proportions_side_by_side(queued_ms: int, reports: bool) -> None:
    gpu = BusyGpu(FAIR, reports=reports)
    for weight in (100, 200, 500):
        gpu.add(weight=weight, queued_ms=queued_ms)
    gpu.run(2000)
    assert gpu.run(30_000) == pytest.approx([12.5, 25, 62.5], rel=0.05)
    assert {cause for _, cause in gpu.drops()} == {"share"}


@pytest.mark.parametrize("wake_ms", [50, 200])
def test_a_client_that_is_released_does_not_lose_the_time_until_its_first_work(wake_ms: int) -> None:
    """On a busy machine a program takes long to wake up. A client that is never held back does not have to."""
    gpu = BusyGpu(FAIR, tick_ms=10)
    for weight in (100, 200, 500):
        gpu.add(weight=weight, queued_ms=50, wake_ms=wake_ms)
    gpu.run(3000)
    assert gpu.run(30_000) == pytest.approx([12.5, 25, 62.5], rel=0.05)


def test_equal_weights_hold_nobody_back() -> None:
    gpu = BusyGpu(FAIR)
    gpu.add(weight=300)
    gpu.add(weight=300)
    assert gpu.run(5000) == pytest.approx([50, 50], abs=1)
    assert gpu.drops() == []


def test_a_client_that_has_no_work_holds_nobody_back_and_saves_nothing_up() -> None:
    """The heavy one works for 2 s in 10 s: its part of the rest goes to the light one, which it does not pay back."""
    gpu = BusyGpu(FAIR)
    gpu.add(queued_ms=20)
    gpu.add(weight=900, queued_ms=20, wants=lambda ms: ms % 10_000 < 2000)
    gpu.run(10_000)
    light, heavy = gpu.run(30_000)
    assert light + heavy > 97
    assert heavy == pytest.approx(18, abs=2)


def test_a_client_that_is_ahead_comes_back_as_soon_as_the_others_pause() -> None:
    gpu = BusyGpu(FAIR)
    gpu.add(queued_ms=5)
    gpu.add(weight=900, queued_ms=5, wants=lambda ms: ms < 1000)
    gpu.run(950)
    assert state(gpu, 1) == ("blocked", "weight")
    gpu.run(100)
    assert state(gpu, 1) == ("running", None)


def test_a_client_that_was_ahead_and_wants_nothing_is_released() -> None:
    gpu = BusyGpu(FAIR)
    gpu.add(queued_ms=200, wants=lambda ms: True)
    gpu.add(weight=900, queued_ms=5)
    while 1 not in gpu.node.gpus["g0"].turns.no_turns.ahead:
        gpu.run(5)
    gpu.clients[1].wants = lambda ms: False
    gpu.run(1000)
    assert not gpu.node.gpus["g0"].turns.no_turns.ahead
    assert state(gpu, 1) == ("idle", None)


def test_without_policy_fair_weights_hold_nobody_back() -> None:
    gpu = BusyGpu(FAIR)
    gpu.add(queued_ms=5)
    gpu.add(weight=900, queued_ms=5)
    gpu.run(2000)
    gpu.handle(ev.PolicySet("fcfs"))
    assert gpu.run(2000) == pytest.approx([50, 50], abs=1)
    assert not gpu.node.gpus["g0"].turns.no_turns.ahead


def test_a_client_that_is_ahead_may_leave() -> None:
    gpu = BusyGpu(FAIR)
    gpu.add(queued_ms=5)
    gpu.add(weight=900, queued_ms=5)
    gpu.run(1000)
    gpu.add(weight=300, queued_ms=5)
    gpu.run(500)
    gpu.handle(ev.ClientLeft(1))
    del gpu.clients[1]
    gpu.run(2000)
    assert gpu.run(8000) == pytest.approx([75, 25], rel=0.05)


def test_memory_does_not_move_for_a_weight_before_the_quantum_is_over() -> None:
    """The third does not fit beside the first two: they run side by side as equals for their turn."""
    gpu = BusyGpu(Settings(policy="fair", quantum=QuantumRule(mode="fixed", fixed_ns=10 * SECOND)))
    gpu.add(need=5 * GIB, queued_ms=5)
    gpu.add(weight=300, need=5 * GIB, queued_ms=5)
    gpu.add(need=9 * GIB)
    gpu.run(1500)
    assert gpu.drops() == []

"""The state of a node as plain values: what status, metrics and the live page show."""

from unittest.mock import ANY

import pytest

from nvshare.core import events as ev
from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import GIB, MIB, MILLISECOND, SECOND, Claim, Memory, ModeName, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.queue.expected_start import expected_starts
from nvshare.core.snapshots.claim_snapshot import ClaimSnapshot
from nvshare.core.snapshots.limit_snapshot import LimitSnapshot, limits
from nvshare.core.snapshots.snapshot import (
    ClientSnapshot,
    GpuSnapshot,
    SeatSnapshot,
    Snapshot,
    client_snapshot,
    outlook,
    snapshot,
)
from nvshare.core.turns.turns import Turns


def at(seconds: int) -> int:
    return seconds * SECOND


def test_everything_about_a_running_and_a_waiting_client() -> None:
    node = Node(Settings(quantum=QuantumRule(mode="auto"), policy="fcfs"), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", 10 * GIB, index=3, name="A100"))
    node.handle(0, ev.MemoryMeasured("g0", GIB, foreign_pids=(77, 78)))
    claim = Claim("g0", 10 * GIB)
    node.handle(0, ev.ClientRegistered(1, "run/1", "first run", "train", (claim,), own_limit=8 * GIB, pid=41, uid=7))
    node.handle(0, ev.ClientRegistered(2, "run/2", "second run", "serve", (claim,), priority=3, weight=200, pid=42))
    node.handle(at(1), ev.LockRequested(1, "g0", Memory(swappable=6 * GIB, unswappable=MIB)))
    node.handle(at(2), ev.LockRequested(2, "g0", Memory(swappable=4 * GIB, contexts=1)))
    node.handle(at(31), ev.AlarmRang())
    node.handle(at(32), ev.LockReleased(1, "g0", (1 << 32) + 1, True))
    node.handle(at(40), ev.WorkFinished(2, "g0"))
    used = node.gpus["g0"].turns.gpu_time
    used.divide(at(41))
    first = SeatSnapshot(
        gpu="g0", state="waiting", is_running=False, since_ns=at(9), place=1, memory_allocated=6 * GIB + MIB,
        swappable=6 * GIB, unswappable=MIB, contexts=0, limit=8 * GIB, budget=None, turns=1, held_ns=at(31),
        waited_ns=at(9), last_scheduled_ns=at(40), is_idle=False, need=6 * GIB, expected_start_ns=at(11),
        gpu_percent=ANY, gpu_ns=at(31),
    )  # fmt: skip
    second = SeatSnapshot(
        gpu="g0", state="running", is_running=True, since_ns=at(9), place=0, memory_allocated=4 * GIB,
        swappable=4 * GIB, unswappable=0, contexts=1, limit=0, budget=None, turns=1, held_ns=at(9), waited_ns=at(30),
        last_scheduled_ns=at(9), is_idle=True, need=4 * GIB, gpu_percent=ANY,
        gpu_ns=at(9) - 512 * MILLISECOND,  # what is not reported yet is not counted
    )  # fmt: skip
    gpu = GpuSnapshot(
        uuid="g0", total_memory=10 * GIB, safe_limit=9 * GIB, available_memory=4 * GIB - 401 * MIB,
        running_memory_usage=4 * GIB, unswappable_memory=401 * MIB, foreign_memory=GIB, running=1, waiting=1,
        mode="auto", quantum_ns=at(20), quantum_left_ns=at(11), is_switching=False,
        index=3, name="A100", move_cost_ns=SECOND, foreign_pids=(77, 78),
        busy_ns=used.busy_ns, busy_percent=100.0,
    )  # fmt: skip
    clients = (
        ClientSnapshot(1, "run/1", "first run", "train", 41, 0, 100, (first,), uid=7),
        ClientSnapshot(2, "run/2", "second run", "serve", 42, 3, 200, (second,)),
    )
    assert snapshot(node, at(41)) == Snapshot(
        scheduling=True, settling=False, policy="fcfs", gpus=(gpu,), clients=clients
    )


def test_the_expected_starts_of_a_gpu_are_worked_out_once_for_all_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(Settings(), epoch=1)
    for gpu in ("g0", "g1"):
        node.handle(0, ev.GpuFound(gpu, 10 * GIB))
    for client in range(1, 11):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim(f"g{client % 2}", 10 * GIB),)))
        node.handle(0, ev.LockRequested(client, f"g{client % 2}", Memory(swappable=8 * GIB)))
    asked = []

    def counted(turns: Turns, memory: MemoryPlanner, now: int) -> dict[int, int]:
        asked.append(turns.uuid)
        return expected_starts(turns, memory, now)

    monkeypatch.setattr("nvshare.core.snapshots.snapshot.expected_starts", counted)
    seats = [seat for client in snapshot(node, 0).clients for seat in client.seats]
    assert sum(seat.expected_start_ns is not None for seat in seats) == 8
    assert asked == ["g0", "g1"]


def test_what_was_expected_earlier_counts_down_until_the_client_starts() -> None:
    node = Node(Settings(quantum=QuantumRule(mode="fixed", fixed_ns=at(30))), epoch=1)
    node.handle(0, ev.GpuFound("g0", 10 * GIB))
    for client in (1, 2):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g0", 10 * GIB),)))
        node.handle(0, ev.LockRequested(client, "g0", Memory(swappable=8 * GIB)))
    starts = outlook(node, 0)
    waiting = [client_snapshot(node, node.clients[2], at(second), starts).seats[0] for second in (10, 31)]
    assert [seat.expected_start_ns for seat in waiting] == [at(20), 0]
    node.handle(at(32), ev.ClientLeft(1))
    assert client_snapshot(node, node.clients[2], at(33), starts).seats[0].expected_start_ns is None


def test_a_client_without_gpus_and_an_empty_gpu() -> None:
    node = Node(Settings(), epoch=1, settles_at=5)
    node.handle(0, ev.GpuFound("g0", 10 * GIB))
    node.handle(0, ev.ClientRegistered(1, "run/1", "", "", ()))
    shown = snapshot(node, 0)
    assert shown.settling
    assert shown.clients == (ClientSnapshot(1, "run/1", "", "", 0, 0, 0, ()),)
    assert (shown.gpus[0].quantum_ns, shown.gpus[0].quantum_left_ns) == (10 * SECOND, None)


def test_limits_are_listed_with_who_named_them_and_how_many_clients_they_bind() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    claim = Claim("g0", 10 * GIB)
    node.handle(0, ev.LimitSet("run/later", 2 * GIB))
    node.handle(0, ev.PodChanged("p", "default/p", limit=3 * GIB))
    node.handle(0, ev.ClientRegistered(1, "run/1", "first run", "", (claim,), own_limit=8 * GIB))
    node.handle(0, ev.ClientRegistered(2, "pod/p", "default/p", "", (claim,)))
    node.handle(0, ev.ClientRegistered(3, "pod/p", "default/p", "", (claim,)))
    node.handle(0, ev.ClientRegistered(4, "run/4", "run without a limit", "", (claim,)))
    assert tuple(limits(node)) == (
        LimitSnapshot("run/later", "run/later", 2 * GIB, "operator", 0),
        LimitSnapshot("pod/p", "default/p", 3 * GIB, "annotation", 2),
        LimitSnapshot("run/1", "first run", 8 * GIB, "environment", 1),
    )


def test_claims_are_listed_with_their_pods_and_what_these_use_together() -> None:
    node = Node(Settings(), epoch=1, expects_pods=True, is_paranoid=True)
    node.handle(0, ev.PodsListed())
    node.handle(0, ev.ClaimPrepared("u-1", "team/shared", {"g0": 8 * GIB, "g1": 2 * GIB}))
    node.handle(0, ev.ClaimPrepared("u-2", "team/unused", {"g0": GIB}))
    for pod in ("a", "b"):
        node.handle(0, ev.PodChanged(pod, f"team/{pod}", claims=("team/shared",)))
    node.handle(0, ev.PodChanged("c", "team/c", claims=("team/not-prepared",)))
    for client, pod in enumerate("aabc", 1):
        node.handle(0, ev.ClientRegistered(client, f"pod/{pod}", f"team/{pod}", "", (Claim("g0", 16 * GIB),)))
        node.handle(0, ev.MemoryChanged(client, "g0", Memory(swappable=GIB)))
    assert snapshot(node, 0).claims == (
        ClaimSnapshot("team/shared", "u-1", "g0", 8 * GIB, 3 * GIB, ("team/a", "team/b")),
        ClaimSnapshot("team/shared", "u-1", "g1", 2 * GIB, 0, ("team/a", "team/b")),
        ClaimSnapshot("team/unused", "u-2", "g0", GIB, 0, ()),
    )


def test_of_a_claim_only_the_pods_that_have_it_are_counted() -> None:
    node = Node(Settings(), epoch=1, expects_pods=True, is_paranoid=True)
    node.handle(0, ev.PodsListed())
    node.handle(0, ev.ClaimPrepared("u-1", "team/big", {"g0": 8 * GIB}))
    node.handle(0, ev.ClaimPrepared("u-2", "team/small", {"g0": 2 * GIB}))
    for client, claims in enumerate((("team/big",), ("team/big", "team/small")), 1):
        node.handle(0, ev.PodChanged(f"p{client}", f"team/p{client}", claims=claims))
        registered = ev.ClientRegistered(client, f"pod/p{client}", "", "", (Claim("g0", 16 * GIB),))
        node.handle(0, registered)
        node.handle(0, ev.MemoryChanged(client, "g0", Memory(swappable=client * GIB)))
    assert [(it.label, it.used) for it in snapshot(node, 0).claims] == [("team/big", 3 * GIB), ("team/small", 2 * GIB)]


def test_while_scheduling_is_off_nobody_is_shown_as_idle() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.ClientRegistered(1, "run/1", "", "", (Claim("g0", 10 * GIB),)))
    node.handle(0, ev.SchedulingSwitched(False))
    assert [seat.state for seat in snapshot(node, 0).clients[0].seats] == ["unscheduled"]


def test_a_gpu_is_reserved_for_a_client_that_may_not_be_passed_any_more() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    sizes = {1: 6, 2: 6, 3: 1, 4: 1, 5: 1, 6: 1}
    for client in sizes:
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g0", 10 * GIB),)))
    reserved = []
    for now, (client, gib) in enumerate(sizes.items()):
        node.handle(at(now), ev.LockRequested(client, "g0", Memory(swappable=gib * GIB)))
        if client == 5:  # the last that may pass: it makes room for one more
            node.handle(at(now), ev.ClientLeft(3))
        reserved.append(snapshot(node, at(now)).gpus[0].reserved_for)
    assert reserved == [None, None, None, None, None, 2]


def test_a_gpu_is_reserved_for_the_first_in_the_queue_while_room_is_made_for_it() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    for client in (1, 2, 3):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g0", 10 * GIB),)))
    node.handle(0, ev.LockRequested(1, "g0", Memory(swappable=6 * GIB)))
    node.handle(0, ev.LockRequested(2, "g0", Memory(swappable=6 * GIB)))
    node.handle(at(30), ev.AlarmRang())
    node.handle(at(30), ev.LockRequested(3, "g0", Memory(swappable=GIB)))
    assert snapshot(node, at(30)).gpus[0].reserved_for == 2


def test_a_client_that_does_not_move_memory_says_why() -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.ClientRegistered(1, "g", "g", "n", (Claim("G", 16 * GIB),), moves_memory=True))
    node.handle(1, ev.MoverReported(1, "G", "prefetches have no effect"))
    assert snapshot(node, 1).clients[0].seats[0].not_moving == "prefetches have no effect"
    node.handle(2, ev.MoverReported(1, "G", ""))
    assert snapshot(node, 2).clients[0].seats[0].not_moving == ""


@pytest.mark.parametrize(
    ("mode", "assumed_ns"), [("fixed", SECOND), ("adaptive", SECOND // 5), ("balanced", SECOND // 5)]
)
def test_a_gpu_shows_what_a_move_costs_and_whether_that_is_measured(mode: ModeName, assumed_ns: int) -> None:
    node = Node(Settings(quantum=QuantumRule(mode)), epoch=1)
    node.handle(0, ev.ClientRegistered(1, "g", "g", "n", (Claim("G", 16 * GIB),), moves_memory=True))
    (gpu,) = snapshot(node, 0).gpus
    assert (gpu.move_cost_ns, gpu.is_move_cost_measured) == (assumed_ns, False)
    node.handle(1, ev.LockRequested(1, "G", Memory(2 * GIB)))
    node.handle(SECOND, ev.MemoryMoved(1, "G", False, 2 * GIB, SECOND // 2))
    (gpu,) = snapshot(node, SECOND).gpus
    assert (gpu.move_cost_ns, gpu.is_move_cost_measured) == (SECOND // 4, True)

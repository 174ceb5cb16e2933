"""What each client is due of a GPU's time by its weight, beside what it got."""

import pytest
from msgspec.structs import replace

from core.busy_gpu import BusyGpu
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.queue.policies import POLICIES, weights_ignored
from nvshare.core.snapshots.group_use import Together
from nvshare.core.snapshots.snapshot import snapshot

FAIR = Settings(policy="fair")


def dues(node: Node, now: int = SECOND) -> list[float | None]:
    return [seat.due_percent for client in snapshot(node, now).clients for seat in client.seats]


def node_with(*weights: int, settings: Settings = FAIR, need: int = GIB) -> Node:
    """Clients that all want the GPU, each in a run of its own."""
    node = Node(settings, epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", 16 * GIB))
    for client, weight in enumerate(weights, 1):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g0", 16 * GIB),), weight=weight))
        node.handle(0, ev.LockRequested(client, "g0", Memory(need)))
    return node


@pytest.mark.parametrize("need", [GIB, 10 * GIB], ids=["side by side", "in turns"])
def test_clients_that_compete_are_due_their_parts_of_the_weights(need: int) -> None:
    assert dues(node_with(100, 200, 500, need=need)) == [12.5, 25, 62.5]


@pytest.mark.parametrize("policy", ["priority", "fcfs"])
def test_where_weights_are_ignored_nobody_is_due_anything(policy: str) -> None:
    assert dues(node_with(100, 300, settings=Settings(policy=policy))) == [None, None]


def test_while_scheduling_is_off_nobody_is_due_anything() -> None:
    node = node_with(100, 300)
    node.handle(0, ev.SchedulingSwitched(False))
    assert dues(node) == [None, None]


def test_a_client_without_work_leaves_its_part_to_the_others() -> None:
    node = node_with(100, 300, 100)
    node.handle(0, ev.WorkFinished(1, "g0"))
    assert dues(node) == [None, 75, 25]
    node.handle(0, ev.GpuTimeReported(2, "g0", 0, 0, 0))
    assert dues(node) == [None, None, 100]
    node.handle(0, ev.ClientRegistered(4, "run/4", "", "", (Claim("g0", 16 * GIB),)))
    assert dues(node) == [None, None, 100, None]


def test_a_paused_client_is_due_nothing_and_one_that_is_held_back_is() -> None:
    node = node_with(100, 300, need=10 * GIB)
    node.handle(0, ev.PauseSet(True, group="run/2"))
    assert dues(node) == [100, None]
    gpu = BusyGpu(FAIR)
    gpu.add(weight=100)
    gpu.add(weight=300)
    while not gpu.node.gpus["g0"].turns.blocked:
        gpu.run(5)
    assert dues(gpu.node, gpu.now_ms * MILLISECOND) == [25, 75]


def test_what_a_core_limit_leaves_is_due_to_the_others() -> None:
    node = node_with(100, 100, 200)
    node.handle(0, ev.CoreLimitSet("run/3", 20))
    assert dues(node) == [40, 40, 20]
    node.handle(0, ev.CoreLimitSet("run/1", 10))
    assert dues(node) == [10, 70, 20]
    node.handle(0, ev.CoreLimitSet("run/2", 30))
    assert dues(node) == [10, 30, 20], "the rest stays free"


def test_the_processes_of_a_group_share_its_limit_by_their_weights() -> None:
    node = Node(FAIR, epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", 16 * GIB))
    for client, group, weight in ((1, "run/a", 100), (2, "run/a", 200), (3, "run/b", 100)):
        node.handle(0, ev.ClientRegistered(client, group, "", "", (Claim("g0", 16 * GIB),), weight=weight))
        node.handle(0, ev.LockRequested(client, "g0", Memory(GIB)))
    assert dues(node) == [25, 50, 25]
    node.handle(0, ev.CoreLimitSet("run/a", 30))
    assert dues(node) == pytest.approx([10, 20, 70])


@pytest.mark.parametrize("need", [0, 12 * GIB], ids=["side by side", "in turns"])
def test_what_clients_are_due_is_what_they_get(need: int) -> None:
    gpu = BusyGpu(Settings(policy="fair", quantum=QuantumRule(mode="fixed", fixed_ns=2 * SECOND)))
    for weight in (100, 300):
        gpu.add(weight=weight, need=need)
    gpu.run(20_000)
    got = gpu.run(40_000)
    assert dues(gpu.node, gpu.now_ms * MILLISECOND) == [25, 75]
    assert got == pytest.approx([25, 75], abs=3)


def test_what_the_processes_of_a_group_had_is_added_up_by_gpu() -> None:
    gpu = BusyGpu(FAIR)
    for _ in range(2):
        gpu.add()
    gpu.run(12_000)
    one, other = snapshot(gpu.node, gpu.now_ms * MILLISECOND).clients
    assert Together((one, other)).groups == {
        ("run/1", "g0"): pytest.approx(50, abs=5),
        ("run/2", "g0"): pytest.approx(50, abs=5),
    }
    elsewhere = replace(other, seats=(*other.seats, replace(other.seats[0], gpu="g1", gpu_percent=7.0)))
    together = Together((one, replace(elsewhere, group="run/1"))).groups
    assert together == {("run/1", "g0"): pytest.approx(100, abs=5), ("run/1", "g1"): 7}


def test_weights_count_with_policy_fair_only() -> None:
    reasons = {policy: weights_ignored(policy) for policy in POLICIES}
    assert reasons == {
        "fcfs": "weights count only with policy fair, and the policy is fcfs",
        "fair": "",
        "priority": "weights count only with policy fair, and the policy is priority",
    }

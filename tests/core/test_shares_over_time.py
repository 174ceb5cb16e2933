"""Core limits and weights over long times, with many clients, and when groups and orders come and go."""

from random import Random

import pytest

from core.busy_gpu import BusyGpu
from nvshare.core import events as ev
from nvshare.core.compute.look_bits import LOOK_NS, MOST_APART
from nvshare.core.compute.weighted_time import dues
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.orders import MOST_OWED
from nvshare.core.snapshots.snapshot import snapshot

FAIR = Settings(policy="fair")


def test_programs_that_fit_together_run_together_again_after_long_turns_with_weights() -> None:
    """A credit that is cut off must not leave all with a lead: then one of them would always be held back."""
    gpu = BusyGpu(Settings(policy="fair", quantum=QuantumRule(mode="fixed", fixed_ns=60 * SECOND)))
    for weight in (100, 300, 100):
        gpu.add(weight=weight, need=5 * GIB + GIB // 2)
    gpu.run(300_000)
    both = 0
    for _ in range(300):
        gpu.run(1000)
        both += len(gpu.node.gpus["g0"].turns.running()) > 1
    assert both > 100


def test_a_share_of_more_clients_than_are_told_apart_is_divided_by_weights_and_looks() -> None:
    gpu = BusyGpu(FAIR)
    for number in range(MOST_APART + 2):
        gpu.add(weight=900 if number == 0 else 100, queued_ms=20)
    gpu.run(5_000)
    assert gpu.run(30_000)[0] == pytest.approx(100 * 9 / (9 + MOST_APART + 1), abs=6)


def test_a_lower_limit_does_not_count_for_the_time_before_it() -> None:
    """At rest it has saved up 0.25 s, of which 0.5 s of work at 90 % cost 0.05 s."""
    gpu = BusyGpu()
    gpu.add(limit=90, queued_ms=20, wants=lambda ms: ms > 3000)
    gpu.run(3500)
    gpu.handle(ev.CoreLimitSet("run/1", 5))
    gpu.run(200)
    assert gpu.drops() == []
    gpu.run(200)
    assert gpu.drops() == [(1, "share")]


@pytest.mark.parametrize("others", [[1000], [300, 300]])
def test_the_lightest_weight_counts_beside_the_heaviest(others: list[int]) -> None:
    gpu = BusyGpu(Settings(policy="fair"))
    for weight in (1, *others):
        gpu.add(weight=weight, queued_ms=20)
    assert gpu.run(20_000)[0] < 1


def test_an_order_about_weights_takes_effect_where_nobody_waits() -> None:
    gpu = BusyGpu()
    first, _ = gpu.add(), gpu.add()
    gpu.run(2_000)
    gpu.handle(ev.PolicySet("fair"))
    gpu.handle(ev.WeightSet(f"run/{first}", 300))
    assert gpu.node.next_deadline() is not None
    gpu.run(5_000)
    assert gpu.run(30_000) == pytest.approx([75, 25], abs=5)


def test_the_wish_of_a_process_ends_with_it_on_every_gpu_of_its_group() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    for client, uuid in ((1, "g0"), (2, "g1")):
        node.handle(0, ev.ClientRegistered(client, "run/1", "x", "x", (Claim(uuid, 16 * GIB),)))
    node.handle(0, ev.LockRequested(1, "g0", Memory(GIB)))
    node.handle(1, ev.CoreLimitWanted(2, 10))
    node.handle(SECOND, ev.AlarmRang())
    assert node.gpus["g0"].turns.no_turns.over == {"run/1"}
    node.handle(SECOND + 1, ev.ClientLeft(2))
    assert node.gpus["g0"].turns.no_turns.over == set()


def test_a_counter_of_gpu_time_never_goes_back() -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.ClientRegistered(1, "run/1", "x", "x", (Claim("g0", 16 * GIB),)))
    node.handle(0, ev.LockRequested(1, "g0", Memory(GIB)))
    counted = []
    for look in range(250, 5000, 250):
        node.handle(look * MILLISECOND, ev.GpuTimeReported(1, "g0", first=look - 250, count=250, busy=look % 500 and 7))
        for later in (1, 150):
            counted.append(snapshot(node, (look + later) * MILLISECOND).clients[0].seats[0].gpu_ns)
    assert counted == sorted(counted)
    assert counted[-1] > 0


def test_groups_that_share_a_claim_are_forgotten_one_by_one() -> None:
    node = Node(Settings(), epoch=1, expects_pods=True)
    node.handle(0, ev.ClaimPrepared("u", "team/c", {"g0": GIB}, core_limits={"g0": 30}))
    for pod in range(5):
        node.handle(0, ev.PodChanged(f"p{pod}", f"team/p{pod}", claims=("team/c",)))
    node.handle(0, ev.PodsListed())
    for pod in range(5):
        node.handle(1, ev.ClientRegistered(pod + 1, f"pod/p{pod}", "x", "x", (Claim("g0", 16 * GIB),)))
        if pod:
            node.handle(1, ev.CoreLimitWanted(pod + 1, 20))
            node.handle(2, ev.ClientLeft(pod + 1))
    assert list(node.gpus["g0"].compute_shares.capped) == ["pod/p0"]


def test_what_is_due_is_the_sum_over_looks_of_the_part_of_the_weights() -> None:
    chance = Random(3)
    for _ in range(50):
        clients, looks = chance.randint(0, MOST_APART), chance.randint(1, 600)
        masks = [chance.getrandbits(looks) * chance.randint(0, 1) for _ in range(clients)]
        weights = [chance.randint(1, 1000) for _ in masks]
        totals = [sum(one for one, mask in zip(weights, masks, strict=True) if mask >> k & 1) for k in range(looks)]
        wanted = [
            sum(LOOK_NS * weight / total for k, total in enumerate(totals) if mask >> k & 1)
            for weight, mask in zip(weights, masks, strict=True)
        ]
        assert dues(masks, weights) == pytest.approx(wanted, abs=looks)


def test_debts_of_a_gpu_that_nvml_does_not_know_outlast_its_last_client() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)

    def come_and_work(client: int, at: int) -> str:
        node.handle(at, ev.ClientRegistered(client, "run/1", "x", "x", (Claim("g0", 16 * GIB),)))
        node.handle(at, ev.CoreLimitWanted(client, 10))
        node.handle(at, ev.LockRequested(client, "g0", Memory(GIB)))
        return node.gpus["g0"].turns.seats[client].state

    assert come_and_work(1, 0) == "staying"
    node.handle(SECOND, ev.ClientLeft(1))
    assert come_and_work(2, 2 * SECOND) == "blocked"
    node.handle(3 * SECOND, ev.ClientLeft(2))
    deadline = node.next_deadline()
    assert deadline is not None
    assert 9 * SECOND < deadline < 12 * SECOND
    node.handle(deadline, ev.AlarmRang())
    assert node.gpus == {}
    assert node.next_deadline() is None


def test_debts_of_gpus_that_do_not_exist_are_remembered_for_some_of_them_only() -> None:
    node = Node(Settings(), epoch=1)
    for number in range(2 * MOST_OWED):
        uuid, at = f"g{number}", number * 100 * MILLISECOND
        node.handle(at, ev.ClientRegistered(number, f"run/{number}", "x", "x", (Claim(uuid, GIB),)))
        node.handle(at, ev.CoreLimitWanted(number, 1))
        node.handle(at, ev.LockRequested(number, uuid, Memory(0)))
        node.handle(at + 99 * MILLISECOND, ev.ClientLeft(number))
    assert len(node.gpus) == MOST_OWED

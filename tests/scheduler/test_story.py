"""Why a client runs or waits, in sentences: the reason is the one by which the core decides."""

from typing import Any

import pytest
from msgspec.structs import replace

from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import Snapshot, snapshot
from nvshare.scheduler.observe.names import gpu_described
from nvshare.scheduler.observe.story import summary_of

GPU = "GPU-11111111-2222-3333-4444-555555555555"


def node_with(*names: str) -> Node:
    """Clients 1, 2, … of these names at a GPU of 10 GiB, of which 9 are safe."""
    node = Node(Settings(quantum=QuantumRule(mode="auto")), epoch=1)
    node.handle(0, ev.GpuFound(GPU, 10 * GIB, 0, "A100"))
    for client, name in enumerate(names, 1):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", f"run {client}", name, (Claim(GPU, 10 * GIB),)))
    return node


def ask(node: Node, client: int, gib: float, at_s: int = 0) -> None:
    node.handle(at_s * SECOND, ev.LockRequested(client, GPU, Memory(swappable=int(gib * GIB))))


def told(node: Node, client: int, at_s: int) -> str:
    return summary_of(snapshot(node, at_s * SECOND), client)


def test_the_first_in_the_queue_waits_for_memory() -> None:
    node = node_with("big", "next")
    ask(node, 1, 6)
    ask(node, 2, 4)
    assert told(node, 1, 3) == "big (0001) has been running on GPU 0 (GPU-11111111) for 3.0 s."
    assert told(node, 2, 3) == (
        "next (0002) has been waiting for GPU 0 (GPU-11111111) for 3.0 s, at place 1: it needs 4.00 GiB, and 3.00 GiB"
        " are free beside big (0001); the present turn ends in 27.0 s. It will probably start within 27 s."
    )


def test_one_further_back_is_told_who_is_ahead() -> None:
    node = node_with("big", "next", "last")
    for client in (1, 2, 3):
        ask(node, client, 6)
    assert told(node, 3, 3).endswith(
        "at place 2: it needs 6.00 GiB, and 3.00 GiB are free beside big (0001); next (0002) is ahead of it; the"
        " present turn ends in 27.0 s. It will probably start within 57 s."
    )


def test_one_that_would_fit_is_told_who_may_not_be_passed() -> None:
    node = node_with("big", "next", "small")
    ask(node, 1, 6)
    ask(node, 2, 6)
    node.handle(30 * SECOND, ev.AlarmRang())
    ask(node, 3, 3, at_s=30)
    assert told(node, 3, 31).endswith(
        "at place 2: it would fit (3.00 GiB, 3.00 GiB are free), but next (0002) is ahead and may not be passed. It"
        " will probably start within 1 s."
    )
    assert told(node, 1, 31).endswith("and is finishing its work; its turn has lasted 31.0 s.")
    assert "the present turn is over, and its programs are finishing their work." in told(node, 2, 31)


def test_an_idle_client_and_one_that_left() -> None:
    node = node_with("rests")
    assert told(node, 1, 1) == "rests (0001) has no work for GPU 0 (GPU-11111111)."
    assert summary_of(snapshot(node, 0), 0xBEEF, "gone") == "gone (beef) has left."


def test_a_waiting_client_that_hangs_is_said_to_send_nothing() -> None:
    node = node_with("runs", "hangs")
    ask(node, 1, 10)
    ask(node, 2, 10)
    node.handle(0, ev.ClientSilent(2))
    assert told(node, 2, 1) == (
        "hangs (0002) sends nothing: it was stopped, hangs or is ending. It gets no turn on GPU 0 (GPU-11111111); it"
        " waits again when it sends something."
    )


def test_a_paused_client_is_told_how_that_ends() -> None:
    node = node_with("held")
    node.handle(0, ev.PauseSet(True, "run/1"))
    ask(node, 1, 2)
    told_so = (
        "held (0001) gets no turn on GPU 0 (GPU-11111111): the operator paused it; `nvsharectl resume {}` ends that."
    )
    assert told(node, 1, 1) == told_so.format("0001")
    node.handle(0, ev.PauseSet(True, gpu=GPU))
    node.handle(0, ev.PauseSet(False, "run/1"))
    assert told(node, 1, 1) == told_so.format("--gpu 0")


def test_a_client_paused_by_an_annotation_is_told_so() -> None:
    node = node_with()
    node.handle(0, ev.ClientRegistered(1, "pod/p1", "team/p1", "held", (Claim(GPU, 10 * GIB),)))
    node.handle(0, ev.PodChanged("p1", "team/p1", is_paused=True))
    assert told(node, 1, 1) == (
        "held (0001) gets no turn on GPU 0 (GPU-11111111): its pod has the annotation nvshare.com/gpu-pause."
    )


def test_while_scheduling_is_off_everybody_may_run() -> None:
    node = node_with("free")
    node.handle(0, ev.SchedulingSwitched(False))
    assert told(node, 1, 1) == "free (0001) may run at any time: scheduling is off."


def test_a_gpu_is_described_by_index_model_and_uuid() -> None:
    gpu = node_with().gpus[GPU]
    assert gpu_described(gpu) == f"GPU 0 (A100, {GPU})"
    gpu.index = None
    assert gpu_described(gpu) == f"GPU {GPU}", "NVML does not know it"


def test_many_holders_are_counted_instead_of_named() -> None:
    node = node_with("a", "b", "c", "d", "waits")
    for client in (1, 2, 3, 4):
        ask(node, client, 2)
    ask(node, 5, 2)
    assert "1.00 GiB are free beside 4 clients;" in told(node, 5, 1)


def test_a_gang_is_told_what_it_waits_for_together() -> None:
    node = node_with("first", "second")
    second = GPU.replace("1111", "2222", 1)
    node.handle(0, ev.GpuFound(second, 10 * GIB, 1, "A100"))
    both = (Claim(GPU, 10 * GIB), Claim(second, 10 * GIB))
    node.handle(0, ev.ClientRegistered(3, "run/3", "run 3", "wide", both))
    node.handle(0, ev.ClientRegistered(4, "run/4", "run 4", "rival", (Claim(second, 10 * GIB),)))
    ask(node, 3, 6)
    ask(node, 1, 6)
    for client in (4, 3):
        node.handle(SECOND, ev.LockRequested(client, second, Memory(swappable=6 * GIB)))
    where = "GPU 0 (GPU-11111111)", "GPU 1 (GPU-22221111)"
    assert told(node, 3, 2) == (
        f"wide (0003) has been running on {where[0]} together with {where[1]} for 2.0 s. wide (0003) has been waiting"
        f" for {where[1]} together with {where[0]} for 1.0 s, at place 1: it needs 6.00 GiB, and 3.00 GiB are free"
        " beside rival (0004); the present turn ends in 29.0 s."
    )
    node.handle(30 * SECOND, ev.AlarmRang())
    node.handle(30 * SECOND, ev.LockReleased(3, GPU, 1 << 32 | 1, False))
    node.handle(30 * SECOND, ev.ClientLeft(1))
    assert told(node, 3, 30).startswith(
        f"wide (0003) has been waiting for {where[0]} together with {where[1]} for 0.0 s, at place 1: it would fit, and"
        " waits until the others are available too."
    )
    node.handle(31 * SECOND, ev.AlarmRang())  # rival must go: room is being made for the gang, here there is enough
    assert snapshot(node, 31 * SECOND).gpus[0].reserved_for == 3
    assert told(node, 3, 31).startswith(
        f"wide (0003) has been waiting for {where[0]} together with {where[1]} for 1.0 s, at place 1: it would fit, and"
        " waits until the others are available too."
    )


def held_back(**why: Any) -> Snapshot:
    node = node_with("train", "other")
    ask(node, 1, 1)
    shown = snapshot(node, SECOND)
    first, *others = shown.clients
    seat = replace(first.seats[0], state="blocked", **why)
    return replace(shown, clients=(replace(first, seats=(seat,)), *others))


@pytest.mark.parametrize(("after_ns", "told"), [(SECOND // 25, "40 ms"), (0, "1 ms"), (3 * SECOND // 2, "1.5 s")])
def test_a_client_over_its_core_limit_is_told_when_it_goes_on(after_ns: int, told: str) -> None:
    state = held_back(held_back_by="core limit", core_limit_percent=30, held_back_ns=after_ns)
    assert summary_of(state, 1) == (
        "train (0001) is held back on GPU 0 (GPU-11111111): run 1 is over its core limit of 30 %;"
        f" it goes on in {told}."
    )


def test_a_client_that_is_ahead_of_its_weight_is_told_so() -> None:
    assert summary_of(held_back(held_back_by="weight"), 1) == (
        "train (0001) is held back on GPU 0 (GPU-11111111): it is ahead of its weight of 100, and others who run have"
        " work."
    )


@pytest.mark.parametrize("policy", ["priority", "fair"])
def test_a_weight_that_the_policy_ignores_is_told(policy: str) -> None:
    node = node_with("big")
    node.handle(0, ev.PolicySet(policy))
    node.handle(0, ev.WeightSet("run/1", 300))
    note = " Its weight of 300 has no effect: weights count only with policy fair, and the policy is priority."
    expected = "big (0001) has no work for GPU 0 (GPU-11111111)." + note * (policy == "priority")
    assert told(node, 1, 0) == expected

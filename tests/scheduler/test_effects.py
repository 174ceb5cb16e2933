"""What an order has changed, in the line that the operator gets: names, and what happens now."""

import pytest

from nvshare.core import events as ev
from nvshare.core.model import GIB, MIB, SECOND, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot
from nvshare.journal import Step
from nvshare.scheduler.observe.names import Names
from nvshare.scheduler.operator.effects import effect_of, in_force

RUN = "run/0-a97d7a54c72166c1a29fd279e083fc79"


def node(*, keeps_memory: bool = False) -> Node:
    """One program with 9 GiB on the only GPU."""
    made = Node(Settings(), epoch=1)
    made.handle(0, ev.GpuFound("g0", 16 * GIB, 0, "A100"))
    claim = Claim("g0", 16 * GIB)
    made.handle(
        0, ev.ClientRegistered(1, RUN, "run a97d7a54", "train", (claim,), moves_memory=True, holds_memory=keeps_memory)
    )
    made.handle(0, ev.LockRequested(1, "g0", Memory(swappable=9 * GIB)))
    return made


def told(made: Node, event: ev.Event, now: int = 1) -> str:
    before = in_force(made, event)
    step = Step(now, 1.0, event, tuple(made.handle(now, event)))
    names = Names({1: "train"}, made.gpus, made.groups)
    return effect_of(made, step, names, is_new=in_force(made, event) != before)


def test_a_limit_below_use_says_that_memory_moves_to_the_host() -> None:
    assert told(node(keeps_memory=True), ev.LimitSet(RUN, GIB)) == (
        "run a97d7a54: limit 1.00 GiB on each GPU; it uses 9.00 GiB on GPU 0, which is more: 8.00 GiB of it moves to"
        " the host and is used from there, and new allocations are refused until it uses less than the limit."
    )


def test_a_limit_below_use_of_a_program_that_keeps_nothing_on_the_host_says_that_memory_stays() -> None:
    assert "which is more: what it has allocated stays, and new" in told(node(), ev.LimitSet(RUN, GIB))


def test_a_core_limit_says_what_the_run_had_until_now() -> None:
    made = node()
    for second in range(10):  # it holds the lock all the time
        snapshot(made, second * SECOND)
    effect = told(made, ev.CoreLimitSet(RUN, 30), now=10 * SECOND)
    assert effect == "run a97d7a54: core limit 30 % of each GPU; it had 100 % of GPU 0 lately."


def test_a_core_limit_above_what_the_program_of_a_pod_wants_says_what_applies() -> None:
    made = Node(Settings(), epoch=1)
    made.handle(0, ev.ClientRegistered(1, "pod/a", "default/a", "train", (Claim("g0", GIB),)))
    made.handle(0, ev.CoreLimitWanted(1, 20))
    effect = told(made, ev.CoreLimitSet("pod/a", 30))
    assert "30 % of each GPU, but the core limit of the environment, 20 %, applies, which is lower;" in effect


def test_a_removed_core_limit_says_what_applies_now() -> None:
    made = node()
    made.handle(0, ev.CoreLimitSet(RUN, 30))
    removed = "run a97d7a54: the operator's core limit is removed;"
    assert told(made, ev.CoreLimitSet(RUN, None)) == f"{removed} no core limit applies; 1 process now."
    made.handle(0, ev.CoreLimitSet(RUN, 30))
    made.handle(0, ev.CoreLimitWanted(1, 20))
    now = "the core limit of the environment, 20 %, applies; 1 process now."
    assert told(made, ev.CoreLimitSet(RUN, None)) == f"{removed} {now}"


def test_a_core_limit_of_a_run_without_a_process_says_so() -> None:
    assert told(node(), ev.CoreLimitSet("run/other", 30)) == (
        "run/other: core limit 30 % of each GPU; it has no process now."
    )
    assert "no core limit applies" in told(node(), ev.CoreLimitSet("run/gone", None))


def test_orders_call_a_run_by_its_label() -> None:
    made = node()
    assert told(made, ev.PauseSet(True, RUN)) == "The turns of run a97d7a54 were paused by the operator; 1 process now."
    made.handle(0, ev.PolicySet("fair"))
    assert told(made, ev.WeightSet(RUN, 200)) == "Weight of run a97d7a54 set to 200; 1 process now."
    assert told(made, ev.PrioritySet(RUN, 3)) == "Priority of run a97d7a54 set to 3; 1 process now."


def test_an_order_that_the_policy_ignores_says_so() -> None:
    made = node()
    made.handle(0, ev.PolicySet("priority"))
    assert told(made, ev.WeightSet(RUN, 2)).endswith(
        "; 1 process now; weights count only with policy fair, and the policy is priority."
    )
    assert told(made, ev.WeightSet(RUN, None)).endswith("; 1 process now.")
    assert told(made, ev.PrioritySet(RUN, 3)).endswith("; 1 process now.")
    made.handle(0, ev.PolicySet("fcfs"))
    assert told(made, ev.PrioritySet(RUN, 3)).endswith("; 1 process now; policy fcfs ignores priorities.")


@pytest.mark.parametrize(
    ("order", "effect"),
    [
        (ev.QuantumSet(30 * SECOND), "Quantum 30 s, mode fixed, on all GPUs{already}."),
        (ev.QuantumSet(30 * SECOND, "g0"), "Quantum 30 s, mode fixed, on GPU 0{already}."),
        (ev.ModeSet("auto"), "Mode auto, on all GPUs{already}."),
        (ev.SchedulingSwitched(False), "Scheduling is off{already}: 1 client may run at the same time."),
        (ev.LimitSet(RUN, 300 * MIB), "run a97d7a54: limit 300 MiB on each GPU{already}; it uses 9.00 GiB on GPU 0, "),
        (ev.LimitSet(RUN, 0), "run a97d7a54: no limit{already}."),
        (ev.CoreLimitSet(RUN, 30), "run a97d7a54: core limit 30 % of each GPU{already}; it had 0 % of GPU 0 lately."),
    ],
    ids=lambda it: type(it).__name__,
)
def test_the_same_order_again_says_that_it_was_so_already(order: ev.Event, effect: str) -> None:
    made = node()
    for already in ("", ", as it was already", ", as it was already"):
        assert told(made, order).startswith(effect.format(already=already))


@pytest.mark.parametrize(
    ("order", "effect", "again"),
    [
        (ev.PolicySet("fair"), "Policy set to fair, also for programs that wait now.", "Policy was fair already."),
        (
            ev.PrioritySet(RUN, 3),
            "Priority of run a97d7a54 set to 3; 1 process now.",
            "Priority of run a97d7a54 was 3 already; 1 process now.",
        ),
        (
            ev.PauseSet(True, RUN),
            "The turns of run a97d7a54 were paused by the operator; 1 process now.",
            "The turns of run a97d7a54 were paused already; 1 process now.",
        ),
        (
            ev.PauseSet(True, gpu="g0"),
            "All turns on GPU 0 were paused by the operator; 1 process now.",
            "The turns on GPU 0 were paused already; 1 process now.",
        ),
    ],
    ids=lambda it: type(it).__name__,
)
def test_the_same_order_about_turns_again_says_that_it_was_so_already(order: ev.Event, effect: str, again: str) -> None:
    made = node()
    assert [told(made, order) for _ in range(2)] == [effect, again]


@pytest.mark.parametrize(
    ("order", "effect"),
    [
        (ev.LimitSet(RUN, None), "run a97d7a54: the operator had set no limit; no limit applies."),
        (ev.LimitSet("run/gone", None), "run/gone: the operator had set no limit."),
        (
            ev.CoreLimitSet(RUN, None),
            "run a97d7a54: the operator had set no core limit; no core limit applies; 1 process now.",
        ),
        (ev.WeightSet(RUN, None), "Weight of run a97d7a54 was not the operator's; 1 process now."),
        (ev.PauseSet(False, RUN), "The turns of run a97d7a54 were not paused by the operator."),
        (ev.PauseSet(False, gpu="g0"), "The turns on GPU 0 were not paused by the operator."),
        (ev.SchedulingSwitched(True), "Scheduling is on, as it was already: 1 client take turns where they do not"),
    ],
    ids=lambda it: type(it).__name__,
)
def test_what_was_never_ordered_cannot_be_taken_back(order: ev.Event, effect: str) -> None:
    assert told(node(), order).startswith(effect)


def test_an_order_that_changes_one_of_several_things_is_new() -> None:
    made = node()
    told(made, ev.QuantumSet(30 * SECOND))
    told(made, ev.ModeSet("auto"))
    assert told(made, ev.QuantumSet(30 * SECOND)) == "Quantum 30 s, mode fixed, on all GPUs."
    told(made, ev.ModeSet("auto", "g0"))
    assert told(made, ev.QuantumSet(30 * SECOND)) == "Quantum 30 s, mode fixed, on all GPUs."

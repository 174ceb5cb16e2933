"""What an order has changed, in the line that the operator gets: names, and what happens now."""

from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.journal import Step
from nvshare.scheduler.observe.names import Names
from nvshare.scheduler.operator.effects import effect_of

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


def told(made: Node, event: ev.Event) -> str:
    actions = tuple(made.handle(1, event))
    return effect_of(made, Step(1, 1.0, event, actions), Names({1: "train"}, made.gpus, made.groups))


def test_a_limit_below_use_says_that_memory_moves_to_the_host() -> None:
    assert told(node(keeps_memory=True), ev.LimitSet(RUN, GIB)) == (
        "run a97d7a54: limit 1.00 GiB on each GPU; it uses 9.00 GiB on GPU 0, which is more: 8.00 GiB of it moves to"
        " the host and is used from there, and new allocations are refused until it uses less than the limit."
    )


def test_a_limit_below_use_of_a_program_that_keeps_nothing_on_the_host_says_that_memory_stays() -> None:
    assert "which is more: what it has allocated stays, and new" in told(node(), ev.LimitSet(RUN, GIB))


def test_orders_call_a_run_by_its_label() -> None:
    made = node()
    assert told(made, ev.PauseSet(True, RUN)) == "The turns of run a97d7a54 were paused by the operator; 1 process now."
    assert told(made, ev.WeightSet(RUN, 200)) == "Weight of run a97d7a54 set to 200; 1 process now."
    assert told(made, ev.PrioritySet(RUN, 3)) == "Priority of run a97d7a54 set to 3; 1 process now."

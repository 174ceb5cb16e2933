"""Worlds notice a core that counts GPU time wrongly or does not keep shares."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from core import priority_stories
from nvshare.core import events as ev
from nvshare.core.compute import fair_shares, gpu_time
from nvshare.core.compute.core_cap import CoreCap
from nvshare.core.compute.gpu_time import GpuTime
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.compute.looks import Looks
from nvshare.core.compute.turn_bills import TurnBills
from nvshare.core.compute.weighted_time import WeightedTime
from nvshare.core.model import SECOND
from nvshare.core.node import Node
from nvshare.core.queue.preemption import Preemption
from nvshare.core.turns.seat import Seat
from nvshare.schedsim.worlds.faults import BrokenWorldError, play
from nvshare.schedsim.worlds.process import Process
from nvshare.schedsim.worlds.share_laws import Excess, ShareLaws
from nvshare.schedsim.worlds.world import GPUS, World


def found(seeds: range, steps: int = 600) -> str:
    """What worlds say about the core as it is now."""
    for seed in seeds:
        try:
            play(seed, steps)
        except BrokenWorldError as error:
            return str(error)
    return ""


def charge_all(counts: list[int]) -> list[int]:
    """Each client that was busy is charged for all of the time, however many were."""
    return [count.bit_count() * LOOK_NS for count in counts]


def refund(real: Callable[..., None]) -> Callable[..., None]:
    """A turn that ends gives GPU time back."""

    def turn_ended(self: GpuTime, now: int, seat: Seat) -> None:
        real(self, now, seat)
        seat.gpu_ns //= 2

    return turn_ended


BREACHES: dict[str, tuple[Any, str, Callable[[Any], Any], str]] = {
    "all are charged for all": (gpu_time, "split", lambda real: charge_all, "which was busy for"),
    "idle looks are charged": (
        Looks, "counts", lambda real: lambda self, upto, looks: (1 << looks) - 1, "is charged",
    ),
    "GPU time goes back": (GpuTime, "turn_ended", refund, "went back"),
    "debts are never repaid": (
        CoreCap, "_repaid", lambda real: lambda self, debt, looks, percent: debt, "is held back by its core limit",
    ),
    "leads never end": (
        WeightedTime, "leads", lambda real: lambda self, chunk: (dict.fromkeys(range(1000), 10**12), 1000),
        "is held back by its weight",
    ),
    "turns are billed twice": (
        TurnBills, "_add", lambda real: lambda self, entry, part: real(self, entry, 2 * part), "clients are billed",
    ),
    "what clients owe has no bound": (
        fair_shares, "MAX_LEAD_NS", lambda real: 100 * real, "waits as if it came",
    ),
    "priorities do not preempt": (
        Preemption, "_outranked", lambda real: lambda self, now, head: [], "and outranks",
    ),
}  # fmt: skip


POLICIES = {
    "leads never end": "fair",
    "turns are billed twice": "fair",
    "what clients owe has no bound": "fair",
    "priorities do not preempt": "priority",
}
"""In which worlds it is looked for; otherwise in all."""


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_is_found(breach: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, fault, complaint = BREACHES[breach]
    monkeypatch.setattr(owner, name, fault(getattr(owner, name)))
    if breach in POLICIES:
        monkeypatch.setattr(World, "_policy", lambda self: POLICIES[breach])
    assert complaint in found(range(20))


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_core_limit_that_is_not_kept_is_found(is_kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_kept:
        monkeypatch.setattr(CoreCap, "look", lambda self, now, debt: False)
    world = World(0)
    for process in list(world.processes.values()):
        world.kill(process)
    world.chance.is_calm = True
    world.daemon.tell(ev.CoreLimitSet("run/a", 5))
    process = world.processes[99] = Process(99, "run/a", 0, [GPUS[0]], world, counts_time=True)
    process.do(lambda: process.work(GPUS[0]))
    expected: AbstractContextManager[Any] = (
        nullcontext() if is_kept else pytest.raises(AssertionError, match="more than 5 %")
    )
    with expected:
        world.play(until=world.now + 100 * SECOND)
    node = world.daemon.node
    assert node is not None
    [client] = node.clients.values()
    assert (client.seats[GPUS[0]].gpu_ns < 6 * SECOND) == is_kept


@pytest.mark.parametrize("breach", ["an equal protects a lower priority", "gangs are not outranked"])
@pytest.mark.parametrize("is_broken", [False, True])
def test_priorities_that_do_not_preempt_are_found(
    breach: str, is_broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worlds rarely come to these situations."""
    story, owner, name, fault = priority_stories.BREACHES[breach]
    if is_broken:
        monkeypatch.setattr(owner, name, fault(getattr(owner, name)))
    node = Node(priority_stories.SETTINGS, epoch=priority_stories.EPOCH)
    laws = ShareLaws(0, SECOND)
    with pytest.raises(AssertionError, match="and outranks") if is_broken else nullcontext():
        for now, event in story:
            laws.before(now, event, node)
            node.handle(now, event)
            laws.after(node)


def test_what_was_used_while_the_scheduler_hung_may_be_known_a_step_later() -> None:
    """The first step after it concerns another GPU."""
    excess = Excess(0, 30)
    assert excess.passes(90 * SECOND, 0, 85 * SECOND, has_waiters=False) == 0
    assert excess.passes(90 * SECOND, 40 * SECOND, 0, has_waiters=False) == 0
    assert excess.passes(100 * SECOND, 10 * SECOND, 0, has_waiters=False) == 7 * SECOND

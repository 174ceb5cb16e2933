"""Worlds notice an alarm that has no effect, and a GPU that nobody gets although clients wait for it."""

from contextlib import nullcontext

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.queue.admission import Admission
from nvshare.core.queue.preemption import Preemption
from nvshare.core.turns.seat import Seat
from nvshare.schedsim.worlds.faults import BrokenWorldError, play
from nvshare.schedsim.worlds.waiting_laws import MOST_VAIN, WaitingLaws
from nvshare.schedsim.worlds.week import Week
from nvshare.schedsim.worlds.world import LONG_QUANTUM_NS


def broken(seeds: range) -> str:
    for seed in seeds:
        try:
            play(seed, 600)
        except BrokenWorldError as error:
            return str(error)
    return "nothing was found"


@pytest.mark.parametrize("revokes", [True, False])
def test_a_core_whose_alarm_has_no_effect_is_found_out(revokes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The holder does not release its lock when its grace time is over."""
    if not revokes:
        monkeypatch.setattr(Preemption, "revoke", lambda self, now, out: None)
    settings = Settings(quantum=QuantumRule(mode="fixed", fixed_ns=10 * SECOND))
    node, laws = Node(settings, epoch=1), WaitingLaws(0, settings.grace_ns)
    node.handle(0, ev.GpuFound("g0", 10 * GIB))
    for client in (1, 2):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g0", 10 * GIB),)))
        node.handle(0, ev.LockRequested(client, "g0", Memory(9 * GIB, 0, 1)))
    with nullcontext() if revokes else pytest.raises(AssertionError, match="alarms had no effect"):
        for _ in range(2 * MOST_VAIN):
            now = node.next_deadline() or 0
            laws.check(now, ev.AlarmRang(), node.handle(now, ev.AlarmRang()), node)
    assert (node.clients[2].seats["g0"].lock > 0) == revokes


def test_a_core_that_lets_nobody_in_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 30 s on, as if the first in the queue waited for room without an end."""
    admit = Admission.admit

    def admit_at_first(self: Admission, now: int, out: list[ac.Action]) -> list[Seat]:
        return admit(self, now, out) if now < 30 * SECOND else []

    monkeypatch.setattr(Admission, "admit", admit_at_first)
    assert "nobody has a lock since" in broken(range(1, 11))


def test_orders_of_the_operator_hold_for_an_hour_of_a_week_at_most() -> None:
    """Once policy fair, or a short quantum, held for most of a day."""
    week = Week(2, clients=20)
    hours = week.hours(2)
    next(hours)
    for order in (ev.PolicySet("fair"), ev.QuantumSet(10 * SECOND)):
        week.daemon.tell(order)
    assert _orders(week.daemon.node) == ("fair", [10 * SECOND] * 2)
    next(hours)
    assert _orders(week.daemon.node) == ("fcfs", [LONG_QUANTUM_NS] * 2)


def _orders(node: Node | None) -> tuple[str, list[int]]:
    assert node is not None
    return node.orders.policy, [gpu.rule.fixed_ns for gpu in node.gpus.values()]

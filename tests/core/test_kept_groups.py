"""Groups without a client that are kept for what the operator said: how many, and which."""

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.limits.group_names import PROCESS_PREFIX
from nvshare.core.limits.groups import MAX_KEPT, Order
from nvshare.core.model import GIB, SECOND, Claim, Settings
from nvshare.core.node import Node


def full(**options: int) -> Node:
    """As many groups are kept as may be: run/0, run/1, ..."""
    node = Node(Settings(), epoch=1, is_paranoid=True, settles_at=options.get("settles_at"))
    for number in range(MAX_KEPT):
        node.handle(0, ev.LimitSet(f"run/{number}", GIB))
    return node


def join(node: Node, group: str) -> None:
    node.handle(0, ev.ClientRegistered(1, group, group, "", (Claim("g0", 10 * GIB),)))


def forgotten(group: str) -> ac.ReportLimit:
    return ac.ReportLimit(group, group, GIB, 0)


def test_limits_of_groups_without_a_client_are_bounded_in_number() -> None:
    """One too many, and the one that has been without a client for longest is forgotten, which is reported."""
    node = full()
    join(node, "run/0")
    node.handle(0, ev.ClientLeft(1))
    last = node.handle(0, ev.LimitSet("run/last", GIB))
    assert last == [ac.ReportLimit("run/last", "run/last", 0, GIB), forgotten("run/1")]
    node.handle(0, ev.LimitSet("run/last", 2 * GIB))
    assert len(node.groups) == MAX_KEPT
    assert node.groups["run/0"].limit == GIB


def test_a_group_that_loses_its_last_client_is_one_more() -> None:
    node = full()
    join(node, "run/last")
    node.handle(0, ev.LimitSet("run/last", GIB))
    assert len(node.groups) == MAX_KEPT + 1
    assert forgotten("run/0") in node.handle(0, ev.ClientLeft(1))
    assert len(node.groups) == MAX_KEPT
    assert node.groups["run/last"].limit == GIB


def test_groups_whose_earlier_clients_do_not_come_are_bounded_when_settling_ends() -> None:
    node = full(settles_at=SECOND)
    node.handle(0, ev.LimitSet("run/last", GIB))
    assert len(node.groups) == MAX_KEPT + 1, "its clients may still come"
    assert node.handle(SECOND, ev.AlarmRang()) == [forgotten("run/0")]
    assert len(node.groups) == MAX_KEPT


def test_a_pod_that_kubernetes_has_is_not_forgotten() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.LimitSet("pod/p", GIB))
    node.handle(0, ev.PodChanged("p", "team/p"))
    for number in range(MAX_KEPT + 1):
        node.handle(0, ev.LimitSet(f"run/{number}", GIB))
    assert node.groups["pod/p"].limit == GIB
    assert len(node.groups) == 1 + MAX_KEPT


@pytest.mark.parametrize("is_settling", [True, False])
def test_an_order_for_a_single_process_waits_for_it_only_after_a_restart(is_settling: bool) -> None:
    """Otherwise it is the order for a process that has ended, and its pid may be reused."""
    node = Node(Settings(), epoch=1, is_paranoid=True, settles_at=SECOND if is_settling else None)
    group = PROCESS_PREFIX + "17"
    node.handle(0, ev.WeightSet(group, 300))
    join(node, group)
    assert node.groups[group].order == Order(weight=300 if is_settling else None)
    node.handle(0, ev.ClientLeft(1))
    node.handle(SECOND, ev.AlarmRang())
    assert node.groups == {}

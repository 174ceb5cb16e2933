"""Groups without a client that are kept for what the operator said: how many, and which."""

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.limits.group_names import PROCESS_PREFIX
from nvshare.core.limits.group_order import NO_ORDER, Order
from nvshare.core.limits.groups import MAX_KEPT
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


def forgotten(group: str) -> list[ac.Action]:
    return [ac.ReportLimit(group, group, GIB, 0), ac.ReportForgotten(group, group, GIB, NO_ORDER, is_expected=True)]


def test_limits_of_groups_without_a_client_are_bounded_in_number() -> None:
    """One too many, and the one that has been without a client for longest is forgotten, which is reported."""
    node = full()
    join(node, "run/0")
    node.handle(0, ev.ClientLeft(1))
    last = node.handle(0, ev.LimitSet("run/last", GIB))
    assert last == [ac.ReportLimit("run/last", "run/last", 0, GIB), *forgotten("run/1")]
    node.handle(0, ev.LimitSet("run/last", 2 * GIB))
    assert len(node.groups) == MAX_KEPT
    assert node.groups["run/0"].limit == GIB


def test_a_group_that_loses_its_last_client_is_one_more() -> None:
    node = full()
    join(node, "run/last")
    node.handle(0, ev.LimitSet("run/last", GIB))
    assert len(node.groups) == MAX_KEPT + 1
    assert node.handle(0, ev.ClientLeft(1)) == forgotten("run/0")
    assert len(node.groups) == MAX_KEPT
    assert node.groups["run/last"].limit == GIB


def test_groups_whose_earlier_clients_do_not_come_are_bounded_when_settling_ends() -> None:
    node = full(settles_at=SECOND)
    node.handle(0, ev.LimitSet("run/last", GIB))
    assert len(node.groups) == MAX_KEPT + 1, "its clients may still come"
    assert node.handle(SECOND, ev.AlarmRang()) == forgotten("run/0")
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
def test_an_order_for_a_single_process_is_kept_until_it_has_ended(is_settling: bool) -> None:
    """A process does not get rid of an order by closing its connection."""
    node = Node(Settings(), epoch=1, is_paranoid=True, settles_at=SECOND if is_settling else None)
    group = PROCESS_PREFIX + "17"
    node.handle(0, ev.WeightSet(group, 300))
    for now in (0, SECOND):
        join(node, group)
        assert node.groups[group].order == Order(weight=300)
        node.handle(now, ev.ClientLeft(1))
    node.handle(SECOND, ev.ProcessEnded(group))
    assert node.groups == {}


def test_a_process_that_has_ended_and_whose_connection_is_still_open_takes_its_orders_along_later() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    group = PROCESS_PREFIX + "17"
    join(node, group)
    node.handle(0, ev.LimitSet(group, GIB))
    assert node.handle(0, ev.ProcessEnded(group)) == []
    assert node.handle(0, ev.ClientLeft(1)) == [ac.ReportForgotten(group, group, GIB, NO_ORDER, is_expected=False)]


def test_orders_for_single_processes_are_bounded_in_number() -> None:
    node = full()
    for number in range(2):
        join(node, PROCESS_PREFIX + str(number))
        node.handle(0, ev.LimitSet(PROCESS_PREFIX + str(number), GIB))
        assert node.handle(0, ev.ClientLeft(1)) == forgotten(f"run/{number}")
    assert len(node.groups) == MAX_KEPT


@pytest.mark.parametrize("order", [ev.PauseSet(True, "run/old"), ev.WeightSet("run/old", 300)])
def test_a_forgotten_order_is_not_reported_as_a_change_of_the_memory_limit(order: ev.Event) -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, order)
    given = node.groups["run/old"].order
    for number in range(MAX_KEPT - 1):
        node.handle(0, ev.LimitSet(f"run/{number}", GIB))
    report = ac.ReportForgotten("run/old", "run/old", None, given, is_expected=True)
    assert node.handle(0, ev.LimitSet("run/last", GIB)) == [ac.ReportLimit("run/last", "run/last", 0, GIB), report]


@pytest.mark.parametrize("has_order", [True, False])
def test_the_end_of_a_process_is_reported_if_there_were_orders_for_it(has_order: bool) -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    group = PROCESS_PREFIX + "17"
    join(node, group)
    if has_order:
        node.handle(0, ev.PauseSet(True, group))
    report = ac.ReportForgotten(group, group, None, Order(is_paused=True), is_expected=False)
    assert node.handle(0, ev.ClientLeft(1)) == []
    assert node.handle(0, ev.ProcessEnded(group)) == ([report] if has_order else [])


def test_a_removed_pod_takes_the_orders_for_it_along() -> None:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.PodChanged("p", "team/p"))
    node.handle(0, ev.LimitSet("pod/p", GIB))
    assert node.handle(0, ev.PodRemoved("p")) == [
        ac.ReportForgotten("pod/p", "team/p", GIB, NO_ORDER, is_expected=False)
    ]


@pytest.mark.parametrize("use", ["order", "client", "limit"])
def test_what_is_used_while_the_scheduler_settles_is_forgotten_later(use: str) -> None:
    node = full(settles_at=SECOND)
    if use == "client":
        join(node, "run/0")
        node.handle(0, ev.ClientLeft(1))
    else:
        node.handle(0, ev.LimitSet("run/0", GIB) if use == "limit" else ev.WeightSet("run/0", 300))
    node.handle(0, ev.LimitSet("run/last", GIB))
    assert node.handle(SECOND, ev.AlarmRang()) == forgotten("run/1")

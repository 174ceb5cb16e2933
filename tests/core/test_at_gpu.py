"""What the clients of one GPU use, read while clients come and go."""

from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.at_gpu import clients_at, count_use
from nvshare.core.snapshots.group_use import Together
from nvshare.core.snapshots.snapshot import snapshot


def node_of(uids: list[int | None]) -> Node:
    """Client n is in run n, and at GPU g."""
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g", 80 * GIB))
    for client, uid in enumerate(uids, start=1):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "run", "x", (Claim("g", 80 * GIB),), uid=uid))
    return node


def test_a_client_that_leaves_while_others_are_read_is_left_out() -> None:
    node = node_of([7, 7, 7])
    clients = clients_at(node, "g", lambda: SECOND)
    assert next(clients).id == 1
    node.handle(SECOND, ev.ClientLeft(2, "closed"))
    assert [client.id for client in clients] == [3]


def test_a_gpu_that_is_not_known_has_no_clients() -> None:
    node = node_of([7])
    assert list(clients_at(node, "other", lambda: SECOND)) == []
    assert list(count_use(node, "other", lambda: SECOND, Together())) == []


def test_all_clients_of_a_gpu_are_counted() -> None:
    node, had = node_of([7, 8]), Together()
    assert len(list(count_use(node, "g", lambda: SECOND, had))) == 2
    assert had.groups == {("run/1", "g"): 0.0, ("run/2", "g"): 0.0}


def test_the_use_of_a_user_is_that_of_all_its_groups() -> None:
    first, second, third = snapshot(node_of([7, 7, None]), SECOND).clients
    used = Together()
    for group, uid, percent in (("run/1", 7, 30.0), ("run/2", 7, 20.0), ("run/3", None, 5.0)):
        used.add(group, uid, "g", percent)
    assert (used.group(first, first.seats[0]), used.user(first, first.seats[0])) == (30.0, 50.0)
    assert (used.group(second, second.seats[0]), used.user(second, second.seats[0])) == (20.0, 50.0)
    assert (used.group(third, third.seats[0]), used.user(third, third.seats[0])) == (5.0, None)


def test_a_client_that_came_after_the_others_were_counted_has_at_least_its_own_use() -> None:
    (client,) = snapshot(node_of([7]), SECOND).clients
    assert (Together().group(client, client.seats[0]), Together().user(client, client.seats[0])) == (0.0, 0.0)

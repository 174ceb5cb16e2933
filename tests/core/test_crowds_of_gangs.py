"""Many gangs of one account: they cost other clients little, and their number has a bound."""

from core.step_cost import lines_of
from nvshare.core import events as ev
from nvshare.core.gangs.collectives import MAX_OF_GROUP
from nvshare.core.gangs.gangs import MAX_OF_ACCOUNT
from nvshare.core.model import GIB, SECOND, Claim, Memory, Settings
from nvshare.core.node import Node

GPUS = tuple(f"g{number:02}" for number in range(128))
OWN = "the other client's"


def join(node: Node, client: int, gpus: tuple[str, ...], account: str) -> None:
    claims = tuple(Claim(gpu, 16 * GIB) for gpu in gpus)
    node.handle(SECOND, ev.ClientRegistered(client, f"run/{account}", "x", "x", claims, account=account))


def ask(node: Node, client: int, gpus: tuple[str, ...]) -> None:
    for gpu in gpus:
        node.handle(SECOND, ev.LockRequested(client, gpu, Memory(15 * GIB)))


def crowd(clients: int) -> Node:
    """Clients of four GPUs each; each holds some of them and waits for the others."""
    node = Node(Settings(), epoch=1)
    for client in range(1, clients + 1):
        gpus = tuple(GPUS[(2 * client + number) % len(GPUS)] for number in range(4))
        join(node, client, gpus, "uid/1")
        ask(node, client, gpus)
    return node


def turn_cost(node: Node) -> int:
    """Of a client of another account, on a GPU that no gang uses, in lines of Python."""
    join(node, 9999, (OWN,), "uid/2")
    request = lines_of(lambda: ask(node, 9999, (OWN,)))
    lock = node.clients[9999].seats[OWN].lock
    return request + lines_of(lambda: node.handle(SECOND, ev.LockReleased(9999, OWN, lock, False)))


def test_gangs_cost_nothing_at_a_gpu_that_they_do_not_use() -> None:
    few, many = crowd(3), crowd(60)
    assert (len(few.gangs.all), len(many.gangs.all)) == (2, MAX_OF_ACCOUNT)
    assert turn_cost(few) == turn_cost(many)


def test_an_account_with_too_many_gangs_keeps_no_other_account_from_having_one() -> None:
    node = crowd(60)
    gpus = (OWN, GPUS[10])
    join(node, 9999, gpus, "uid/2")
    ask(node, 9999, gpus)
    assert [gang.account for gang in node.gangs.all.values()].count("uid/2") == 1
    for client in list(node.clients):
        node.handle(SECOND, ev.ClientLeft(client))
    assert node.gangs.all == {}
    ask_again = crowd(3)
    assert len(ask_again.gangs.all) == 2


def test_a_group_has_no_more_processes_that_use_collectives_than_a_machine_has_gpus() -> None:
    node = Node(Settings(), epoch=1)
    for client in range(1, MAX_OF_GROUP + 3):
        join(node, client, (OWN,), "uid/1")
        node.handle(SECOND, ev.CollectivesUsed(client))
        node.handle(SECOND, ev.CollectivesUsed(client))
    assert [client for client in node.clients if not node.clients[client].uses_collectives] == [
        MAX_OF_GROUP + 1,
        MAX_OF_GROUP + 2,
    ]
    for client in list(node.clients):
        node.handle(SECOND, ev.ClientLeft(client))
    assert node.clients == {}


def test_a_job_that_dissolves_while_it_leaves_frees_its_gpus_though_another_gang_is_elsewhere() -> None:
    """The other gang uses none of its GPUs. B is known to its clients only, and forgotten with the last of them."""
    node = Node(Settings(), epoch=1, is_paranoid=True)
    for client, gpus in {1: "A", 2: "B", 3: "A", 8: "CD", 9: "CD"}.items():
        join(node, client, tuple(gpus), "job" if client < 3 else str(client))
    for gpu in "CD":
        node.handle(SECOND, ev.LockRequested(8, gpu, Memory(15 * GIB)))
    ask(node, 9, ("C",))
    node.handle(SECOND, ev.LockReleased(8, "D", node.clients[8].seats["D"].lock, False))
    ask(node, 9, ("D",))
    assert len(node.gangs.all) == 1
    for client, gpu in ((1, "A"), (2, "B")):
        node.handle(SECOND, ev.CollectivesUsed(client))
        ask(node, client, (gpu,))
    ask(node, 3, ("A",))
    assert len(node.gangs.all) == 2
    now = node.next_deadline() or 0
    while node.clients[1].seats["A"].state != "dropping":
        node.handle(now, ev.AlarmRang())
        now = node.next_deadline() or 0
    node.handle(now, ev.LockReleased(1, "A", node.clients[1].seats["A"].lock, True))
    node.handle(now, ev.ClientLeft(1))
    assert node.clients[3].seats["A"].lock, "nobody else is at A"
    node.handle(now, ev.ClientLeft(2))
    assert "B" not in node.gpus
    node.handle(now, ev.LockReleased(8, "C", node.clients[8].seats["C"].lock, False))

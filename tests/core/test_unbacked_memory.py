"""What an account can take from others with unswappable memory that it only claims (core.memory.unbacked_memory)."""

from random import Random

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MIB, SECOND, Claim, HostRoom, Memory, ProcessMemory, Settings
from nvshare.core.node import Node

CARD = 16 * GIB
LIE = Memory(0, 1 << 50, 1)
HONEST = range(1, 9)
FIRST_LIAR = 100


def machine() -> Node:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g", CARD))
    return node


def join(node: Node, client: int, account: str, pid: int = 0) -> None:
    claims = (Claim("g", CARD),)
    event = ev.ClientRegistered(client, f"run/{client}", "x", "x", claims, pid=pid, account=account)
    node.handle(SECOND, event)


def lie(node: Node, client: int) -> None:
    join(node, client, "container/liar", pid=client)
    node.handle(SECOND, ev.MemoryChanged(client, "g", LIE))


def running(node: Node) -> int:
    return sum(bool(node.clients[client].seats["g"].lock) for client in HONEST)


@pytest.mark.parametrize("liars", [1, 8, 50, 200])
def test_an_account_takes_a_quarter_of_the_card_with_any_number_of_connections(liars: int) -> None:
    node = machine()
    for client in HONEST:
        join(node, client, "uid/1")
    for liar in range(FIRST_LIAR, FIRST_LIAR + liars):
        lie(node, liar)
    rooms: list[int] = []
    for client in HONEST:
        out = node.handle(SECOND, ev.LockRequested(client, "g", Memory(GIB, 0, 1)))
        rooms += [action.room for action in out if isinstance(action, ac.TellCapacity)]
    lies = min(CARD // 4, liars * CARD // (len(HONEST) + liars))
    assert node.gpus["g"].memory.unswappable == lies + len(HONEST) * 400 * MIB
    assert rooms[0] == CARD - GIB - lies
    assert running(node) >= 7, "14.4 GiB less 4 GiB and eight contexts are enough for seven"


def test_a_liar_that_connects_again_and_again_takes_no_more() -> None:
    """NVML measures every two seconds; a connection of a second is never measured."""
    node = machine()
    for client in HONEST:
        join(node, client, "uid/1")
        node.handle(SECOND, ev.LockRequested(client, "g", Memory(GIB, 0, 1)))
    measured = tuple(ProcessMemory(client, 400 * MIB, 400 * MIB) for client in HONEST)
    node.handle(SECOND, ev.MemoryMeasured("g", 0, processes=measured))
    for round_ in range(40):
        lie(node, FIRST_LIAR + round_)
        assert node.gpus["g"].memory.unswappable <= CARD // 4 + len(HONEST) * 400 * MIB
        assert running(node) >= 7
        if round_ > 2:
            node.handle(SECOND, ev.ClientLeft(FIRST_LIAR + round_ - 2))


def test_a_new_connection_of_a_measured_process_counts_with_what_the_process_has() -> None:
    node = machine()
    join(node, 1, "uid/1")
    lie(node, FIRST_LIAR)
    node.handle(SECOND, ev.MemoryMeasured("g", 0, processes=(ProcessMemory(FIRST_LIAR, 0, LIE.unswappable),)))
    memory = node.gpus["g"].memory
    left = memory.unswappable
    assert left <= 400 * MIB
    for client in range(FIRST_LIAR + 1, FIRST_LIAR + 20):
        join(node, client, "container/liar", pid=FIRST_LIAR)
        node.handle(SECOND, ev.MemoryChanged(client, "g", Memory(0, LIE.unswappable, 0)))
    assert memory.unswappable == left
    for client in range(FIRST_LIAR, FIRST_LIAR + 20):
        node.handle(SECOND, ev.ClientLeft(client))
    lie(node, FIRST_LIAR)
    assert memory.unswappable == CARD // 4, "its process is not known any more"


def test_a_process_that_registers_before_its_earlier_connection_ends_counts_as_before() -> None:
    """Until the next measurement, up to two seconds later."""
    node = machine()
    join(node, 1, "uid/1", pid=71)
    join(node, 2, "uid/2", pid=72)
    has = Memory(0, 12 * GIB, 0)
    node.handle(SECOND, ev.MemoryChanged(1, "g", has))
    node.handle(SECOND, ev.MemoryMeasured("g", 0, processes=(ProcessMemory(1, 12 * GIB, 12 * GIB),)))
    memory = node.gpus["g"].memory
    for new, old in ((3, 1), (4, 3)):
        claim = Claim("g", CARD, memory=has)
        node.handle(SECOND, ev.ClientRegistered(new, "run/1", "x", "x", (claim,), pid=71, account="uid/1"))
        assert memory.unswappable == 12 * GIB, "what one process has counts once"
        node.handle(SECOND, ev.ClientLeft(old))
        assert memory.unswappable == 12 * GIB


def test_connections_of_a_process_share_what_it_has_when_one_of_them_ends() -> None:
    node = machine()
    join(node, 1, "uid/1", pid=71)
    join(node, 9, "uid/2", pid=72)
    node.handle(SECOND, ev.MemoryChanged(1, "g", Memory(0, 8 * GIB, 0)))
    node.handle(SECOND, ev.MemoryMeasured("g", 0, processes=(ProcessMemory(1, 8 * GIB, 8 * GIB),)))
    for client, size in ((2, GIB), (3, 5 * GIB), (4, 6 * GIB), (5, GIB)):
        join(node, client, "uid/1", pid=71)
        node.handle(SECOND, ev.MemoryChanged(client, "g", Memory(0, size, 0)))
    node.handle(SECOND, ev.ClientLeft(1))
    counted = [node.clients[client].seats["g"].memory.unswappable for client in (2, 3, 4, 5)]
    assert counted == [GIB, 5 * GIB, 2 * GIB, 0]
    assert node.gpus["g"].memory.unswappable == 8 * GIB


def test_one_account_alone_has_the_whole_card() -> None:
    node = machine()
    for client in (1, 2, 3):
        join(node, client, "uid/1")
        node.handle(SECOND, ev.MemoryChanged(client, "g", Memory(0, 4 * GIB, 1)))
    assert node.gpus["g"].memory.unswappable == 12 * GIB + 3 * 400 * MIB


def test_what_nvml_has_measured_counts_in_full() -> None:
    node = machine()
    join(node, 1, "uid/1")
    join(node, 2, "uid/2")
    node.handle(SECOND, ev.MemoryChanged(1, "g", Memory(0, 12 * GIB, 0)))
    memory = node.gpus["g"].memory
    assert memory.unswappable == CARD // 4
    node.handle(SECOND, ev.MemoryMeasured("g", 0, processes=(ProcessMemory(1, 12 * GIB, 12 * GIB),)))
    assert memory.unswappable == 12 * GIB
    node.handle(SECOND, ev.MemoryChanged(1, "g", Memory(0, 14 * GIB, 0)))
    assert memory.unswappable == 14 * GIB, "growth within the bound counts at once"


def test_pinned_memory_of_many_clients_is_at_most_half_of_the_card() -> None:
    """A context is no minimum for each of them: two hundred would take five times the card."""
    node = machine()
    clients = range(1, 201)
    for client in clients:
        join(node, client, "container/liar")
        node.handle(SECOND, ev.MemoryChanged(client, "g", Memory(1 << 50)))
    node.handle(SECOND, ev.HostMemoryMeasured(tuple(HostRoom(client, "g", 0) for client in clients)))
    assert node.gpus["g"].memory.pinned <= CARD // 2


def test_the_sums_are_those_of_the_formula() -> None:
    chance = Random(12)
    node = machine()
    accounts: dict[int, str] = {}
    for client in range(1, 400):
        if accounts and chance.random() < 0.4:
            gone = chance.choice(list(accounts))
            del accounts[gone]
            node.handle(SECOND, ev.ClientLeft(gone))
        accounts[client] = chance.choice(["", "uid/1", "uid/2", "uid/3"])
        join(node, client, accounts[client])
        known = chance.choice(list(accounts))
        unswappable = chance.choice([0, MIB, GIB, 1 << 50])
        node.handle(SECOND, ev.MemoryChanged(known, "g", Memory(0, unswappable, chance.choice([0, 1, 9]))))
        if chance.random() < 0.3:
            process = ProcessMemory(known, chance.choice([0, MIB]), node.clients[known].seats["g"].fixed)
            node.handle(SECOND, ev.MemoryMeasured("g", 0, processes=(process,)))
        by_account: dict[object, int] = {}
        backed = 0
        for one, account in accounts.items():
            seat = node.clients[one].seats["g"]
            key = account or one
            by_account[key] = by_account.get(key, 0) + seat.unbacked
            backed += seat.backed
            assert seat.backed <= (0 if seat.measured is None else seat.measured.used)
        bound = CARD if len(by_account) == 1 else CARD // (2 * len(by_account))
        assert node.gpus["g"].memory.unswappable == backed + sum(min(it, bound) for it in by_account.values())

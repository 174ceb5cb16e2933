"""What many connections of one user cost somebody else (docs/decisions/0025)."""

import pytest

from nvshare.core import events as ev
from nvshare.core.actions import GiveLock
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.queue.wait_queue import PLACES

QUANTUM_NS, GRACE_NS = 5 * SECOND, 2 * SECOND
TURN_NS = QUANTUM_NS + GRACE_NS
MOST = Memory(14 * GIB)
SINGLE = 5000


class Machine:
    """One GPU whose clients need all of it and never release a lock in time."""

    def __init__(self, policy: str = "fcfs", *, is_paranoid: bool = False) -> None:
        rule = QuantumRule(mode="fixed", fixed_ns=QUANTUM_NS)
        settings = Settings(quantum=rule, policy=policy, grace_ns=GRACE_NS)
        self.node = Node(settings, epoch=1, is_paranoid=is_paranoid)
        self.node.handle(0, ev.GpuFound("g", 16 * GIB))
        self.now = 0
        self.given: list[tuple[int, int]] = []
        """When which client got a lock."""

    def add(self, client: int, account: str) -> None:
        claims = (Claim("g", 16 * GIB),)
        registered = ev.ClientRegistered(client, f"run/{client}", "x", "x", claims, account=account)
        self._handle(registered)
        self.ask(client)

    def ask(self, client: int) -> None:
        self.now += 1
        self._handle(ev.LockRequested(client, "g", MOST))

    def ring(self) -> int:
        """Go on to the next lock that is given; the client that gets it."""
        before = len(self.given)
        while len(self.given) == before:
            deadline = self.node.next_deadline()
            assert deadline is not None
            self.now = max(self.now, deadline)
            self._handle(ev.AlarmRang())
        return self.given[-1][1]

    def waits_of(self, client: int, turns: int) -> list[int]:
        """How long it waits each time, if everybody asks again as soon as its turn has ended."""
        waits: list[int] = []
        holder, since = self.given[-1][1], self.now
        while len(waits) < turns:
            holder, before = self.ring(), holder
            self.ask(before)
            if holder == client:
                waits.append(self.now - since)
            elif before == client:
                since = self.now
        return waits

    def _handle(self, event: ev.Event) -> None:
        actions = self.node.handle(self.now, event)
        self.given += [(self.now, action.client) for action in actions if isinstance(action, GiveLock)]


@pytest.mark.parametrize("connections", [1, PLACES, 20])
def test_clients_of_one_account_run_in_the_order_of_their_arrival(connections: int) -> None:
    machine = Machine()
    for client in range(1, connections + 2):
        machine.add(client, "uid/1")
    assert [machine.ring() for _ in range(connections)] == list(range(2, connections + 2))
    assert machine.now <= connections * TURN_NS + connections + 1


@pytest.mark.parametrize(("policy", "connections"), [("fcfs", 900), ("fair", 100), ("priority", 100)])
def test_a_single_client_waits_for_a_few_turns_of_an_account_with_many_connections_every_time(
    policy: str, connections: int
) -> None:
    machine = Machine(policy)
    for client in range(connections):
        machine.add(client + 1, "uid/1")
    machine.add(SINGLE, "uid/2")
    waits = machine.waits_of(SINGLE, 20)
    assert max(waits) <= (PLACES + 1) * TURN_NS + 1000


def test_each_account_that_waits_costs_a_few_turns() -> None:
    machine = Machine()
    for client in range(300):
        machine.add(client + 1, f"uid/{client % 3}")
    machine.add(SINGLE, "uid/3")
    assert max(machine.waits_of(SINGLE, 10)) <= (3 * PLACES + 1) * TURN_NS + 1000


def test_a_client_that_is_passed_by_single_clients_waits_for_a_bounded_time() -> None:
    """Nine accounts of one client each, and one of 100: each round of the first ones takes eight of its turns."""
    machine = Machine()
    for client in range(100):
        machine.add(client + 1, "uid/1")
    for client in range(9):
        machine.add(SINGLE + client, f"uid/{client + 2}")
    rounds = -(-100 // PLACES)
    assert max(machine.waits_of(100, 2)) <= rounds * (PLACES + 9) * TURN_NS + 1000


def test_an_account_with_a_few_connections_passes_nobody() -> None:
    machine = Machine(is_paranoid=True)
    for client in range(PLACES + 1):
        machine.add(client + 1, "uid/1")
    for client in range(PLACES):
        machine.add(SINGLE + client, "uid/2")
    order = [machine.ring() for _ in range(2 * PLACES)]
    assert order == [*range(2, PLACES + 2), *range(SINGLE, SINGLE + PLACES)]


def test_accounts_with_many_connections_do_not_pass_each_other() -> None:
    machine = Machine(is_paranoid=True)
    for client in range(20):
        machine.add(client + 1, "uid/1")
    for client in range(20):
        machine.add(SINGLE + client, "uid/2")
    order = [machine.ring() for _ in range(39)]
    assert [client for client in order if client < SINGLE] == list(range(2, 21))
    assert [client for client in order if client >= SINGLE] == list(range(SINGLE, SINGLE + 20))
    assert order[PLACES : 2 * PLACES] == list(range(SINGLE, SINGLE + PLACES))


def test_clients_without_an_account_wait_by_connection() -> None:
    machine = Machine(is_paranoid=True)
    for client in range(20):
        machine.add(client + 1, "")
    machine.add(SINGLE, "uid/1")
    assert [machine.ring() for _ in range(20)][-1] == SINGLE

"""What many connections of one user cost somebody who comes later (docs/decisions/0025)."""

import pytest

from nvshare.core import events as ev
from nvshare.core.actions import GiveLock
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node

QUANTUM_NS, GRACE_NS = 5 * SECOND, 2 * SECOND
MOST = Memory(14 * GIB)
NEWCOMER = 1000


@pytest.mark.parametrize("connections", [1, 20])
def test_a_newcomer_waits_for_one_turn_and_one_grace_time_of_each_connection_before_it(connections: int) -> None:
    rule = QuantumRule(mode="fixed", fixed_ns=QUANTUM_NS)
    node = Node(Settings(quantum=rule, grace_ns=GRACE_NS), epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g", 16 * GIB))
    for client in (*range(1, connections + 1), NEWCOMER):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "x", "x", (Claim("g", 16 * GIB),)))
        node.handle(0, ev.LockRequested(client, "g", MOST))
    now, given = 0, []
    while NEWCOMER not in given:  # nobody releases a lock, and nobody speaks
        deadline = node.next_deadline()
        assert deadline is not None
        now = max(now, deadline)
        given += [action.client for action in node.handle(now, ev.AlarmRang()) if isinstance(action, GiveLock)]
    assert given == [*range(2, connections + 1), NEWCOMER]
    assert now <= connections * (QUANTUM_NS + GRACE_NS)

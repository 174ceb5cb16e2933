"""Who gets how much under each policy, over hundreds of turns."""

from collections import defaultdict

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.policies import POLICIES

QUANTUM = 10 * SECOND
HUGE = Memory(swappable=9 * GIB)


class Busy:
    """Clients that always have work and take turns on one GPU; they drain at once when told to."""

    def __init__(self, policy: str, **clients: dict[str, int]) -> None:
        rule = QuantumRule(mode="fixed", fixed_ns=QUANTUM)
        self.node = Node(Settings(quantum=rule, policy=policy), epoch=1, is_paranoid=True)
        self.now = 0
        self.names: dict[int, str] = {}
        self.held: dict[str, int] = defaultdict(int)
        self.longest_wait: dict[str, int] = defaultdict(int)
        self._do(ev.GpuFound("g0", 10 * GIB))
        for name, options in clients.items():
            self.add(name, **options)

    def add(self, name: str, *, priority: int = 0, weight: int = 100) -> None:
        client = len(self.names) + 1
        self.names[client] = name
        claim = Claim("g0", 10 * GIB)
        self._do(ev.ClientRegistered(client, f"run/{client}", "", name, (claim,), priority=priority, weight=weight))
        self._do(ev.LockRequested(client, "g0", HUGE))

    def run_until(self, then: int) -> None:
        while (deadline := self.node.next_deadline()) is not None and deadline <= then:
            self.now = max(self.now, deadline)
            self._do(ev.AlarmRang())
        self.now = then

    def bound(self) -> int:
        """The longest wait that the core promises, less the grace times: these clients release at once."""
        settings, clients = self.node.settings, len(self.names)
        return self.node.gpus["g0"].longest_wait_ns(clients) - clients * settings.grace_ns

    def _do(self, event: ev.Event) -> None:
        for action in self.node.handle(self.now, event):
            match action:
                case ac.DropLock():
                    self._do(ev.LockReleased(action.client, "g0", action.lock, True))
                case ac.EndTurn():
                    self.held[self.names[action.client]] += action.held_ns
                case ac.GiveLock():
                    name = self.names[action.client]
                    self.longest_wait[name] = max(self.longest_wait[name], action.waited_ns)
                case _:
                    pass


def test_fair_gives_gpu_time_by_weight() -> None:
    busy = Busy("fair", a={"weight": 100}, b={"weight": 300})
    busy.run_until(4000 * SECOND)
    assert busy.held["b"] / busy.held["a"] == pytest.approx(3, rel=0.1)


def test_fair_gives_three_clients_their_shares() -> None:
    busy = Busy("fair", a={"weight": 100}, b={"weight": 200}, c={"weight": 500})
    busy.run_until(8000 * SECOND)
    total = sum(busy.held.values())
    assert {name: held / total for name, held in busy.held.items()} == pytest.approx(
        {"a": 1 / 8, "b": 2 / 8, "c": 5 / 8}, rel=0.15
    )


def test_fair_lets_a_newcomer_in_without_handing_it_the_past() -> None:
    busy = Busy("fair", a={}, b={})
    busy.run_until(2000 * SECOND)
    before = dict(busy.held)
    busy.add("c")
    busy.run_until(4000 * SECOND)
    assert busy.held["c"] == pytest.approx(2000 * SECOND / 3, rel=0.1)
    assert busy.held["a"] - before["a"] == pytest.approx(2000 * SECOND / 3, rel=0.1)


def test_first_come_first_served_takes_turns_whatever_the_weight() -> None:
    busy = Busy("fcfs", a={"weight": 100, "priority": 5}, b={"weight": 900})
    busy.run_until(1000 * SECOND)
    assert busy.held["a"] == pytest.approx(busy.held["b"], rel=0.05)


def test_priority_ages_so_that_the_lowest_still_gets_turns() -> None:
    busy = Busy("priority", low={"priority": -10}, high={"priority": 10}, top={"priority": 10})
    busy.run_until(5000 * SECOND)
    assert 0 < busy.held["low"] < busy.held["high"] / 10
    assert 500 * SECOND < busy.longest_wait["low"] <= busy.bound()


@pytest.mark.parametrize("policy", POLICIES)
def test_nobody_waits_longer_than_the_stated_bound(policy: str) -> None:
    clients = {f"c{i}": {"priority": 4 * i - 12, "weight": 10 * i**3 + 1} for i in range(7)}
    busy = Busy(policy, **clients)
    busy.run_until(10_000 * SECOND)
    assert max(busy.longest_wait.values()) <= busy.bound()
    assert set(busy.longest_wait) == set(clients)


def test_fair_forgives_a_lead_so_that_the_lightest_still_gets_turns() -> None:
    """One turn of a client of weight 1 counts like a thousand seconds; it need not wait for all of them."""
    busy = Busy("fair", light={"weight": 1}, heavy={"weight": 1000})
    busy.run_until(8000 * SECOND)
    assert busy.held["light"] > 3 * QUANTUM
    assert busy.longest_wait["light"] <= busy.bound()

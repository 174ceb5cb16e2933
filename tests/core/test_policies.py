"""How much each client gets under each policy, over hundreds of turns."""

from collections import defaultdict

import pytest

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.compute.fair_shares import LEAST_TURN_NS
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.queue.policies import POLICIES
from nvshare.core.turns.seat import Seat

QUANTUM_S = 10
HUGE = Memory(swappable=9 * GIB)


class Busy:
    """Clients that always have work and take turns on one GPU; they drain at once when told to. If `has_gaps`, they are
    between two kernels then, and ask again after a millisecond."""

    has_gaps = False

    def __init__(self, policy: str, quantum_s: int = QUANTUM_S, **clients: dict[str, int]) -> None:
        rule = QuantumRule(mode="fixed", fixed_ns=quantum_s * SECOND)
        self.node = Node(Settings(quantum=rule, policy=policy), epoch=1, is_paranoid=True)
        self.now = 0
        self.names: dict[int, str] = {}
        self.held: dict[str, int] = defaultdict(int)
        self.longest_wait: dict[str, int] = defaultdict(int)
        self.turns: dict[str, int] = defaultdict(int)
        self._do(ev.GpuFound("g0", 10 * GIB))
        for name, options in clients.items():
            self.add(name, **options)

    def add(self, name: str, *, priority: int = 0, weight: int = 100) -> None:
        client = len(self.names) + 1
        self.names[client] = name
        claim = Claim("g0", 10 * GIB)
        self._do(ev.ClientRegistered(client, f"run/{client}", "", name, (claim,), priority=priority, weight=weight))
        self._do(ev.LockRequested(client, "g0", HUGE))

    def rest(self, name: str) -> None:
        self._do(ev.LockReleased(self._client(name), "g0", self._seat(name).lock, False))

    def want(self, name: str) -> None:
        self._do(ev.LockRequested(self._client(name), "g0", HUGE))

    def leave(self, name: str) -> None:
        self._do(ev.ClientLeft(self._client(name)))

    def silence(self, name: str) -> None:
        self._do(ev.ClientSilent(self._client(name)))

    def hear(self, name: str) -> None:
        self._do(ev.ClientHeard(self._client(name)))

    def holds(self, name: str) -> bool:
        return bool(self._seat(name).lock)

    def is_at_rest(self, name: str) -> bool:
        return self._seat(name).state == "rest"

    def _seat(self, name: str) -> Seat:
        return self.node.clients[self._client(name)].seats["g0"]

    def _client(self, name: str) -> int:
        return next(client for client, known in self.names.items() if known == name)

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
                    self._do(ev.LockReleased(action.client, "g0", action.lock, not self.has_gaps))
                    if self.has_gaps:
                        self.now += MILLISECOND
                        self._do(ev.LockRequested(action.client, "g0", HUGE))
                case ac.EndTurn():
                    self.held[self.names[action.client]] += action.held_ns
                case ac.GiveLock():
                    name = self.names[action.client]
                    self.turns[name] += 1
                    self.longest_wait[name] = max(self.longest_wait[name], action.waited_ns)
                case _:
                    pass


def shares(busy: Busy) -> dict[str, float]:
    total = sum(busy.held.values())
    return {name: held / total for name, held in busy.held.items()}


@pytest.mark.parametrize("quantum_s", [10, 60, 300])
@pytest.mark.parametrize("weights", [(100, 300), (100, 1000), (100, 200, 500), (1, 2, 5), (3, 100), (1, 1, 1, 1)])
def test_fair_gives_held_time_in_proportion_to_weights(weights: tuple[int, ...], quantum_s: int) -> None:
    """Within 5 % after twenty rounds. In a round the lightest has one turn; it takes at most 1000 s, or a quantum for
    each."""
    busy = Busy("fair", quantum_s, **{str(index): {"weight": weight} for index, weight in enumerate(weights)})
    round_s = min(quantum_s * sum(weights) // min(weights), max(1000, quantum_s * len(weights)))
    busy.run_until(20 * round_s * SECOND)
    wanted = {str(index): weight / sum(weights) for index, weight in enumerate(weights)}
    assert shares(busy) == pytest.approx(wanted, rel=0.05)
    assert max(busy.longest_wait.values()) <= busy.bound()


def test_a_holder_whose_turn_it_would_be_again_keeps_its_lock() -> None:
    busy = Busy("fair", light={"weight": 100}, heavy={"weight": 1000})
    busy.run_until(2200 * SECOND)
    assert busy.turns["heavy"] <= busy.turns["light"] + 1
    assert busy.held["heavy"] == pytest.approx(10 * busy.held["light"], rel=0.05)


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
    busy = Busy(policy, QUANTUM_S, **clients)
    busy.run_until(10_000 * SECOND)
    assert max(busy.longest_wait.values()) <= busy.bound()
    assert set(busy.longest_wait) == set(clients)


def test_fair_forgives_a_debt_so_that_the_lightest_still_gets_turns() -> None:
    """Weights of 1 to 1000 would be one turn of 2 s in 2000 s; nobody waits for so long."""
    busy = Busy("fair", light={"weight": 1}, heavy={"weight": 1000})
    busy.run_until(8000 * SECOND)
    assert busy.held["light"] >= 8 * LEAST_TURN_NS
    assert busy.longest_wait["light"] <= busy.bound()


def test_fair_does_not_let_a_client_save_up_while_it_wants_nothing() -> None:
    """Both had the GPU for themselves, one after the other, for different times: nobody owes anything."""
    busy = Busy("fair", a={})
    busy.run_until(5000 * SECOND)
    busy.rest("a")
    busy.add("b")
    busy.run_until(6000 * SECOND)
    busy.want("a")
    before = dict(busy.held)
    busy.run_until(8000 * SECOND)
    assert busy.held["a"] - before["a"] == pytest.approx(1000 * SECOND, rel=0.05)


@pytest.mark.parametrize("weights", [(100, 300), (100, 150, 350)])
def test_a_client_that_is_between_two_kernels_when_its_turn_ends_keeps_what_it_is_owed(
    weights: tuple[int, ...],
) -> None:
    busy = Busy("fair", 1, **{str(weight): {"weight": weight} for weight in weights})
    busy.has_gaps = True
    busy.run_until(1000 * SECOND)
    for weight in weights:
        assert shares(busy)[str(weight)] == pytest.approx(weight / sum(weights), rel=0.03)


def test_a_client_that_rests_for_longer_than_it_is_owed_is_owed_nothing() -> None:
    """It has waited for 300 s, and then only works for a moment."""
    busy = Busy("fair", 300, a={})
    busy.run_until(SECOND)
    busy.add("b")
    busy.run_until(302 * SECOND)
    busy.rest("b")
    busy.run_until(1000 * SECOND)
    busy.want("b")
    before = dict(busy.held)
    busy.run_until(4000 * SECOND)
    assert busy.held["b"] - before.get("b", 0) == pytest.approx(1500 * SECOND, abs=310 * SECOND)


def test_a_change_of_weight_counts_from_the_next_turn_on() -> None:
    busy = Busy("fair", a={}, b={})
    busy.run_until(1000 * SECOND)
    before = dict(busy.held)
    for client in busy.node.clients.values():
        client.seats["g0"].weight = 100 * client.id
    busy.run_until(4000 * SECOND)
    assert busy.held["b"] - before["b"] == pytest.approx(2 * (busy.held["a"] - before["a"]), rel=0.05)


def test_a_higher_priority_gets_the_lock_at_once() -> None:
    busy = Busy("priority", 300, batch={})
    busy.run_until(50 * SECOND)
    busy.add("interactive", priority=10)
    assert busy.longest_wait["interactive"] == 0


def test_an_equal_or_lower_priority_waits_for_the_end_of_the_quantum() -> None:
    busy = Busy("priority", 300, batch={"priority": 3})
    busy.run_until(50 * SECOND)
    busy.add("equal", priority=3)
    busy.run_until(299 * SECOND)
    assert busy.turns["equal"] == 0


def test_a_client_that_is_outranked_again_and_again_gets_a_whole_quantum_at_last() -> None:
    """The interactive client works for 1 s and rests for 1 s, for ever."""
    busy = Busy("priority", 60, batch={}, interactive={"priority": 10})
    longest_s = since = 0
    for second in range(1, 1000):
        busy.run_until(second * SECOND)
        if busy.holds("interactive"):
            busy.rest("interactive")
        elif busy.is_at_rest("interactive"):
            busy.want("interactive")
        since = since or second if busy.holds("batch") else 0
        longest_s = max(longest_s, second - since if since else 0)
    assert longest_s >= 59
    assert max(busy.longest_wait.values()) <= busy.bound()


def test_a_claimed_lock_is_kept_until_its_quantum_is_over() -> None:
    """After a restart nobody knows how long its holder had waited."""
    settings = Settings(quantum=QuantumRule(mode="fixed", fixed_ns=60 * SECOND), policy="priority")
    node = Node(settings, epoch=2, settles_at=SECOND, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", 10 * GIB))
    held = Claim("g0", 10 * GIB, lock=(1 << 32) + 1, memory=HUGE)
    node.handle(0, ev.ClientRegistered(1, "run/1", "", "", (held,)))
    node.handle(0, ev.ClientRegistered(2, "run/2", "", "", (Claim("g0", 10 * GIB),), priority=10))
    node.handle(2 * SECOND, ev.AlarmRang())
    assert not [a for a in node.handle(3 * SECOND, ev.LockRequested(2, "g0", HUGE)) if isinstance(a, ac.DropLock)]


def test_a_gang_with_a_claimed_lock_is_outranked_when_its_turn_with_that_lock_ends() -> None:
    settings = Settings(quantum=QuantumRule(mode="fixed", fixed_ns=100 * SECOND), policy="priority")
    node = Node(settings, epoch=2, settles_at=SECOND, is_paranoid=True)
    half, first = Memory(6 * GIB, 0, 1), 1 << 32
    for gpu in ("g0", "g1"):
        node.handle(0, ev.GpuFound(gpu, 10 * GIB))
    gang = Claim("g0", 10 * GIB), Claim("g1", 10 * GIB, lock=first + 1, memory=half)
    node.handle(0, ev.ClientRegistered(1, "run/1", "", "", gang))
    node.handle(0, ev.ClientRegistered(2, "run/2", "", "", (Claim("g0", 10 * GIB, lock=first + 2, memory=half),)))
    node.handle(0, ev.ClientRegistered(3, "run/3", "", "", (Claim("g0", 10 * GIB),), priority=10))
    node.handle(2 * SECOND, ev.AlarmRang())
    node.handle(3 * SECOND, ev.LockRequested(1, "g0", half))
    node.handle(21 * SECOND, ev.LockReleased(2, "g0", first + 2, False))
    states = [node.clients[1].seats["g0"].state]
    for at, event in (30, ev.LockRequested(3, "g0", half)), (40, ev.LockReleased(1, "g1", first + 1, False)):
        node.handle(at * SECOND, event)
        states.append(node.clients[1].seats["g0"].state)
    assert states == ["staying", "staying", "dropping"]


def test_a_client_that_leaves_the_queue_or_falls_silent_competes_no_more_until_it_speaks() -> None:
    busy = Busy("fair", 60, a={}, b={}, c={}, d={})
    busy.leave("d")
    busy.silence("c")
    busy.run_until(1000 * SECOND)
    assert busy.held["c"] == 0
    assert busy.held["a"] == pytest.approx(busy.held["b"], rel=0.15)
    busy.hear("c")
    before = dict(busy.held)
    busy.run_until(7000 * SECOND)
    assert busy.held["c"] == pytest.approx(2000 * SECOND, rel=0.05)
    assert busy.held["a"] - before["a"] == pytest.approx(2000 * SECOND, rel=0.05)


def test_a_claimed_lock_counts_as_held_time() -> None:
    """After a restart, with policy fair."""
    node = Node(Settings(policy="fair"), epoch=2, settles_at=SECOND, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", 10 * GIB))
    held = Claim("g0", 10 * GIB, lock=(1 << 32) + 1, memory=HUGE)
    node.handle(0, ev.ClientRegistered(1, "run/1", "", "", (held,)))
    node.handle(20 * SECOND, ev.LockReleased(1, "g0", held.lock, True))
    assert node.clients[1].seats["g0"].tag == 20 * SECOND

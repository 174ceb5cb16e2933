"""By when waiting clients will probably start: the rounds to come, played through."""

from nvshare.core import events as ev
from nvshare.core.actions import DropLock, GiveLock
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.queue.expected_start import MOST, expected_starts

FIXED = Settings(quantum=QuantumRule(mode="fixed", fixed_ns=30 * SECOND))


def node_of(*sizes_gib: int, settings: Settings = FIXED) -> Node:
    """Clients 1, 2, … of these sizes ask one after another for a GPU of 10 GiB, of which 9 are safe."""
    node = Node(settings, epoch=1, is_paranoid=True)
    node.handle(0, ev.GpuFound("g0", 10 * GIB))
    for client in range(1, len(sizes_gib) + 1):
        node.handle(0, ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g0", 10 * GIB),)))
    for client, gib in enumerate(sizes_gib, 1):
        node.handle(0, ev.LockRequested(client, "g0", Memory(swappable=gib * GIB)))
    return node


def starts(node: Node, at_s: int) -> dict[int, float]:
    gpu = node.gpus["g0"]
    return {client: ns / SECOND for client, ns in expected_starts(gpu.turns, gpu.memory, at_s * SECOND).items()}


def test_each_waits_for_the_turns_before_its_own() -> None:
    assert starts(node_of(8, 8, 8, 8), 10) == {2: 20, 3: 50, 4: 80}


def test_those_who_fit_together_start_together() -> None:
    assert starts(node_of(8, 4, 4, 8), 0) == {2: 30, 3: 30, 4: 60}


def test_only_as_many_leave_as_are_needed() -> None:
    assert starts(node_of(5, 4, 4), 0) == {3: 30}


def test_each_round_lasts_as_long_as_the_mode_says_for_those_who_run_in_it() -> None:
    auto = Settings(quantum=QuantumRule(mode="auto", multiplier=5))
    assert starts(node_of(4, 8, 6, 8, settings=auto), 0) == {2: 20, 3: 60, 4: 90}


def test_those_clients_leave_first_that_leave_first_by_the_mode() -> None:
    node = node_of(3, 6, 6, 3, settings=Settings(quantum=QuantumRule(mode="adaptive")))
    node.handle(SECOND, ev.WorkFinished(1, "g0"))
    first, second = starts(node, 9).values()  # 2 has worked longest: 3 is admitted beside 1, and 4 has to wait for one
    assert first < second


def node_with_habits(*seconds: int) -> Node:
    """Client 1 holds the lock since second 0 and has had turns of these lengths before; 2 and 3 wait."""
    node = node_of(8, 8, 8)
    for each in seconds:
        node.gpus["g0"].turns.seats[1].turn_ended(each * SECOND)
    return node


def test_the_last_turns_of_a_client_are_known() -> None:
    node = node_of(8)
    seat = node.gpus["g0"].turns.seats[1]
    for second in (3, 10):
        node.handle(second * SECOND, ev.LockReleased(1, "g0", seat.lock, True))
    assert seat.last_turns == (3 * SECOND, 7 * SECOND)


def test_a_turn_is_expected_to_last_as_long_as_the_longest_of_the_last_ones() -> None:
    assert starts(node_with_habits(9, 12, 5), 2) == {2: 10, 3: 40}


def test_only_the_last_five_turns_count() -> None:
    assert starts(node_with_habits(25, 4, 5, 6, 7, 8), 0) == {2: 8, 3: 38}


def test_a_turn_that_is_longer_than_the_last_ones_may_last_for_the_quantum() -> None:
    assert starts(node_with_habits(5), 10) == {2: 20, 3: 50}


def test_no_turn_is_expected_to_be_longer_than_the_quantum() -> None:
    assert starts(node_with_habits(95), 0) == {2: 30, 3: 60}


def test_a_client_that_leaves_early_makes_room_only_if_the_next_one_fits_then() -> None:
    for gib, expected in ((5, 30), (3, 6)):
        node = node_of(2, 6, gib)
        node.gpus["g0"].turns.seats[1].turn_ended(6 * SECOND)
        assert starts(node, 0) == {3: expected}


def test_a_client_that_was_told_to_stop_leaves_now() -> None:
    node = node_of(8, 8)
    node.handle(10 * SECOND, ev.WorkFinished(1, "g0"))
    while not node.gpus["g0"].turns.dropping:
        node.handle(node.next_deadline() or 0, ev.AlarmRang())
    assert starts(node, 15) == {2: 0}


def test_without_a_queue_or_a_running_client_nothing_is_said() -> None:
    assert starts(node_of(4), 0) == {}
    assert starts(node_of(), 0) == {}


def test_only_the_first_of_a_long_queue_are_told() -> None:
    assert list(starts(node_of(*[8] * 30), 0)) == list(range(2, 2 + MOST))


def test_what_was_told_comes_true_if_everybody_always_has_work() -> None:
    node = node_of(8, 8, 8)
    told = starts(node, 0)
    locks = {1: (1 << 32) + 1}
    happened = {}
    for now in (30, 60):
        for dropped in node.handle(now * SECOND, ev.AlarmRang()):
            if isinstance(dropped, DropLock):
                released = ev.LockReleased(dropped.client, "g0", locks[dropped.client], True)
                for given in node.handle(now * SECOND, released):
                    if isinstance(given, GiveLock):
                        locks[given.client] = given.lock
                        happened[given.client] = float(now)
    assert happened == told

"""What core limits of many groups, and alarms of many clients, cost: as in test_step_cost.py."""

from msgspec.structs import replace

from core.step_cost import GPUS, MAX_RATIO, lines_of, registration
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.gpu_decisions import MOST_SEATS
from nvshare.core.model import GIB, MILLISECOND, SECOND, Memory, Settings
from nvshare.core.node import Node


def capped_crowd(groups: int) -> Node:
    """Clients that run together, each in a group of its own with a core limit."""
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.GpuFound("g0", 16 * GIB))
    for client in range(1, groups + 1):
        node.handle(SECOND, replace(registration(client, ("g0",)), group=f"run/{client}"))
        node.handle(SECOND, ev.LockRequested(client, "g0", Memory(0)))
        node.handle(SECOND, ev.CoreLimitWanted(client, 50))
    node.handle(SECOND, replace(registration(groups + 1, ("g0",)), group="run/another", account="uid/2"))
    return node


def test_a_step_is_at_most_linear_in_the_groups_with_core_limits() -> None:
    """Each of them is looked at, and no look at one visits all others."""

    def another_asks(groups: int) -> int:
        node = capped_crowd(groups)
        request = ev.LockRequested(groups + 1, "g0", Memory(0))
        return lines_of(lambda: node.handle(SECOND + 20 * MILLISECOND, request))

    few, many = another_asks(20), another_asks(200)
    assert many < 1.25 * (200 / 20) * few


def cost_of_changing_limits(groups: int, percents: tuple[int, ...]) -> tuple[int, int]:
    """Lines in 160 ms, and of the longest step: a group changes its core limit every millisecond, while another client
    takes its turns; alarms included."""
    node, costs = capped_crowd(groups), []

    def step(now: int, event: ev.Event) -> None:
        costs.append(lines_of(lambda: node.handle(now, event)))

    for tick in range(160):
        now = SECOND + tick * MILLISECOND
        if (deadline := node.next_deadline()) is not None and deadline <= now:
            step(now, ev.AlarmRang())
        step(now, ev.CoreLimitWanted(1 + tick % groups, percents[tick // 3 % len(percents)]))
        if tick % 10 == 0:
            step(now, ev.LockRequested(groups + 1, "g0", Memory(0)))
        elif tick % 10 == 5:
            seat = node.clients[groups + 1].seats["g0"]
            step(now, ev.LockReleased(groups + 1, "g0", seat.lock, False))
    return sum(costs), max(costs)


def test_core_limits_of_many_groups_that_change_all_the_time_cost_no_more() -> None:
    (few, _), (many, longest) = (cost_of_changing_limits(groups, (40, 50)) for groups in (100, 400))
    assert many < MAX_RATIO * few
    assert longest < 100 * 400, "a look visits each group once"


def test_core_limits_that_are_removed_and_set_again_do_not_make_a_look_longer() -> None:
    """Each group then begins at another look."""
    _, longest = cost_of_changing_limits(400, (0, 50))
    assert longest < 100 * 400


def test_the_end_of_many_groups_with_core_limits_costs_no_more_for_each() -> None:
    """A process that is killed may have had a connection for each of them."""

    def end_of(groups: int) -> float:
        node = capped_crowd(groups)
        node.handle(SECOND, ev.CoreLimitWanted(1, 0))
        ends = [lines_of(lambda it=client: node.handle(SECOND, ev.ClientLeft(it))) for client in range(2, 62)]  # type: ignore[misc]
        return sum(sorted(ends)[:-1])

    few, many = end_of(100), end_of(400)
    assert many < 400 / 100 * few / 1.5, "only the other clients of the group are looked for among all"


def test_a_pause_of_many_groups_with_core_limits_costs_no_more() -> None:
    """Looks that nothing has divided for 10 s are divided together."""

    def alarm_after(pause_ns: int) -> int:
        node = capped_crowd(100)
        for client in range(1, 101):
            node.handle(SECOND, ev.CoreLimitWanted(client, 99))
        return lines_of(lambda: node.handle(SECOND + pause_ns, ev.AlarmRang()))

    assert alarm_after(10 * SECOND) < 2 * MAX_RATIO * alarm_after(SECOND)


def costs_of_a_turn(resting: int) -> tuple[int, int]:
    """Lines of the steps in which a client begins to wait and gets its lock. The other clients of its group, which has
    a core limit, rest. In a crowd debts are checked at other times."""
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.GpuFound("g0", 16 * GIB))
    node.handle(SECOND, replace(registration(1, ("g0",)), group="run/another"))
    node.handle(SECOND, ev.LockRequested(1, "g0", Memory(15 * GIB)))
    for client in range(2, resting + 3):
        node.handle(SECOND, registration(client, ("g0",)))
    node.handle(SECOND, ev.CoreLimitSet("run/1", 50))
    request, last = ev.LockRequested(resting + 2, "g0", Memory(15 * GIB)), node.clients[resting + 2].seats["g0"]
    waits = lines_of(lambda: node.handle(SECOND, request))
    release = ev.LockReleased(1, "g0", node.clients[1].seats["g0"].lock, False)
    runs = lines_of(lambda: node.handle(SECOND, release))
    assert last.lock, "it has waited and runs"
    return waits, runs


def test_resting_clients_of_a_group_with_a_core_limit_make_no_turn_longer() -> None:
    few, many = costs_of_a_turn(60), costs_of_a_turn(1000)
    assert many[0] <= MAX_RATIO * few[0], (few, many)
    assert many[1] <= MAX_RATIO * few[1], (few, many)


def test_an_alarm_of_many_gpus_is_handled_in_steps() -> None:
    """The GPUs whose deadlines came first are the first; the others are due at once."""
    node = Node(Settings(), epoch=1)
    for client in range(MOST_SEATS // 2):
        node.handle(client, registration(client + 1, GPUS))
        for gpu in GPUS:
            node.handle(client, ev.LockRequested(client + 1, gpu, Memory(15 * GIB)))
    late = 3600 * SECOND
    due = [gpu.uuid for gpu in node.gpus.values() if gpu.deadline <= late]
    assert len(due) == len(GPUS)
    dropped = []
    while (deadline := node.next_deadline()) is not None and deadline <= late:
        out = node.handle(late, ev.AlarmRang())
        dropped.append(len({action.gpu for action in out if isinstance(action, ac.DropLock)}))
    assert max(dropped) == 2
    assert sum(dropped) >= len(GPUS)


def test_a_group_in_a_crowd_is_held_back_by_its_core_limit() -> None:
    """All others are idle. It is checked a little later than beside few, because not all are checked at once."""
    node = capped_crowd(300)
    for client in range(2, 301):
        node.handle(SECOND, ev.GpuTimeReported(client, "g0", 1000, 0, 0))
    dropped: list[tuple[int, int]] = []
    now = SECOND
    while not dropped and now < 4 * SECOND:
        now = max(now + MILLISECOND, node.next_deadline() or 0)
        out = node.handle(now, ev.AlarmRang())
        dropped = [(action.client, now) for action in out if isinstance(action, ac.DropLock)]
    assert [client for client, _ in dropped] == [1]
    assert now < 2 * SECOND, "300 ms beyond half of the time are reached after 600 ms"
    for client in (1, 2, 3):
        node.handle(now, ev.CoreLimitWanted(client, 0))
        node.handle(now, ev.CoreLimitWanted(client, 50))
    node.handle(now + 10 * MILLISECOND, ev.CoreLimitWanted(1, 40))
    node.handle(now + 20 * MILLISECOND, ev.CoreLimitWanted(1, 30))
    assert node.gpus["g0"].turns.no_turns.over >= {"run/1"}, "a limit that is set again finds the debt"

"""Which core limit counts: annotation, then the operator, then the pod's specification, within what its claims allow; a
process may only lower it."""

from typing import TypeGuard

import pytest

from core.pods_and_claims import claim_prepared, pod_changed
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.compute.recent_use import RecentUse
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.snapshot import snapshot


def limits(node: Node) -> list[int]:
    """Of each client on each of its GPUs."""
    return [seat.core_limit_percent for client in snapshot(node, SECOND).clients for seat in client.seats]


def joined(*groups: str, gpus: tuple[str, ...] = ("g0",)) -> Node:
    node = Node(Settings(), epoch=1)
    for number, group in enumerate(groups, 1):
        claims = tuple(Claim(gpu, GIB) for gpu in gpus)
        node.handle(0, ev.ClientRegistered(number, group, group, "x", claims))
    return node


def test_the_operator_limits_all_processes_of_a_group_and_those_to_come() -> None:
    node = joined("run/1", "run/1", "run/2")
    assert node.handle(0, ev.CoreLimitSet("run/1", 30)) == [ac.NoteOrder(1), ac.NoteOrder(2)]
    node.handle(0, ev.ClientRegistered(4, "run/1", "run/1", "x", (Claim("g0", GIB),)))
    assert limits(node) == [30, 30, 0, 30]
    node.handle(0, ev.CoreLimitSet("run/1", None))
    assert limits(node) == [0, 0, 0, 0]


def test_time_that_was_shared_before_a_silence_does_not_count_as_a_part_of_it() -> None:
    """A group with 90 % had half of the GPU until the other client left. 300 ms of debt take 3 s alone."""
    node = joined("run/1", "run/2")
    node.handle(0, ev.CoreLimitSet("run/1", 90))
    for client in (1, 2):
        node.handle(0, ev.LockRequested(client, "g0", Memory(0)))
    node.handle(10 * SECOND, ev.ClientLeft(2))
    assert node.handle(12_900 * MILLISECOND, ev.AlarmRang()) == []
    drop = ac.DropLock(1, "g0", node.gpus["g0"].turns.seats[1].lock, "share")
    assert drop in node.handle(13_100 * MILLISECOND, ev.AlarmRang())


def test_a_process_may_lower_the_limit_of_its_pod_and_not_raise_it() -> None:
    node = joined("pod/a", "pod/a")
    assert node.handle(1, ev.CoreLimitWanted(1, 60)) == []
    assert limits(node) == [60, 60]
    node.handle(1, ev.CoreLimitSet("pod/a", 30))
    assert limits(node) == [30, 30]
    node.handle(1, ev.CoreLimitSet("pod/a", 80))
    assert limits(node) == [60, 60]
    node.handle(1, ev.ClientLeft(1))
    assert limits(node) == [80]


def test_the_operator_may_raise_what_a_run_wants() -> None:
    node = joined("run/1", "run/1")
    node.handle(1, ev.CoreLimitWanted(1, 60))
    assert limits(node) == [60, 60]
    for percent, counts in ((80, 80), (100, 0), (30, 30), (None, 60)):
        node.handle(1, ev.CoreLimitSet("run/1", percent))
        assert limits(node) == [counts, counts]


@pytest.mark.parametrize("percent", [0, 100])
def test_all_of_a_gpu_is_no_limit(percent: int) -> None:
    node = joined("run/1")
    node.handle(1, ev.CoreLimitSet("run/1", percent))
    assert limits(node) == [0]


def test_an_annotation_counts_more_than_the_operator_and_the_specification() -> None:
    node = joined("pod/a")
    node.handle(1, ev.CoreLimitWanted(1, 20))
    node.handle(1, pod_changed("a", "spec-core-limit=20"))
    assert limits(node) == [20]
    node.handle(1, ev.CoreLimitSet("pod/a", 40))
    assert limits(node) == [40]
    assert node.handle(1, pod_changed("a", "spec-core-limit=20 core-limit=70")) == [ac.NoteOrder(1)]
    assert limits(node) == [70]
    (refused,) = node.handle(1, ev.CoreLimitSet("pod/a", 90))
    assert refused == ac.Refuse("team/a has an annotation nvshare.com/gpu-core-limit, which counts; change that")


def test_a_claim_is_an_upper_bound_on_its_gpu() -> None:
    node = joined("pod/a", gpus=("g0", "g1"))
    node.handle(1, pod_changed("a", "claims=c"))
    node.handle(1, claim_prepared("c", "g0=1Gi core-limits=g0:50"))
    assert limits(node) == [50, 0]
    node.handle(1, pod_changed("a", "claims=c core-limit=70"))
    assert limits(node) == [50, 70]
    node.handle(1, pod_changed("a", "claims=c core-limit=30"))
    assert limits(node) == [30, 30]


def test_claims_on_one_gpu_add_up_and_one_without_a_limit_has_none() -> None:
    node = joined("pod/a")
    node.handle(1, claim_prepared("c", "g0=1Gi core-limits=g0:30"))
    node.handle(1, claim_prepared("d", "g0=1Gi core-limits=g0:40"))
    node.handle(1, pod_changed("a", "claims=c,d"))
    assert limits(node) == [70]
    node.handle(1, claim_prepared("d", "g0=1Gi"))
    assert limits(node) == [0]


def test_the_share_that_a_client_got_is_that_of_the_last_ten_seconds() -> None:
    node = joined("run/1")
    node.handle(0, ev.LockRequested(1, "g0", Memory(0)))
    for second in range(20):  # Busy for 250 of each 1000 looks, from the tenth second on.
        busy = (1 << 250) - 1 if second >= 10 else 0
        for part in range(4):
            now = (second * 1000 + 250 * (part + 1)) * MILLISECOND
            node.handle(now, ev.GpuTimeReported(1, "g0", second * 1000 + 250 * part, 250, 0 if part else busy))
    assert snapshot(node, 20 * SECOND).clients[0].seats[0].gpu_percent == pytest.approx(25, abs=2)


def test_recent_use_is_that_of_the_window_or_of_the_time_since_the_first_note() -> None:
    recent = RecentUse()
    assert recent.percent(5 * SECOND, 0) == 0.0
    recent.note(10 * SECOND, 0)
    assert recent.percent(12 * SECOND, SECOND) == 50.0
    for second in range(11, 31):
        recent.note(second * SECOND, (second - 10) * SECOND // 2)
        recent.note(second * SECOND + 1, 99 * SECOND)  # Too soon: not noted.
    assert recent.percent(30 * SECOND + SECOND // 2, 10 * SECOND + SECOND // 4) == 50.0
    assert recent.percent(50 * SECOND, 10 * SECOND) == 0.0


def test_an_order_decides_on_the_gpus_of_a_group_in_the_same_order_in_every_process() -> None:
    gpus = tuple(f"g{number}" for number in range(8))
    node = Node(Settings(), epoch=1)
    given: dict[str, int] = {}
    for client, gpu in enumerate(gpus, 1):
        node.handle(0, ev.ClientRegistered(client, "run/1", "x", "x", (Claim(gpu, GIB),)))
        (given[gpu],) = (a.lock for a in node.handle(0, ev.LockRequested(client, gpu, Memory())) if has_lock(a))
    node.handle(0, ev.CoreLimitSet("run/1", 1))
    node.handle(30 * SECOND, ev.AlarmRang())
    for client, gpu in enumerate(gpus, 1):
        assert not any(has_lock(action) for action in node.handle(30 * SECOND, released(client, gpu, given[gpu])))
    actions = node.handle(30 * SECOND, ev.CoreLimitSet("run/1", None))
    assert [action.gpu for action in actions if has_lock(action)] == list(gpus)


def released(client: int, gpu: str, lock: int) -> ev.LockReleased:
    return ev.LockReleased(client, gpu, lock, again=True)


def has_lock(action: ac.Action) -> TypeGuard[ac.GiveLock]:
    return isinstance(action, ac.GiveLock)


def test_a_limit_that_is_set_again_does_not_count_what_was_used_without_it() -> None:
    node = joined("run/1")
    node.handle(0, ev.CoreLimitSet("run/1", 30))
    node.handle(0, ev.CoreLimitSet("run/1", None))
    node.handle(SECOND, ev.LockRequested(1, "g0", Memory(GIB)))
    actions = node.handle(60 * SECOND, ev.CoreLimitSet("run/1", 30))
    assert [action for action in actions if isinstance(action, ac.DropLock)] == []

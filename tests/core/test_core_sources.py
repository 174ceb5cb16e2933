"""Which source names a core limit, as `nvsharectl limits` shows it."""

from core.pods_and_claims import claim_prepared, pod_changed
from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, Settings
from nvshare.core.node import Node
from nvshare.core.snapshots.limit_snapshot import LimitSnapshot, limits


def named(node: Node) -> list[tuple[str, str | None, int]]:
    return [(one.group, one.core_source, one.core_limit_percent) for one in limits(node)]


def node_with(group: str, *, gpus: tuple[str, ...] = ("g0",)) -> Node:
    node = Node(Settings(), epoch=1, is_paranoid=True)
    node.handle(0, ev.ClientRegistered(1, group, group, "x", tuple(Claim(gpu, GIB) for gpu in gpus)))
    return node


def test_a_group_with_a_core_limit_alone_is_listed_without_a_memory_limit() -> None:
    node = node_with("run/1")
    assert tuple(limits(node)) == ()
    node.handle(0, ev.CoreLimitSet("run/1", 30))
    assert tuple(limits(node)) == (LimitSnapshot("run/1", "run/1", 0, None, 1, 30, "operator"),)


def test_all_of_a_gpu_is_listed_if_somebody_said_so() -> None:
    node = node_with("run/1")
    node.handle(0, ev.CoreLimitSet("run/1", 100))
    assert named(node) == [("run/1", "operator", 100)]


def test_the_operators_limit_for_processes_to_come_is_listed() -> None:
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.CoreLimitSet("run/later", 40))
    assert named(node) == [("run/later", "operator", 40)]


def test_what_a_process_wants_is_named_where_it_is_lower() -> None:
    for group, source, counts in (("pod/a", "environment", 20), ("run/1", "operator", 50)):
        node = node_with(group)
        node.handle(0, ev.CoreLimitWanted(1, 20))
        assert named(node) == [(group, "environment", 20)]
        node.handle(0, ev.CoreLimitSet(group, 50))
        assert named(node) == [(group, source, counts)]
        node.handle(0, ev.CoreLimitSet(group, 10))
        assert named(node) == [(group, "operator", 10)]


def test_an_annotation_raises_the_limit_above_that_of_every_container() -> None:
    """Two containers with limits of their own: without an annotation the lower one counts for the pod."""
    node = node_with("pod/a")
    node.handle(0, ev.CoreLimitWanted(1, 60))
    containers = "spec-core-limit=40 container-core-limits=60,70"
    node.handle(0, pod_changed("a", containers))
    assert named(node) == [("pod/a", "environment", 40)]
    node.handle(0, pod_changed("a", f"{containers} core-limit=90"))
    assert named(node) == [("pod/a", "annotation", 90)]
    node.handle(0, ev.CoreLimitWanted(1, 50))
    assert named(node) == [("pod/a", "environment", 50)]


def test_annotation_specification_and_claim_are_told_apart() -> None:
    node = node_with("pod/a", gpus=("g0", "g1"))
    node.handle(0, pod_changed("a", "spec-core-limit=70"))
    assert named(node) == [("pod/a", "environment", 70)]
    node.handle(0, pod_changed("a", "spec-core-limit=70 core-limit=60"))
    assert named(node) == [("pod/a", "annotation", 60)]
    node.handle(0, claim_prepared("c", "g0=1Gi g1=1Gi core-limits=g0:20,g1:30"))
    node.handle(0, pod_changed("a", "core-limit=60 claims=c"))
    assert [(core, percent) for _, core, percent in named(node)] == [("claim", 30)], "where it has most"


def test_claims_say_on_which_gpus_a_core_limit_is_too_high() -> None:
    node = node_with("pod/a", gpus=("g0", "g1"))
    node.handle(0, claim_prepared("c", "g0=1Gi g1=1Gi core-limits=g0:20"))
    node.handle(0, pod_changed("a", "core-limit=60 claims=c"))
    claims = node.groups["pod/a"].claims
    assert (claims.lower_core_limits(60), claims.lower_core_limits(20)) == ({"g0": 20}, {})

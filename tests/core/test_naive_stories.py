"""What the core may do, in situations that random walks rarely reach: the naive account does not accuse it."""

import pytest

from core.naive import Naive
from core.priority_stories import EPOCH, FOUND, SETTINGS, Story
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, HostRoom, Memory
from nvshare.core.node import Node


def play(story: Story) -> list[ac.Action]:
    """What the last event leads to."""
    node, naive = Node(SETTINGS, epoch=EPOCH, is_paranoid=True), Naive(SETTINGS, None)
    actions: list[ac.Action] = []
    for now, event in [*FOUND, *story]:
        naive.before(now, event)
        actions = node.handle(now, event)
        naive.after(now, actions, node)
    return actions


def joins(client: int, *gpus: str, priority: int = 0, group: str = "") -> tuple[int, ev.Event]:
    claims = tuple(Claim(gpu, 16 * GIB) for gpu in gpus)
    return 0, ev.ClientRegistered(client, group or f"run/{client}", "x", "x", claims, priority=priority)


def asks(at_ms: int, client: int, gpu: str, gib: int) -> tuple[int, ev.Event]:
    return at_ms * MILLISECOND, ev.LockRequested(client, gpu, Memory(gib * GIB))


def has(at_ms: int, client: int, gpu: str, gib: int) -> tuple[int, ev.Event]:
    return at_ms * MILLISECOND, ev.MemoryChanged(client, gpu, Memory(gib * GIB))


def lock(number: int) -> int:
    return (EPOCH << 32) + number


def test_a_client_joins_a_job_after_it_has_taken_locks_alone() -> None:
    """The job has a lower priority than the clients that lose their locks."""
    story: Story = [
        joins(1, "g0", priority=1, group="run/job"),
        joins(2, "g0", "g1", priority=-5, group="run/job"),
        joins(3, "g0"), joins(4, "g1"),
        (0, ev.CollectivesUsed(1)), (0, ev.CollectivesUsed(2)),
        asks(1000, 2, "g0", 5), asks(1000, 4, "g1", 9), asks(1000, 2, "g1", 9), (1000 * MILLISECOND, ev.ClientLeft(4)),
        asks(1000, 3, "g0", 5), asks(2000, 1, "g0", 13),
    ]  # fmt: skip
    dropped = [(one.client, one.gpu) for one in play(story) if isinstance(one, ac.DropLock)]
    assert sorted(dropped) == [(2, "g0"), (3, "g0")]


def test_a_client_that_was_blocked_for_a_moment_is_told_the_place_behind_the_last() -> None:
    """When the first client asks again, it is held back by its core limit. As soon as another one runs, debts are
    looked at again, and it owes nothing: it did not work."""
    at = 1500 * MILLISECOND
    story: Story = [
        joins(1, "g1", priority=1), joins(2, "g0", "g1"), joins(3, "g1"),
        asks(1000, 1, "g1", 9), asks(1000, 2, "g0", 1), asks(1100, 2, "g1", 9), asks(1200, 3, "g1", 9),
        (1000 * MILLISECOND, ev.CoreLimitSet("run/1", 30)),
        (1300 * MILLISECOND, ev.YieldAsked(client=1)),
        (at, ev.MemoryMoved(1, "g1", False, GIB, SECOND)),
        *[(at, ev.GpuTimeReported(1, "g1", first, 250, 0)) for first in (1000, 1250)],
        (at, ev.LockReleased(1, "g1", lock(1), True)),
    ]  # fmt: skip
    actions = play(story)
    assert [(one.client, one.gpu) for one in actions if isinstance(one, ac.GiveLock)] == [(3, "g1")]
    assert [one for one in actions if isinstance(one, ac.QueueClient)] == [ac.QueueClient(1, "g1", 2)]


def test_no_room_is_kept_at_a_gpu_where_all_fit() -> None:
    """A member of a gang leaves with another one, whose GPU is too full."""
    story: Story = [
        joins(2, "g0", "g1"), joins(3, "g1"), joins(4, "g0"), joins(5, "g1"),
        asks(1000, 3, "g1", 5), asks(1000, 5, "g1", 9),
        asks(1000, 2, "g0", 5), asks(1000, 2, "g1", 5), (1000 * MILLISECOND, ev.ClientLeft(5)),
        has(1100, 2, "g0", 1), has(1200, 2, "g0", 5), asks(1300, 4, "g0", 14), has(1400, 2, "g1", 14),
    ]  # fmt: skip
    dropped = [(one.client, one.gpu, one.cause) for one in play(story) if isinstance(one, ac.DropLock)]
    assert dropped == [(2, "g1", "growth"), (2, "g0", "growth")]


@pytest.mark.parametrize("rooms", [(0, 4), (4, 0)])
def test_a_client_is_named_twice_in_one_measurement(rooms: tuple[int, int]) -> None:
    story: Story = [
        joins(1, "g0"), joins(2, "g0"),
        asks(1000, 1, "g0", 4), asks(1000, 2, "g0", 4),
        (1100 * MILLISECOND, ev.HostMemoryMeasured(tuple(HostRoom(1, "g0", room * GIB) for room in rooms))),
        has(1200, 2, "g0", 14),
    ]  # fmt: skip
    assert [one.client for one in play(story) if isinstance(one, ac.DropLock)] == [2]


def test_work_without_a_lock_is_found_at_the_next_look() -> None:
    """The report comes when it has a lock, and leads to no decision. The core looks again when it expected that the
    client would owe too much."""
    at = 2000 * MILLISECOND
    story: Story = [
        joins(1, "g0"), joins(2, "g0"),
        asks(1000, 2, "g0", 1), (1000 * MILLISECOND, ev.GpuTimeReported(2, "g0", 1000, 0, 0)),
        (1450 * MILLISECOND, ev.CoreLimitSet("run/1", 30)),
        asks(2000, 1, "g0", 1),
        has(2000, 1, "g0", 2),
        *[(at, ev.GpuTimeReported(1, "g0", first, 256, (1 << 256) - 1)) for first in (1489, 1745)],
    ]  # fmt: skip
    assert play(story) == []
    drop = ac.DropLock(1, "g0", lock(2), "share")
    assert drop in play([*story, (2400 * MILLISECOND, ev.AlarmRang())])

"""The naive account finds a core in which priorities do not preempt where they should."""

from contextlib import nullcontext

import pytest

from core.naive import Naive
from core.priority_stories import BREACHES, EPOCH, SETTINGS, Story
from nvshare.core import actions as ac
from nvshare.core.node import Node


def play(story: Story) -> list[ac.DropCause]:
    """Why locks are dropped."""
    node, naive = Node(SETTINGS, epoch=EPOCH, is_paranoid=True), Naive(SETTINGS, None)
    causes: list[ac.DropCause] = []
    for now, event in story:
        naive.before(now, event)
        actions = node.handle(now, event)
        naive.after(now, actions, node)
        causes += [action.cause for action in actions if isinstance(action, ac.DropLock)]
    return causes


@pytest.mark.parametrize("breach", BREACHES)
@pytest.mark.parametrize("is_broken", [False, True])
def test_a_breach_is_found(breach: str, is_broken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    story, owner, name, fault = BREACHES[breach]
    if is_broken:
        monkeypatch.setattr(owner, name, fault(getattr(owner, name)))
    with (
        pytest.raises(AssertionError, match="does not wait for the end of their quant") if is_broken else nullcontext()
    ):
        assert set(play(story)) == {"priority"}

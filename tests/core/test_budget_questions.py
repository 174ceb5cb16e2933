"""How many questions about budget may be open: one more is refused in the step in which it comes."""

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, Memory, Settings
from nvshare.core.node import Node

GPU = "g0"


def recalling_node(members: int) -> Node:
    """Members of one run and its limit of 4 GiB. The first one uses 3 GiB and answers no recall."""
    node = Node(Settings(), epoch=1)
    node.handle(0, ev.LimitSet("run/1", 4 * GIB))
    for client in range(1, members + 1):
        used = Memory(swappable=3 * GIB if client == 1 else 0)
        claim = Claim(GPU, 80 * GIB, memory=used)
        node.handle(0, ev.ClientRegistered(client, "run/1", "x", "x", (claim,)))
    return node


def answered(node: Node, client: int, ask: int) -> list[int]:
    """The questions that are answered in the step in which this one comes; each answer is a refusal."""
    actions = node.handle(0, ev.BudgetAsked(client, GPU, ask, 2 * GIB))
    answers = [action for action in actions if isinstance(action, ac.GiveBudget) and action.ask]
    assert all(answer.client == client and answer.serial == 0 and answer.budget < 2 * GIB for answer in answers)
    return [answer.ask for answer in answers]


def test_one_question_too_many_of_one_process_is_refused_in_the_same_step() -> None:
    node = recalling_node(3)
    assert [answered(node, 2, ask) for ask in range(1, 257)] == [[]] * 256
    assert answered(node, 2, 257) == [257]
    assert answered(node, 3, 1) == [], "its sibling may still ask"
    assert node.groups["run/1"].limits[GPU].questions.open == 257


def test_one_question_too_many_of_one_group_is_refused_in_the_same_step() -> None:
    node = recalling_node(18)
    for client in range(2, 18):
        assert [answered(node, client, ask) for ask in range(1, 257)] == [[]] * 256
    assert answered(node, 18, 1) == [1]
    assert node.groups["run/1"].limits[GPU].questions.open == 4096

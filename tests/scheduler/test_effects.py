"""What the operator is told of an order that was carried out."""

import pytest

from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.journal import Step
from nvshare.scheduler.observe.names import Ids
from nvshare.scheduler.operator.effects import effect_of


@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (4, "limit 4.00 GiB on each GPU; it uses 3.00 GiB on g0, 3.00 GiB on g1."),
        (
            6,
            "limit 6.00 GiB on each GPU, but 5.00 GiB on g1, because its ResourceClaims allow no more there;"
            " it uses 3.00 GiB on g0, 3.00 GiB on g1.",
        ),
    ],
)
def test_a_limit_above_the_claim_on_one_gpu_names_what_counts_there(limit: int, told: str) -> None:
    node = Node(Settings(), epoch=1, expects_pods=True, is_paranoid=True)
    claims = tuple(Claim(gpu, 16 * GIB, memory=Memory(swappable=3 * GIB)) for gpu in ("g0", "g1"))
    for event in (
        ev.PodsListed(),
        ev.ClaimPrepared("u-1", "team/c", {"g0": 8 * GIB, "g1": 5 * GIB}),
        ev.PodChanged("p", "team/p", claims=("team/c",)),
        ev.ClientRegistered(1, "pod/p", "team/p", "", claims),
    ):
        node.handle(0, event)
    order = ev.LimitSet("pod/p", limit * GIB)
    step = Step(0, 0, order, tuple(node.handle(0, order)))
    assert effect_of(node, step, Ids()) == f"team/p: {told}"

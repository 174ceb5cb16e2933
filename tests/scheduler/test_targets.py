"""Whom an operator means by a text: a client for its story, and a GPU."""

import pytest

from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, Settings
from nvshare.core.node import Node
from nvshare.scheduler.operator.targets import TargetError, client_named, gpu_named

FIRST, SECOND = "GPU-11111111-2222-3333-4444-555555555555", "GPU-11222222-2222-3333-4444-555555555555"


@pytest.fixture
def node() -> Node:
    made = Node(Settings(), epoch=1)
    made.handle(0, ev.GpuFound(FIRST, 16 * GIB, 0, "A100"))
    made.handle(0, ev.GpuFound(SECOND, 16 * GIB, 1, "A100"))
    for client, label, name, pid in (
        (0x6CCB, "run 5a5a5a5a", "train", 70),
        (0x6CDD, "run 5b5b5b5b", "train", 71),
        (0xCAFE, "default/serve", "python", 72),
    ):
        event = ev.ClientRegistered(client, f"run/{client}", label, name, (Claim(FIRST, 16 * GIB),), pid=pid)
        made.handle(0, event)
    return made


LEFT = {0x6CCB: "train", 0xCAFE: "python", 0xDEAD: "earlier", 0xBEEF: "earlier"}
MEANT = {
    "an id": ("6ccb", 0x6CCB),
    "the beginning of an id": ("ca", 0xCAFE),
    "a name": ("python", 0xCAFE),
    "a process id": ("71", 0x6CDD),
    "a pod": ("default/serve", 0xCAFE),
    "a pod without its namespace": ("serve", 0xCAFE),
    "the id of one that left": ("dead", 0xDEAD),
    "the name of one that left, the latest": ("earlier", 0xBEEF),
}


@pytest.mark.parametrize(("target", "client"), MEANT.values(), ids=MEANT.keys())
def test_which_client_a_text_means(node: Node, target: str, client: int) -> None:
    assert client_named(node, LEFT, target) == client


def test_a_name_of_two_clients_is_refused_with_both(node: Node) -> None:
    with pytest.raises(TargetError) as refused:
        client_named(node, LEFT, "train")
    assert str(refused.value) == (
        "2 clients are called 'train': 6ccb (train, pid 70, run 5a5a5a5a), 6cdd (train, pid 71, run 5b5b5b5b);"
        " use an id"
    )
    with pytest.raises(TargetError, match="2 clients are called '6c'"):
        client_named(node, LEFT, "6c")


@pytest.mark.parametrize("target", ["", "nobody", "ffff"])
def test_nobody_is_meant(node: Node, target: str) -> None:
    with pytest.raises(TargetError, match="no client"):
        client_named(node, LEFT, target)


@pytest.mark.parametrize("target", ["1", SECOND, "GPU-112", "gpu-112", "1122", SECOND.lower()])
def test_a_gpu_is_meant_by_index_uuid_or_the_beginning_of_one(node: Node, target: str) -> None:
    assert gpu_named(node.gpus, target) == SECOND


@pytest.mark.parametrize(
    ("target", "said"),
    [("11", "no GPU is"), ("GPU-11", "2 GPUs are"), ("GPU-", "2 GPUs are"), ("9", "no GPU is"), ("", "no")],
)
def test_an_unclear_gpu_is_refused_with_a_list(node: Node, target: str, said: str) -> None:
    with pytest.raises(TargetError) as refused:
        gpu_named(node.gpus, target)
    assert str(refused.value).startswith(said)
    assert str(refused.value).endswith(f"this node has: 0 ({FIRST}), 1 ({SECOND})")

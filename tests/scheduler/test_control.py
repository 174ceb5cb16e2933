"""Whom an operator means by a name, and what is refused: the operator's socket before a core with pods in it."""

import asyncio
from pathlib import Path

import pytest

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim, Settings
from nvshare.core.node import Node
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.operator.control import Control

POD = "9c8d2e0a-3a5f-4f4e-8d5c-0f6c3d1b2a7e"
OTHER = "11111111-2222-3333-4444-555555555555"
GPU = "GPU-1"


def joined(client: int, group: str, label: str) -> ev.ClientRegistered:
    return ev.ClientRegistered(client, group, label, "python", (Claim(GPU, 16 * GIB),), pid=client)


def node_of_pods() -> Node:
    """Two pods of the same name in two namespaces, and a container and a run; a pod that is called like a client."""
    node = Node(Settings(), epoch=1)
    for event in (
        ev.PodChanged(POD, "default/train"),
        ev.PodChanged(OTHER, "team/train", limit=3 * GIB),
        ev.PodChanged("33333333-2222-3333-4444-555555555555", "default/cafe"),
        joined(0xCAFE, f"pod/{POD}", "default/train"),
        joined(0xB0B, f"pod/{OTHER}", "team/train"),
        joined(3, "container/" + "ab" * 32, "container abababababab"),
        joined(4, "run/0-" + "5a" * 16, "run 5a5a5a5a"),
        joined(5, "pod/33333333-2222-3333-4444-555555555555", "default/cafe"),
    ):
        node.handle(1, event)
    return node


def order(place: Path, node: Node, request: admin.Request) -> None:
    """Send one order through the operator's socket."""

    async def main() -> None:
        engine = Engine(node, asyncio.get_running_loop())
        path = str(place / "control.sock")
        server = await asyncio.start_unix_server(Control(engine, Journal(100)).serve, path)
        try:
            await asyncio.to_thread(operator_client.ask_for, admin.Done, path, request)
        finally:
            server.close()

    asyncio.run(main())


MEANT: dict[str, tuple[str, str]] = {
    "a pod by namespace and name": ("default/train", f"pod/{POD}"),
    "a pod by UID": (POD, f"pod/{POD}"),
    "a pod by its key": (f"pod/{POD}", f"pod/{POD}"),
    "a container by id": ("ab" * 32, "container/" + "ab" * 32),
    "a container by label": ("container abababababab", "container/" + "ab" * 32),
    "a run by label": ("run 5a5a5a5a", "run/0-" + "5a" * 16),
    "a run by its short id": ("5a5a5a5a", "run/0-" + "5a" * 16),
    "a client by id": ("0003", "container/" + "ab" * 32),
}


@pytest.mark.parametrize(("target", "key"), MEANT.values(), ids=MEANT.keys())
def test_whom_a_name_means(tmp_path: Path, target: str, key: str) -> None:
    node = node_of_pods()
    order(tmp_path, node, admin.SetLimit(target, 2 * GIB))
    assert {group.key for group in node.groups.values() if group.limit == 2 * GIB} == {key}
    order(tmp_path, node, admin.SetLimit(target, None))
    assert not any(group.limit == 2 * GIB for group in node.groups.values())


REFUSED: dict[str, tuple[str, str]] = {
    "a name that two namespaces have": ("train", "2 groups are called 'train'"),
    "a pod that is called like a client of another": ("cafe", "2 groups are called 'cafe'"),
    "an annotated pod": ("team/train", "annotation"),
    "an annotated pod's client": ("0b0b", "annotation"),
    "nobody": ("default/nobody", "no client, pod, container or run is called 'default/nobody'"),
    "nothing": ("", "called ''"),
}


@pytest.mark.parametrize(("target", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_refused(tmp_path: Path, target: str, said: str) -> None:
    node = node_of_pods()
    before = {group.key: group.limit for group in node.groups.values()}
    with pytest.raises(operator_client.RefusedError, match=said):
        order(tmp_path, node, admin.SetLimit(target, 2 * GIB))
    assert {group.key: group.limit for group in node.groups.values()} == before

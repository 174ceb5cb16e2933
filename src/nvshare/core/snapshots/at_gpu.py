"""The clients of one GPU, each as it is when it is read: a slow reader keeps only their ids meanwhile."""

from collections.abc import Callable, Iterator

from nvshare.core.client import Client
from nvshare.core.gpu import Gpu
from nvshare.core.node import Node
from nvshare.core.snapshots.group_use import Together
from nvshare.core.snapshots.snapshot import ClientSnapshot, client_snapshot, gpu_percent, outlook_of

Clock = Callable[[], int]


def clients_at(node: Node, uuid: str, clock: Clock) -> Iterator[ClientSnapshot]:
    """The clients that are at the GPU now, with their seats there only. One that has left when it is read is left
    out."""
    if uuid in node.gpus:
        known = {uuid: outlook_of(node, node.gpus[uuid], clock())}
        for client, _ in _present(node, uuid):
            yield client_snapshot(node, client, clock(), known, (uuid,))


def count_use(node: Node, uuid: str, clock: Clock, had: Together) -> Iterator[None]:
    """Add the use of the GPU by each of its clients to `had`, one by one."""
    for client, gpu in _present(node, uuid):
        had.add(client.group.key, client.uid, uuid, gpu_percent(gpu, client.seats[uuid], clock()))
        yield


def _present(node: Node, uuid: str) -> Iterator[tuple[Client, Gpu]]:
    for number in list(node.gpus[uuid].turns.seats if uuid in node.gpus else ()):
        client, gpu = node.clients.get(number), node.gpus.get(uuid)
        if client is not None and gpu is not None and uuid in client.seats:
            yield client, gpu

"""Which clients, groups and GPUs an operator means, by any name that `nvsharectl` shows of them. Pure."""

from collections.abc import Iterable, Mapping

from nvshare.admin import client_name
from nvshare.core.gpu import Gpu
from nvshare.core.node import Node
from nvshare.inventory.gpus import begins

LISTED = 8


class TargetError(Exception):
    """No target has this name, or several have it; the text lists what could be meant."""


def group_named(node: Node, target: str) -> str:
    """The key of the group that is meant by a client's id or name, a label, its last part, or a key."""
    groups = _groups_named(node, target)
    if len(groups) != 1:
        found = "no client, pod, container or run is" if not groups else f"{len(groups)} groups are"
        raise TargetError(f"{found} called {target!r}; `nvsharectl status` and `nvsharectl limits` list them")
    return groups.pop()


def _groups_named(node: Node, target: str) -> set[str]:
    exact = {g.key for g in node.groups.values() if target in (g.key, g.key.partition("/")[2], g.label)}
    short = {g.key for g in node.groups.values() if target in (g.label.rpartition("/")[2], g.label.rpartition(" ")[2])}
    named = exact or short or {client.group.key for client in node.clients.values() if client.name == target}
    # A pod may be called cafe, and a client's id may be cafe: then it is not clear which one is meant.
    client = node.clients.get(_client_id(target))
    return named | {client.group.key} if client else named


def client_named(node: Node, left: Mapping[int, str], target: str) -> int:
    """The client that is meant by its id or the beginning of it, its name, its process id, or its group's label.

    `left` are the names of clients that have left; one of them is meant only if no present client is."""
    for found in _readings(node, target):
        if len(found) == 1:
            return found[0]
        if found:
            listed = ", ".join(_told(node, client) for client in sorted(found)[:LISTED])
            raise TargetError(f"{len(found)} clients are called {target!r}: {listed}; use an id")
    if _client_id(target) in left:
        return _client_id(target)
    gone = [client for client, name in left.items() if name == target]
    if gone:
        return gone[-1]
    raise TargetError(f"no client {target!r}; `nvsharectl status` lists them")


def _readings(node: Node, target: str) -> Iterable[list[int]]:
    """The clients that a text can mean, by each of its meanings; the first meaning that applies to a client counts."""
    clients = node.clients.values()
    yield [_client_id(target)] if _client_id(target) in node.clients else []
    yield [client.id for client in clients if client.name == target]
    yield [client.id for client in clients if str(client.pid) == target]
    yield [client.id for client in clients if target in (client.group.label, client.group.label.rpartition("/")[2])]
    yield [client.id for client in clients if target and client_name(client.id).startswith(target.lower())]


def _told(node: Node, client: int) -> str:
    one = node.clients[client]
    return f"{client_name(client)} ({one.name}, pid {one.pid}, {one.group.label})"


def gpu_named(gpus: Mapping[str, Gpu], target: str) -> str:
    """The UUID that is meant by an index, a UUID, or the beginning of one with or without `GPU-`."""
    if target in gpus:
        return target
    by_index = [uuid for uuid, gpu in gpus.items() if target == str(gpu.index)]
    found = by_index or [uuid for uuid in gpus if begins(uuid, target)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(_gpu_told(gpu) for gpu in list(gpus.values())[:LISTED]) or "none"
    count = "no GPU is" if not found else f"{len(found)} GPUs are"
    raise TargetError(f"{count} called {target!r}; this node has: {known}")


def _gpu_told(gpu: Gpu) -> str:
    return gpu.uuid if gpu.index is None else f"{gpu.index} ({gpu.uuid})"


def _client_id(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0

"""What the shell completes: clients and GPUs that the scheduler knows, and file names after `nvshare run --`."""

import click
from click.shell_completion import CompletionItem

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.cli.ctl.users import user_name
from nvshare.core.snapshots.snapshot import Snapshot

TIMEOUT_S = 1.0


def clients(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names and ids of clients that begin like this."""
    node = _node(context)
    if node is None:
        return []
    ids = [CompletionItem(admin.client_name(one.id), help=f"{one.name}, {one.label}") for one in node.clients]
    names = [CompletionItem(name) for name in sorted({one.name for one in node.clients})]
    return [item for item in (*names, *ids) if str(item.value).startswith(incomplete)]


def gpus(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The indices and UUIDs of GPUs that begin like this."""
    node = _node(context)
    if node is None:
        return []
    by_index = [CompletionItem(str(gpu.index), help=gpu.name) for gpu in node.gpus if gpu.index is not None]
    by_uuid = [CompletionItem(gpu.uuid, help=gpu.name) for gpu in node.gpus]
    return [item for item in (*by_index, *by_uuid) if str(item.value).startswith(incomplete)]


def users(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """`me`, and the users of clients, that begin like this."""
    node = _node(context)
    names = ["me", *sorted({user_name(one.uid) for one in node.clients})] if node is not None else ["me"]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The shell's own completion of file names."""
    return [CompletionItem(incomplete, type="file")]


def _node(context: click.Context) -> Snapshot | None:
    named = context.params.get("path") or context.find_root().params.get("path")
    path = named or operator_client.default_socket()
    try:
        return operator_client.ask_for(admin.Status, path, admin.GetStatus(), timeout_s=TIMEOUT_S).node
    except (operator_client.UnreachableError, operator_client.RefusedError, admin.AdminError):
        return None  # nothing can be said on a line that is being typed

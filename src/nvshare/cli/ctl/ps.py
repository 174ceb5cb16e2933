"""`nvshare ps`: the programs that share the GPUs of this machine."""

import sys

import click

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.cli.ctl import complete, render
from nvshare.cli.ctl.users import only_user
from nvshare.cli.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from nvshare.cli.group import terminal_width
from nvshare.core.snapshots.group_use import Together
from nvshare.status_document import client_document


@click.command(short_help="Show the programs that share the GPUs.")
@click.option(
    "--user",
    metavar="NAME",
    shell_complete=complete.users,
    help="Only programs of this user; `me` for your own.",
)
@click.option("--socket", "path", metavar="PATH", help="Socket of the scheduler.  [NVSHARE_OPERATOR_SOCKET]")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format.")
def ps(user: str | None, path: str | None, output: str) -> None:
    """Show the programs that share the GPUs of this machine: who runs, who waits, and how much memory each has.

    This needs no special rights. `nvsharectl status` also shows the GPUs; `nvsharectl story CLIENT` says why a
    program waits.
    """
    try:
        scheduler = operator_client.find(path)
        answer = operator_client.ask_for(admin.Status, scheduler.path, admin.GetStatus())
    except (operator_client.UnreachableError, operator_client.RefusedError, admin.AdminError) as error:
        raise CommandError(f"ps: {error}", EXIT_FAILED) from None
    operator_client.note_others(scheduler)
    try:
        chosen = only_user(answer.node, user)
    except KeyError:
        raise CommandError(f"ps: this machine has no user {user}", EXIT_USAGE) from None
    if output == "json":
        had = Together(answer.node.clients)
        programs = [client_document(client, seat, answer.now, had) for client, seat in render.in_order(chosen)]
        click.echo(render.as_json(programs))
    elif chosen.clients:
        click.echo(render.client_table(chosen, width=terminal_width()))
    elif others := len(answer.node.clients):
        whose = "of yours" if user == "me" else f"of user {user}"
        sys.stderr.write(f"No program {whose} shares a GPU; {others} of others.\n")
    else:
        sys.stderr.write("No programs share a GPU.\n")

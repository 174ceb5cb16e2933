"""nvsharectl's commands about limits of memory: set one, show all."""

from typing import TYPE_CHECKING

import click

from nvshare import admin
from nvshare.cli.ctl import complete, render
from nvshare.cli.ctl.limit_table import limit_table
from nvshare.cli.group import terminal_width
from nvshare.cli.options import SIZE
from nvshare.status_document import limit_document

if TYPE_CHECKING:
    from nvshare.cli.ctl.nvsharectl import Scheduler


@click.command(
    short_help="Set the memory limit of a program or pod.",
    context_settings={"ignore_unknown_options": True},  # -5 is a size, and negative
)
@click.argument("target", metavar="CLIENT|POD", shell_complete=complete.clients)
@click.argument("size", metavar="SIZE|none", required=False)
@click.option("--clear", is_flag=True, help="Same as `none`.")
@click.pass_obj
def limit(scheduler: "Scheduler", target: str, size: str | None, clear: bool) -> None:
    """Set the memory limit of a client's pod, container or run to SIZE on each GPU, e.g. 8Gi.

    `none` removes this limit; the limit of the pod's specification or of the program applies again. 0 means no limit.

    The command is refused for a pod with the annotation nvshare.com/gpu-memory-limit; change the annotation.
    """
    if (size is None) != clear:
        raise click.UsageError("give a SIZE, none, or --clear")
    scheduler.order(admin.SetLimit(target, None if size in (None, "none") else SIZE(size)))


@click.command(short_help="Show all limits of memory and GPU time.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", help="Output format.")
@click.pass_obj
def limits(scheduler: "Scheduler", output: str) -> None:
    """Show the limits of memory and GPU time of all groups, also of those without a running process.

    A limit that was set with `nvsharectl limit` or `core-limit` stays until it is set to `none`, until its pod is
    removed, or until 1024 other groups without a process have a newer one. The limit of a single process ends with the
    process.
    """
    answer = scheduler.ask_for(admin.Limits, admin.GetLimits())
    values = [limit_document(one) for one in answer.limits]
    click.echo(render.as_json(values) if output == "json" else limit_table(answer.limits, terminal_width()))

"""`nvsharectl top`: who has the GPUs, live. The rest is loaded only when it is used, so that `status` stays quick."""

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from nvshare.cli.nvsharectl import Scheduler

SORTS = ("state", "memory", "name", "since", "turns", "ran", "waited")


@click.command()
@click.option("-d", "--delay", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True, help="Seconds a look.")
@click.option("-n", "--count", type=click.IntRange(1), help="End after so many looks.")
@click.option("-s", "--sort", type=click.Choice(SORTS), default="state", show_default=True, help="The order.")
@click.option("-f", "--filter", "wanted", default="", help="Only clients with this in name, group, GPU, state or id.")
@click.option("--plain", is_flag=True, help="Plain lines, as when the output is not a terminal.")
@click.pass_obj
def top(scheduler: "Scheduler", delay: float, count: int | None, sort: str, wanted: str, plain: bool) -> None:
    """Show the GPUs and who runs, who waits, live.

    \b
    q quit     p pause      s next order   r reverse
    / filter   arrows and page keys scroll

    RAN and WAITED are shares of the time in which the client wanted the GPU. The bar is the GPU's memory: of running
    clients, of what cannot be moved out, of programs that do not share; the stroke is the limit planned with.
    """
    from nvshare import admin
    from nvshare.cli.top_live import Top, print_lines
    from nvshare.cli.top_view import View

    def ask() -> admin.Status:
        return scheduler.ask_for(admin.Status, admin.GetStatus())

    view = View(sort=sort, wanted=wanted)
    if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_lines(ask, view, delay, count)
    else:
        Top(ask, view, delay, count).run()

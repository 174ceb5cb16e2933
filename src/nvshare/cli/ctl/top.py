"""`nvsharectl top`: a live view of the GPUs and clients. It is imported only when it is used."""

import sys
from typing import TYPE_CHECKING

import click

from nvshare.cli.group import has_screen

if TYPE_CHECKING:
    from nvshare.cli.ctl.nvsharectl import Scheduler

SORTS = ("state", "memory", "name", "since", "turns", "ran", "gpu", "waited")


@click.command()
@click.option(
    "-d", "--delay", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True, help="Seconds between updates."
)
@click.option("-n", "--count", type=click.IntRange(1), help="Number of updates; then exit.")
@click.option("-s", "--sort", type=click.Choice(SORTS), default="state", show_default=True, help="Sort order.")
@click.option(
    "-f", "--filter", "wanted", default="", help="Only clients with this text in name, group, GPU, state or ID."
)
@click.option("--by", type=click.Choice(["client", "user"]), default="client", help="A row for each of these.")
@click.option("--plain", is_flag=True, help="Print plain lines, as for a pipe.")
@click.pass_obj
def top(scheduler: "Scheduler", delay: float, count: int | None, sort: str, wanted: str, by: str, plain: bool) -> None:
    """Show GPUs, running and waiting clients continuously.

    \b
    q quit     ? help       p pause             s next sort order
    r reverse  / filter     u sums per user     Enter the story of the client
    arrows and page keys: choose a client

    RAN and WAITED are percentages of the time in which the client wanted the GPU. The bar shows the GPU's memory: of
    running clients, unswappable memory, memory of programs that do not share; the line in it is the safe limit.
    """
    from nvshare import admin
    from nvshare.cli.ctl.top_live import Top, print_lines
    from nvshare.cli.ctl.top_view import View

    def ask() -> admin.Status:
        return scheduler.ask_for(admin.Status, admin.GetStatus())

    def tell(client: str) -> admin.Story:
        return scheduler.ask_for(admin.Story, admin.GetStory(client))

    view = View(sort=sort, wanted=wanted, by_user=by == "user")
    if plain or not (sys.stdin.isatty() and has_screen()):
        print_lines(ask, view, delay, count)
    else:
        Top(ask, tell, view, delay, count).run()

"""nvsharectl report: what users, pods, programs or GPUs have used."""

import csv
import io
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from nvshare import admin
from nvshare.cli.ctl import render
from nvshare.cli.ctl.text_table import table
from nvshare.cli.ctl.users import user_name
from nvshare.cli.group import terminal_width
from nvshare.cli.options import DURATION
from nvshare.core.model import GIB
from nvshare.printable import printable
from nvshare.quantity import size
from nvshare.status_document import report_document

if TYPE_CHECKING:
    from nvshare.cli.ctl.nvsharectl import Scheduler

HEADS = {"user": "USER", "pod": "WHO", "name": "NAME", "gpu": "GPU"}


@click.command(short_help="Show what users, pods, programs or GPUs have used.")
@click.option("--since", type=DURATION, default="7d", show_default=True, help="Of this time, e.g. 12h, 7d.")
@click.option(
    "--by", type=click.Choice(list(HEADS)), default="user", show_default=True, help="A row for each of these."
)
@click.option("-o", "--output", type=click.Choice(["table", "csv", "json"]), default="table", help="Output format.")
@click.pass_obj
def report(scheduler: "Scheduler", since: float, by: Any, output: str) -> None:
    """Show what was used, also by programs that have ended.

    \b
    BUSY      seconds for which work kept a GPU busy; programs that run
              together share them
    UTIL      BUSY in percent of the time since the report begins; above 100
              if several GPUs were used
    HELD      seconds with the lock of a GPU; programs that run together are
              all counted
    MEMORY    allocated memory over time, in GiB-hours
    WAITING   seconds of waiting for the lock
    SWITCHES  how often the lock was given
    IN, OUT   memory that was moved to the GPU and to the host

    Hours are kept for 2 days, then days for 90 days; the first hour or day counts as a whole.
    """
    answer = scheduler.ask_for(admin.Report, admin.GetReport(since, by))
    forms: dict[str, Callable[[admin.Report], str]] = {"table": _as_table, "csv": _as_csv, "json": _as_json}
    click.echo(forms[output](answer))
    if answer.left_out and output == "csv":
        click.echo(f"{answer.left_out} more rows held less and are left out.", err=True)


def _as_json(answer: admin.Report) -> str:
    return render.as_json(report_document(answer))


def _as_table(answer: admin.Report) -> str:
    since = time.strftime("%Y-%m-%d %H:%M", time.localtime(answer.begin))
    rows = [
        [
            _who(answer, row),
            f"{row.gpu_seconds:.0f}",
            f"{row.gpu_percent:.0f}%",
            f"{row.held_seconds:.0f}",
            f"{gib_hours(row):.2f}",
            f"{row.waiting_seconds:.0f}",
            str(row.switches),
            size(row.moved_in_bytes),
            size(row.moved_out_bytes),
        ]
        for row in answer.rows
    ]
    head = [HEADS[answer.by], "BUSY", "UTIL", "HELD", "MEMORY", "WAITING", "SWITCHES", "IN", "OUT"]
    made = table(head, rows, width=terminal_width(), drop=("OUT", "IN"), cut=head[:1]) if rows else "Nothing was used."
    rest = f"\n{answer.left_out} more held less and are left out." if answer.left_out else ""
    return f"Since {since}, busy, held and waiting in seconds, memory in GiB-hours\n{made}{rest}"


def _as_csv(answer: admin.Report) -> str:
    text = io.StringIO()
    made = csv.writer(text, lineterminator="\n")
    made.writerow(
        [
            answer.by,
            "held_seconds",
            "memory_gib_hours",
            "waiting_seconds",
            "switches",
            "moved_in_bytes",
            "moved_out_bytes",
            "gpu_seconds",
            "gpu_percent",
        ]
    )
    for row in answer.rows:
        times = f"{row.held_seconds:.3f}", f"{gib_hours(row):.6f}", f"{row.waiting_seconds:.3f}"
        busy = f"{row.gpu_seconds:.3f}", f"{row.gpu_percent:.3f}"
        counts = row.switches, row.moved_in_bytes, row.moved_out_bytes
        made.writerow([_cell(_who(answer, row)), *times, *counts, *busy])
    return text.getvalue().rstrip("\n")


def gib_hours(row: admin.ReportRow) -> float:
    return row.memory_byte_seconds / GIB / 3600


def _who(answer: admin.Report, row: admin.ReportRow) -> str:
    if answer.by == "user" and row.key.isascii() and row.key.isdigit():
        return user_name(int(row.key))
    return row.label or "-"


def _cell(text: str) -> str:
    """A program chose this text: it must not be a formula for the program that reads the file."""
    shown = printable(text)
    return "'" + shown if shown[:1] in ("=", "+", "-", "@") and shown != "-" else shown

"""Runs the demonstration and prints it: progress while it runs, a table, a picture."""

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from nvshare.cli.demo.drawing import svg, write_png
from nvshare.cli.demo.limit import LimitStep, limit_story
from nvshare.cli.demo.picture import draw
from nvshare.cli.demo.plan import CARD, Phase, Plan
from nvshare.cli.demo.report import KINDS, Line, Verdict, estimate, lines, panels, progress_note, switches, verdicts
from nvshare.cli.demo.testbed import PhaseResult, Testbed, run_phase
from nvshare.cli.run.cleanup import temporary_directory
from nvshare.core.model import GIB

PIPE_WIDTH = 110
TITLE = "Which program used the GPU when"
_STYLES = {"ok": "green", "slow": "yellow", "FAIL": "bold red"}


class Demonstration:
    """Runs the plan and prints the results."""

    def __init__(self, plan: Plan, out: Path, *, is_real: bool, only: str | None) -> None:
        self._plan = plan
        self._out = out
        self._is_real = is_real
        self._only = only
        self._console = Console(highlight=False)
        if not self._console.is_terminal:
            self._console = Console(highlight=False, width=PIPE_WIDTH)
        self._results: dict[str, PhaseResult] = {}

    async def run(self) -> bool:
        """Run everything; returns whether every program did what it should."""
        self._print_title()
        with temporary_directory() as folder:
            testbed = Testbed(self._plan, folder, is_real=self._is_real)
            for phase in self._plan.phases:
                if self._only in (None, phase.key.partition("-")[0]):
                    self._results[phase.key] = await self._run_phase(phase, testbed)
            steps = await limit_story(testbed) if self._only in (None, "limit") else []
            if self._results:
                self._console.print()
                self._console.print(table_of(lines(self._plan, self._results)))
                self._draw()
            shown = verdicts(self._plan, self._results, switches(self._results))
        return self._print_verdicts(shown, steps)

    def _print_title(self) -> None:
        card = "this machine's first GPU" if self._is_real else f"a simulated {CARD.upper()}"
        speed = "" if self._is_real else f"; one second of the card takes {self._plan.scale * 1000:.0f} ms"
        self._console.print(f"nvshare demo on {card} of {self._plan.card / GIB:.3g} GiB{speed}\n")

    async def _run_phase(self, phase: Phase, testbed: Testbed) -> PhaseResult:
        kind = KINDS[phase.key.partition("-")[0]]
        many = f"{len(phase.jobs)} x {phase.jobs[0].memory / GIB:.3g} GiB, {kind}"
        if not self._console.is_terminal:
            self._console.print(f"{many}: {phase.title} ...")
            return await run_phase(phase, testbed, lambda index, done: None)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with Progress(*columns, console=self._console) as progress:
            progress.console.print(Text(f"{many}: {phase.title}", style="bold"))
            tasks = [progress.add_task(f"  {job.name}", total=1.0, note="") for job in phase.jobs]

            def show(index: int, done: float) -> None:
                progress.update(tasks[index], completed=done, note=f"{done:.0%}")

            result = await run_phase(phase, testbed, show)
            for task, job in zip(tasks, result.jobs, strict=True):
                progress.update(task, note=progress_note(job))
            return result

    def _draw(self) -> None:
        drawing = draw(TITLE, panels(self._plan, self._results))
        paths = [self._out / "nvshare-demo.svg", self._out / "nvshare-demo.png"]
        paths[0].write_text(svg(drawing), encoding="utf-8")
        write_png(drawing, paths[1])
        self._console.print()
        for path in paths:
            self._console.print(f"{TITLE}: {path.absolute()}", soft_wrap=True)

    def _print_verdicts(self, shown: list[Verdict], steps: list[LimitStep]) -> bool:
        shown += [Verdict(f"{one.did}: {one.answer}", "ok" if one.is_as_promised else "FAIL") for one in steps]
        self._console.print()
        for verdict in shown:
            self._console.print(Text.assemble((f"  {verdict.result:<4}  ", _STYLES[verdict.result]), verdict.text))
        if any(verdict.result == "slow" for verdict in shown):
            self._console.print("  slow: other work on this machine delays the programs; run it again when it is idle")
        return all(verdict.result != "FAIL" for verdict in shown)


def table_of(rows: list[Line]) -> Table:
    """The times of all situations."""
    table = Table(title="Seconds of the card, measured in this run", title_justify="left", pad_edge=False)
    table.add_column("programs")
    table.add_column("time", justify="right")
    table.add_column("compared")
    group = ""
    for row in rows:
        if row.group != group:
            group = row.group
            table.add_section()
            table.add_row(Text(group, style="bold"))
        table.add_row(f"  {row.title}", _seconds(row), row.compared)
        if row.outcome:
            table.add_row(Text(f"    {row.outcome}", style="yellow"))
    return table


def _seconds(row: Line) -> str:
    if row.seconds is None:
        return "failed"
    return f"about {estimate(row.seconds)} s" if row.outcome else f"{row.seconds:.0f} s"

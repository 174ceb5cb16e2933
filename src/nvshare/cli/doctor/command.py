"""`nvshare doctor`: checks this machine and prints the remedy of each problem."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nvshare.cli.doctor.progress import Progress
from nvshare.cli.errors import EXIT_FAILED
from nvshare.printable import printable
from nvshare.quantity import amount

if TYPE_CHECKING:
    from nvshare.cli.doctor.acceptance.results import Card, Report, Row
    from nvshare.cli.doctor.finding import Finding


@click.command(short_help="Check this machine.")
@click.option("--gpu", "is_deep", is_flag=True, help="Also measure a GPU: the acceptance kit, about ten minutes.")
@click.option("--device", default="0", metavar="GPU", show_default=True, help="GPU of --gpu: index, UUID, or `all`.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="Directory for the report of --gpu [default: the current one].",
)
@click.option("--python", default=sys.executable, metavar="PATH", help="Interpreter with the frameworks for --gpu.")
@click.option("--sim-gpus", type=click.IntRange(1, 16), metavar="N", help="Check N simulated GPUs instead.")
@click.option("--json", "is_json", is_flag=True, help="Print the findings as JSON.")
def doctor(is_deep: bool, device: str, out: Path, python: str, sim_gpus: int | None, is_json: bool) -> None:
    """Check the driver, the library, the scheduler and its sockets. Each problem is printed with its remedy.

    With --gpu, test programs run on the GPU with a scheduler of their own. What they measure is compared with what
    the simulated card predicts, printed, and written to nvshare-gpu-report.json and .html, to be attached to a report.
    On a GPU that other programs use they take at most an eighth of what is free, and checks that need the whole card
    are skipped.

    Exit codes: 0 no check failed, 1 a check failed.
    """
    if sim_gpus is not None:
        _restart_on_simulated_gpus(sim_gpus)
    found: list[Finding] = []
    progress = Progress()
    for finding in _findings(progress):
        found.append(finding)
        if not is_json:
            progress.end()
            _print(finding.level, finding.text, finding.remedy)
    reports = _measure(device, out, python, progress, is_json=is_json) if is_deep else []
    failures, warnings = (sum(finding.level == level for finding in found) for level in ("fail", "warn"))
    failures += sum(report.count("failed") for report in reports)
    warnings += sum(report.count("differs") for report in reports)
    if is_json:
        _print_json(found, reports, failures, warnings)
    else:
        click.echo(f"\n{failures} failed, {warnings} warnings" if failures or warnings else "\nno problems found")
    if failures:
        sys.exit(EXIT_FAILED)


def _findings(progress: Progress) -> Iterator["Finding"]:
    from nvshare.cli.doctor.checks import CHECKS
    from nvshare.cli.doctor.machine import machine_of

    machine = machine_of(dict(os.environ))
    for check in CHECKS:
        what = f"checking the {check.__name__.removeprefix('check_').replace('_', ' ')} ..."
        progress.show(what)
        for finding in check(machine):
            yield finding
            progress.show(what)
    progress.end()


def _measure(device: str, out: Path, python: str, progress: Progress, *, is_json: bool) -> "list[Report]":
    """The acceptance kit, on each GPU that is asked for; its rows are printed as they come."""
    from nvshare.cli.doctor.acceptance import page, runner

    page.prepare(out)
    rows: dict[Card, list[Row]] = {card: [] for card in runner.cards(device)}
    try:
        for card, made in rows.items():
            if not is_json:
                click.echo(f"\n{card.uuid}: {printable(card.name)}, {amount(card.free_bytes)} free")
            for row in runner.accept(card, python, progress.show):
                made.append(row)
                if not is_json:
                    progress.end()
                    _print_row(row)
            progress.end()
    finally:  # also after Ctrl-C
        progress.end()
        reports = [runner.report(card, tuple(made)) for card, made in rows.items() if made]
        for path in page.write(out, reports) if reports else ():
            click.echo(f"written: {path}", err=is_json)
    return reports


def _print_row(row: "Row") -> None:
    colours = {"ok": "green", "differs": "yellow", "failed": "red"}
    predicted = f" (predicted: {row.predicted})" if row.predicted and row.verdict != "skipped" else ""
    verdict = click.style(f"{row.verdict:8}", fg=colours.get(row.verdict))
    click.echo(f"{verdict} {row.source:9} {row.what}: {printable(row.measured)}{predicted}")
    if row.remedy:
        click.echo(f"      -> {row.remedy}")


def _print_json(found: "list[Finding]", reports: "list[Report]", failures: int, warnings: int) -> None:
    import msgspec

    values = {"schema_version": 1, "findings": found, "gpus": reports, "failed": failures, "warnings": warnings}
    click.echo(msgspec.json.format(msgspec.json.encode(values), indent=2).decode())


def _print(level: str, text: str, remedy: str) -> None:
    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    click.echo(f"{click.style(f'{level:5}', fg=colours.get(level))} {printable(text)}")
    if remedy:
        click.echo(f"      -> {remedy}")


def _restart_on_simulated_gpus(count: int) -> None:
    """Start this command again with the simulated libraries: a process loads NVML once."""
    from nvshare.cli.errors import EXIT_NVSHARE_FAILED, CommandError
    from nvshare.cli.run import private_scheduler
    from nvshare.cli.run.cleanup import entering
    from nvshare.cli.run.simulated_gpu import simulated
    from nvshare.simgpu.config import SimConfigError

    try:
        runtime = private_scheduler.runtime_directory()
        with entering(runtime):
            card = simulated(os.environ, runtime, gpus=count, memory=None)
        environment = card.environment()
    except SimConfigError as error:
        raise CommandError(str(error), EXIT_NVSHARE_FAILED) from None
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    words = [sys.executable, "-P", "-m", "nvshare.cli.nvshare", *_without_sim_gpus(sys.argv[1:])]
    os.execve(sys.executable, words, environment)  # noqa: S606 - this program


def _without_sim_gpus(words: list[str]) -> list[str]:
    """The command line without `--sim-gpus N`, in both spellings."""
    at = next(at for at, word in enumerate(words) if word == "--sim-gpus" or word.startswith("--sim-gpus="))
    return words[:at] + words[at + (1 if "=" in words[at] else 2) :]

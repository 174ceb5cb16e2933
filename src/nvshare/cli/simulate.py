"""nvshare simulate: the scheduler's core on simulated cards, in seconds instead of hours."""

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from nvshare.cli import simulate_words as words
from nvshare.cli.failure import EXIT_FAILED, EXIT_USAGE, FrontError
from nvshare.core.model import SECOND, Mode, QuantumRule, Settings
from nvshare.core.policies import POLICIES
from nvshare.sim import mixes, picture, thesis
from nvshare.sim.card import CardModel
from nvshare.sim.machine import Machine
from nvshare.sim.program import Gate
from nvshare.sim.replay import JournalError, replay

Command = Callable[..., Any]
JOB_HELP = "A job: its memory, seconds on the GPU and on the CPU by turns, how often; when it comes."


def _cores() -> int:
    """Those we may use."""
    return len(os.sched_getaffinity(0))


@click.group(short_help="Try out scheduling on simulated cards.")
def simulate() -> None:
    """Try out scheduling without a GPU: the daemon's own core, simulated cards and programs.

    \b
    nvshare simulate thesis                   the table of the thesis behind nvshare, beside the measured figures
    nvshare simulate jobs -j 12Gi:16/2x40 -j 12Gi:5/20x40     jobs of your own
    nvshare simulate mixes --count 20         random mixes: ours against the original and auto
    nvshare simulate replay JOURNAL           a daemon's journal, step by step through the core
    """


def _scheduling(command: Command) -> Command:
    """Options that say how to schedule."""
    for option in reversed(
        (
            click.option("--mode", type=click.Choice(["auto", "fixed", "adaptive"]), default="auto", show_default=True),
            click.option(
                "--quantum", type=click.IntRange(1), default=60, show_default=True, help="Seconds; mode fixed."
            ),
            click.option("--multiplier", type=click.IntRange(1), default=5, show_default=True, help="Mode auto."),
            click.option("--policy", type=click.Choice(sorted(POLICIES)), default="fcfs", show_default=True),
            click.option("--reserve-percent", type=click.IntRange(0, 90), default=10, show_default=True),
        )
    ):
        command = option(command)
    return command


def _settings(mode: Mode, quantum: int, multiplier: int, policy: str, reserve: int) -> Settings:
    rule = QuantumRule(mode=mode, fixed_ns=quantum * SECOND, multiplier=multiplier)
    return Settings(quantum=rule, policy=policy, reserve_percent=reserve)


@simulate.command("thesis", short_help="The thesis' table, beside what it measured.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw who ran when into this file.")
@click.option("--calibrate", is_flag=True, help="Find the five parameters anew; takes minutes.")
@_scheduling
def thesis_command(
    as_json: bool,
    svg: Path | None,
    calibrate: bool,
    mode: Mode,
    quantum: int,
    multiplier: int,
    policy: str,
    reserve_percent: int,
) -> None:
    """The thesis' table: simulated, measured, and what our scheduler makes of the same jobs."""
    parameters = thesis.calibrate(thesis.FITTED)[0] if calibrate else thesis.FITTED
    settings = thesis.default_settings(
        thesis.card(parameters), _settings(mode, quantum, multiplier, policy, reserve_percent)
    )
    table = thesis.table(parameters)
    ours = {kind.name: thesis.run_ours(kind, settings, parameters) for kind in thesis.KINDS}
    if svg is not None:
        svg.write_text(picture.svg([(f"two {name}, {mode}", outcome) for name, outcome in ours.items()]))
    if as_json:
        _print_json(words.thesis_values(parameters, table, ours, mode))
        return
    for line in words.thesis_lines(parameters, table, ours, mode):
        click.echo(line)


@simulate.command("jobs")
@click.option(
    "--job", "-j", "texts", multiple=True, required=True, metavar="MEMORY:GPU/CPUxCOUNT[@ARRIVAL]", help=JOB_HELP
)
@click.option("--card", "card_size", default="16Gi", show_default=True, help="The card's memory.")
@click.option("--bus", type=float, default=5.4, show_default=True, help="GB/s at which faults move memory.")
@click.option("--gain", type=float, default=1.19, show_default=True, help="What two at once get done.")
@click.option("--gate", type=click.Choice(["nvshare", "classic", "none"]), default="nvshare", show_default=True)
@click.option("--json", "as_json", is_flag=True)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path))
@_scheduling
def jobs_command(
    texts: tuple[str, ...],
    card_size: str,
    bus: float,
    gain: float,
    gate: Gate,
    as_json: bool,
    svg: Path | None,
    mode: Mode,
    quantum: int,
    multiplier: int,
    policy: str,
    reserve_percent: int,
) -> None:
    """Jobs of your own on one card."""
    try:
        jobs = [words.parse_job(index, text) for index, text in enumerate(texts, 1)]
        model = CardModel(words.parse_size(card_size), bus * thesis.GB, gain, thesis.FITTED.sweep_s)
    except ValueError as error:
        raise FrontError(str(error), EXIT_USAGE) from None
    settings = thesis.default_settings(model, _settings(mode, quantum, multiplier, policy, reserve_percent))
    outcome = Machine({"gpu0": model}, jobs, settings, gate=gate).run()
    if svg is not None:
        svg.write_text(picture.svg([(f"{gate}, {mode}", outcome)]))
    if as_json:
        _print_json(outcome)
        return
    for line in [*words.outcome_lines(outcome), "", *picture.lanes(outcome)]:
        click.echo(line)


@simulate.command("mixes", short_help="Random mixes of jobs: ours against the original.")
@click.option("--count", type=click.IntRange(1), default=20, show_default=True)
@click.option("--first", type=int, default=0, show_default=True, help="The first seed.")
@click.option("--jobs", type=click.IntRange(1), default=_cores, help="Processes at work; by default one a core.")
@click.option(
    "--shake", is_flag=True, help="Also auto against itself with programs up to 1 s late: what means nothing."
)
@click.option("--json", "as_json", is_flag=True)
@_scheduling
def mixes_command(
    count: int,
    first: int,
    jobs: int,
    shake: bool,
    as_json: bool,
    mode: Mode,
    quantum: int,
    multiplier: int,
    policy: str,
    reserve_percent: int,
) -> None:
    """Random mixes of jobs: this way to schedule against the thesis' (first come, first served, 30 s) and auto."""
    ours = mixes.Contender(mode, "nvshare", _settings(mode, quantum, multiplier, policy, reserve_percent))
    contenders, pairs = _contenders(ours, shake)
    done = itertools.count(1)

    def tell(one: mixes.Comparison) -> None:
        if not as_json:
            click.echo(f"{next(done):4d}/{count}  {words.mix_line(one, pairs)}")
        elif sys.stderr.isatty():
            number = next(done)
            click.echo(f"\r{number} of {count} mixes", err=True, nl=number == count)

    compared = mixes.compare(range(first, first + count), contenders, tell, processes=jobs)
    if as_json:
        _print_json(words.mixes_values(compared, pairs))
        return
    for line in words.mixes_lines(compared, pairs):
        click.echo(line)


def _contenders(ours: mixes.Contender, shake: bool) -> tuple[list[mixes.Contender], list[tuple[str, str]]]:
    """Who runs, and who is measured against whom."""
    auto = ours if ours.name == mixes.AUTO.name else mixes.AUTO
    others = [mixes.FCFS_30] if auto is ours else [mixes.FCFS_30, auto]
    pairs = [(ours.name, other.name) for other in others]
    if not shake:
        return [*others, ours], pairs
    late = mixes.shaken(auto)
    return [*others, ours, late], [*pairs, (late.name, auto.name)]


@simulate.command("replay", short_help="Play a journal through the core, step by step.")
@click.argument("journal", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def replay_command(journal: Path) -> None:
    """Play a daemon's journal file through the core; exit 1 and show the first step that differs."""
    try:
        with journal.open("rb") as lines:
            played = replay(lines)
    except JournalError as error:
        raise FrontError(f"{journal}: {error}", EXIT_FAILED) from None
    for line in words.replay_lines(played):
        click.echo(line)
    if played.difference is not None:
        sys.exit(EXIT_FAILED)


def _print_json(values: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(values), indent=2).decode())

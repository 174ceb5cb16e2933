"""`nvshare simulate`: scheduling on simulated cards, in seconds instead of hours."""

import functools
import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import click
import msgspec
from msgspec.structs import replace

from nvshare.cli.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from nvshare.cli.options import SIZE
from nvshare.cli.simulate import formats
from nvshare.core.model import SECOND, ModeName, QuantumRule, Settings
from nvshare.core.policies import POLICIES
from nvshare.journal import JournalError
from nvshare.schedsim import mixes, picture, thesis
from nvshare.schedsim.card import CardModel
from nvshare.schedsim.gates import GateName
from nvshare.schedsim.machine import Machine, Outcome
from nvshare.schedsim.presets import PRESETS
from nvshare.schedsim.replay import replay

Command = Callable[..., Any]
POSITIVE = click.FloatRange(min=0, min_open=True)
JOB_HELP = "A job: memory, seconds on the GPU, seconds on the CPU, number of repetitions, arrival in seconds."


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


@click.group(short_help="Simulate scheduling on simulated cards.")
def simulate() -> None:
    """Simulate scheduling: the scheduler's own core with simulated cards and programs.

    \b
    nvshare simulate thesis                   the table of the thesis behind nvshare, simulated and measured
    nvshare simulate jobs -j 12Gi:16/2x40 -j 12Gi:5/20x40     your own jobs
    nvshare simulate mixes --count 20         random mixes of jobs, compared with the original and with auto
    nvshare simulate replay JOURNAL           replay a scheduler's journal
    """


def _settings_options(command: Command) -> Command:
    """Options that say how to schedule, given to the command as `settings`."""

    @click.option("--mode", type=click.Choice(get_args(ModeName)), default="auto", show_default=True)
    @click.option("--quantum", type=click.IntRange(1), default=60, show_default=True, help="Mode fixed: seconds.")
    @click.option(
        "--multiplier", type=click.IntRange(1), default=5, show_default=True, help="Mode auto: seconds per GiB."
    )
    @click.option("--policy", type=click.Choice(sorted(POLICIES)), default="fcfs", show_default=True)
    @click.option("--reserve-percent", type=click.IntRange(0, 90), default=10, show_default=True)
    @functools.wraps(command)
    def wrapped(
        *args: Any, mode: ModeName, quantum: int, multiplier: int, policy: str, reserve_percent: int, **kwargs: Any
    ) -> Any:
        rule = QuantumRule(mode=mode, fixed_ns=quantum * SECOND, multiplier=multiplier)
        settings = Settings(quantum=rule, policy=policy, reserve_percent=reserve_percent)
        return command(*args, settings=settings, **kwargs)

    return wrapped


def _moves_options(command: Command) -> Command:
    """Options that say how our library moves memory, given to the command as `moves`."""

    @click.option("--link", type=POSITIVE, help="Bandwidth of bulk moves in GB/s, each way. Default: page faults only.")
    @click.option("--half-duplex", is_flag=True, help="The link does not carry both ways at the same time.")
    @functools.wraps(command)
    def wrapped(*args: Any, link: float | None, half_duplex: bool, **kwargs: Any) -> Any:
        moves = mixes.Moves(None if link is None else link * thesis.GB, is_duplex=not half_duplex)
        return command(*args, moves=moves, **kwargs)

    return wrapped


@simulate.command("thesis", short_help="Simulate the table of the thesis.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw which job ran when into this file.")
@click.option("--calibrate", is_flag=True, help="Fit the five parameters again; takes minutes.")
@_settings_options
def thesis_command(
    as_json: bool,
    svg: Path | None,
    calibrate: bool,
    settings: Settings,
) -> None:
    """Simulate the table of the thesis, and compare it with the measured values and with our scheduler."""
    parameters = thesis.calibrate(thesis.FITTED)[0] if calibrate else thesis.FITTED
    settings = thesis.default_settings(thesis.card(parameters), settings)
    mode = settings.quantum.mode
    table = thesis.table(parameters)
    ours = {kind.name: thesis.run_ours(kind, settings, parameters) for kind in thesis.KINDS}
    if svg is not None:
        _draw(svg, [(f"two {name}, {mode}", outcome) for name, outcome in ours.items()])
    if as_json:
        _print_json(formats.thesis_values(parameters, table, ours, mode))
        return
    for line in formats.thesis_lines(parameters, table, ours, mode):
        click.echo(line)


@simulate.command("jobs")
@click.option(
    "--job", "-j", "texts", multiple=True, required=True, metavar="MEMORY:GPU/CPUxCOUNT[@ARRIVAL]", help=JOB_HELP
)
@click.option("--card", "card_size", type=SIZE, default="16Gi", show_default=True, help="Memory of the card.")
@click.option("--bus", type=POSITIVE, default=5.4, show_default=True, help="Bandwidth of page faults in GB/s.")
@click.option(
    "--gain", type=POSITIVE, default=1.19, show_default=True, help="Work of two jobs at the same time, relative to one."
)
@click.option(
    "--preset",
    type=click.Choice(sorted(PRESETS)),
    help="A known card, with bulk moves and costs of eviction, instead of --card, --bus and --gain.",
)
@_moves_options
@click.option("--gate", type=click.Choice(["nvshare", "classic", "none"]), default="nvshare", show_default=True)
@click.option("--json", "as_json", is_flag=True)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path))
@_settings_options
def jobs_command(
    texts: tuple[str, ...],
    card_size: int,
    bus: float,
    gain: float,
    preset: str | None,
    moves: mixes.Moves,
    gate: GateName,
    as_json: bool,
    svg: Path | None,
    settings: Settings,
) -> None:
    """Simulate your own jobs on one card."""
    if not card_size:
        raise CommandError("--card must be larger than 0", EXIT_USAGE)
    try:
        jobs = [formats.parse_job(index, text) for index, text in enumerate(texts, 1)]
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    model = PRESETS[preset] if preset else CardModel(card_size, bus * thesis.GB, gain, thesis.FITTED.sweep_s)
    model = replace(model, link=moves.link or model.link, is_duplex=moves.is_duplex)
    settings = thesis.default_settings(model, settings)
    outcome = Machine({"gpu0": model}, jobs, settings, gate=gate).run()
    if svg is not None:
        _draw(svg, [(f"{gate}, {settings.quantum.mode}", outcome)])
    if as_json:
        _print_json(outcome)
        return
    for line in [*formats.outcome_lines(outcome), "", *picture.lanes(outcome)]:
        click.echo(line)


@simulate.command("mixes", short_help="Simulate random mixes of jobs.")
@click.option("--count", type=click.IntRange(1), default=20, show_default=True)
@click.option("--first", type=int, default=0, show_default=True, help="First seed.")
@click.option(
    "--jobs", type=click.IntRange(1), default=_cores, help="Number of worker processes. Default: one per core."
)
@click.option(
    "--shake", is_flag=True, help="Also compare auto with itself, programs started up to 1 s later: this is the noise."
)
@click.option("--json", "as_json", is_flag=True)
@_moves_options
@_settings_options
def mixes_command(
    count: int,
    first: int,
    jobs: int,
    shake: bool,
    as_json: bool,
    moves: mixes.Moves,
    settings: Settings,
) -> None:
    """Compare a mode with the original (first come, first served, 30 s) and with auto, on random mixes of jobs."""
    ours = mixes.Contender(settings.quantum.mode, "nvshare", settings)
    contenders, pairs = _contenders(ours, shake)
    done = itertools.count(1)

    def tell(one: mixes.Comparison) -> None:
        if not as_json:
            click.echo(f"{next(done):4d}/{count}  {formats.mix_line(one, pairs)}")
        elif sys.stderr.isatty():
            number = next(done)
            click.echo(f"\r{number} of {count} mixes", err=True, nl=number == count)

    compared = mixes.compare(range(first, first + count), contenders, tell, processes=jobs, moves=moves)
    if as_json:
        _print_json(formats.mixes_values(compared, pairs))
        return
    for line in formats.mixes_lines(compared, pairs):
        click.echo(line)


def _contenders(ours: mixes.Contender, shake: bool) -> tuple[list[mixes.Contender], list[tuple[str, str]]]:
    """Which ways to schedule are run, and which pairs are compared."""
    auto = ours if ours.name == mixes.AUTO.name else mixes.AUTO
    others = [mixes.FCFS_30] if auto is ours else [mixes.FCFS_30, auto]
    pairs = [(ours.name, other.name) for other in others]
    if not shake:
        return [*others, ours], pairs
    late = mixes.shaken(auto)
    return [*others, ours, late], [*pairs, (late.name, auto.name)]


@simulate.command("replay", short_help="Replay a scheduler's journal.")
@click.argument("journal", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def replay_command(journal: Path) -> None:
    """Replay a journal file with the core. If a step differs, show the first one and exit with 1."""
    try:
        with journal.open("rb") as lines:
            played = replay(lines)
    except JournalError as error:
        raise CommandError(f"{journal}: {error}", EXIT_FAILED) from None
    for line in formats.replay_lines(played):
        click.echo(line)
    if played.difference is not None:
        sys.exit(EXIT_FAILED)


def _draw(path: Path, outcomes: list[tuple[str, Outcome]]) -> None:
    try:
        path.write_text(picture.svg(outcomes))
    except OSError as error:
        raise CommandError(f"cannot write the picture {path}: {error.strerror}", EXIT_USAGE) from None


def _print_json(values: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(values), indent=2).decode())

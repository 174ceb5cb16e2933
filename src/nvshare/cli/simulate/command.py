"""`nvshare simulate`: scheduling on simulated cards, in seconds instead of hours."""

import sys
from pathlib import Path

import click
from msgspec.structs import replace

from nvshare.cli.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from nvshare.cli.options import SIZE
from nvshare.cli.simulate import formats
from nvshare.cli.simulate.mixes_command import mixes_command
from nvshare.cli.simulate.options import POSITIVE, Fit, Moves, fit_options, moves_options, print_json, settings_options
from nvshare.core.model import GIB, Settings
from nvshare.journal import JournalError
from nvshare.schedsim import picture, thesis
from nvshare.schedsim.card import CardModel
from nvshare.schedsim.gates import GateName
from nvshare.schedsim.machine import Machine, Outcome
from nvshare.schedsim.presets import PRESETS
from nvshare.schedsim.replay import replay

JOBS_HELP = """Simulate your own jobs on one card. A JOB is

\b
MEMORY[/USED]:GPU/CPUxCOUNT[@ARRIVAL][,host=SIZE][,limit=SIZE@SECONDS...]

\b
12Gi:16/2x40             12 GiB; 40 times 16 s on the GPU and 2 s on the CPU
12Gi/3Gi:16/2x40@60      the same; it uses 3 GiB of them, and starts after
                         60 s
12Gi:16/2x40,host=4Gi    at most 4 GiB of its memory may be on the host
12Gi:16/2x40,limit=8Gi@300
                         its memory limit is set to 8 GiB after 300 s
"""
GATE_HELP = "nvshare: the library as it is; classic: the one of the thesis; none: the jobs run without turns."


@click.group(short_help="Simulate scheduling on simulated cards.")
def simulate() -> None:
    """Simulate scheduling: the scheduler's own core with simulated cards and programs.

    \b
    nvshare simulate thesis             the table of the thesis behind nvshare
    nvshare simulate jobs -j 12Gi:16/2x40 -j 12Gi:5/20x40
                                        your own jobs: two of 12 GiB, each 40
                                        times 16 s (5 s) on the GPU and 2 s
                                        (20 s) on the CPU
    nvshare simulate mixes --count 20   random mixes of jobs, with each mode
    nvshare simulate replay JOURNAL     replay a scheduler's journal
    """


@simulate.command("thesis", short_help="Simulate the table of the thesis.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw which job ran when into this file.")
@click.option("--calibrate", is_flag=True, help="Fit the five parameters again; takes minutes.")
@settings_options
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
        print_json(formats.thesis_values(parameters, table, ours, mode))
        return
    for line in formats.thesis_lines(parameters, table, ours, mode):
        click.echo(line)


@simulate.command("jobs", help=JOBS_HELP, short_help="Simulate your own jobs on one card.")
@click.option("--job", "-j", "texts", multiple=True, required=True, metavar="JOB", help="A job, as above.")
@click.option(
    "--preset",
    type=click.Choice(sorted(PRESETS)),
    help="A known card, with bulk moves and costs of eviction. Default: p100, unless --card, --bus or --gain is given.",
)
@click.option("--card", "card_size", type=SIZE, help="Memory of a card as in the thesis. Default: 16Gi.")
@click.option("--bus", type=POSITIVE, help="Bandwidth of its page faults in GB/s. Default: 5.4.")
@click.option("--gain", type=POSITIVE, help="Work of two jobs at the same time on it, relative to one. Default: 1.19.")
@moves_options
@fit_options
@click.option(
    "--gate", type=click.Choice(["nvshare", "classic", "none"]), default="nvshare", show_default=True, help=GATE_HELP
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Draw which job ran when into this file.")
@settings_options
def jobs_command(
    texts: tuple[str, ...],
    preset: str | None,
    card_size: int | None,
    bus: float | None,
    gain: float | None,
    moves: Moves,
    fit: Fit,
    gate: GateName,
    as_json: bool,
    svg: Path | None,
    settings: Settings,
) -> None:
    try:
        jobs = [formats.parse_job(index, text) for index, text in enumerate(texts, 1)]
    except ValueError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    model = _card(preset, card_size, bus, gain)
    model = replace(model, link=moves.link or model.link, is_duplex=moves.is_duplex)
    settings = thesis.default_settings(model, settings)
    settings = replace(settings, card_reserve=fit.card_reserve)
    machine = Machine(
        {"gpu0": model},
        jobs,
        settings,
        gate=gate,
        may_oversubscribe=fit.may_oversubscribe,
        is_host_counted=fit.is_host_counted,
    )
    outcome = machine.run()
    if svg is not None:
        _draw(svg, [(f"{gate}, {settings.quantum.mode}", outcome)])
    if as_json:
        print_json(outcome)
        return
    for line in [*formats.outcome_lines(outcome), "", *picture.lanes(outcome)]:
        click.echo(line)


def _card(preset: str | None, size: int | None, bus: float | None, gain: float | None) -> CardModel:
    """A known card, or one as the thesis has it: one speed for all moves, eviction is free, full thrashing."""
    given = [name for name, value in (("--card", size), ("--bus", bus), ("--gain", gain)) if value is not None]
    if preset is not None and given:
        raise CommandError(f"--preset has its own figures: leave out {' and '.join(given)}", EXIT_USAGE)
    if size == 0:
        raise CommandError("--card must be larger than 0", EXIT_USAGE)
    if not given:
        return PRESETS[preset or "p100"]
    size = 16 * GIB if size is None else size
    bus, gain = 5.4 if bus is None else bus, thesis.FITTED.gain if gain is None else gain
    return CardModel(size, bus * thesis.GB, gain, thesis.FITTED.sweep_s)


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


simulate.add_command(mixes_command)

"""`nvshare simulate mixes`: ways to schedule, compared on random mixes of jobs."""

import itertools
import os
import sys
from collections.abc import Callable
from functools import partial

import click

from nvshare.cli.errors import EXIT_USAGE, CommandError
from nvshare.cli.simulate import formats
from nvshare.cli.simulate.options import POSITIVE, Moves, moves_options, print_json, settings_options
from nvshare.core.model import Settings
from nvshare.schedsim import mixes, oracle, start_errors
from nvshare.schedsim.distributions import DISTRIBUTIONS, Scene, make_mix
from nvshare.schedsim.presets import PRESETS

OTHERS = {one.name: one for one in (mixes.ADAPTIVE, mixes.BALANCED)}


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


@click.command("mixes", short_help="Simulate random mixes of jobs.")
@click.option("--count", type=click.IntRange(1), default=20, show_default=True, help="Number of mixes.")
@click.option("--first", type=int, default=0, show_default=True, help="First seed.")
@click.option(
    "--kind",
    type=click.Choice(list(DISTRIBUTIONS)),
    default="mixes",
    show_default=True,
    help="Any jobs, interactive ones beside batch jobs, many jobs on one card, 2 to 4 jobs on one card, or jobs that"
    " use a part of their memory.",
)
@click.option("--move-cost", type=POSITIVE, help="Seconds to move a GiB by page faults. Default: as the mix has it.")
@click.option("--preset", type=click.Choice(sorted(PRESETS)), help="All cards are this known card, with bulk moves.")
@click.option("--oracle", "with_oracle", is_flag=True, help="Also search for the best schedule; mixes of up to 4 jobs.")
@click.option(
    "--against",
    type=click.Choice(list(OTHERS)),
    multiple=True,
    help="Compare with this mode too.",
)
@click.option(
    "--jobs", type=click.IntRange(1), default=_cores, help="Number of worker processes. Default: one per core."
)
@click.option(
    "--shake", is_flag=True, help="Also compare auto with itself, programs started up to 1 s later: this is the noise."
)
@click.option("--starts", is_flag=True, help="Measure instead how wrong expected starts are (STARTS of status).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@moves_options
@settings_options
def mixes_command(
    count: int,
    first: int,
    kind: str,
    move_cost: float | None,
    preset: str | None,
    with_oracle: bool,
    against: tuple[str, ...],
    jobs: int,
    shake: bool,
    starts: bool,
    as_json: bool,
    moves: Moves,
    settings: Settings,
) -> None:
    """Compare a mode with the original (first come, first served, 30 s) and with auto, on random mixes of jobs. With
    bulk moves (--link, --preset), also with itself by page faults."""
    ours = mixes.Contender(settings.quantum.mode, "nvshare", settings)
    if starts:
        _print_start_errors(start_errors.measure(range(first, first + count), ours), as_json)
        return
    contenders, pairs = _contenders(ours, against, shake=shake, has_bulk_moves=bool(preset or moves.link))
    make = partial(make_mix, scene=Scene(kind, move_cost, moves.link, moves.is_duplex, PRESETS.get(preset or "")))
    if with_oracle and kind != "small":
        raise CommandError("--oracle needs --kind small: the search is for up to 4 jobs", EXIT_USAGE)
    if with_oracle:
        pairs.append((ours.name, oracle.NAME))
    tell = _teller(count, pairs, as_json)
    more = oracle.as_contender if with_oracle else None
    compared = mixes.compare(range(first, first + count), contenders, tell, processes=jobs, make=make, more=more)
    if as_json:
        print_json(formats.mixes_values(compared, pairs))
        return
    for line in formats.mixes_lines(compared, pairs):
        click.echo(line)


def _teller(count: int, pairs: list[tuple[str, str]], as_json: bool) -> Callable[[mixes.Comparison], None]:
    """Prints each mix when it is done; with JSON only how many are."""
    done = itertools.count(1)

    def tell(one: mixes.Comparison) -> None:
        if not as_json:
            click.echo(f"{next(done):4d}/{count}  {formats.mix_line(one, pairs)}")
        elif sys.stderr.isatty():
            number = next(done)
            click.echo(f"\r{number} of {count} mixes", err=True, nl=number == count)

    return tell


def _print_start_errors(errors: list[start_errors.StartError], as_json: bool) -> None:
    figures = start_errors.figures(errors)
    if as_json:
        print_json(figures)
        return
    click.echo(f"{figures.waits} waits with an expected start")
    click.echo(f"{figures.by_then:.0%} started by then, {figures.by_then_and_half:.0%} within half as long again")
    click.echo(f"median: the wait took {figures.median_part:.0%} of the expected time")
    click.echo(
        f"median: {figures.median_late_s:+.1f} s against the expected time; 9 of 10: {figures.p90_late_s:+.1f} s"
    )


def _contenders(
    ours: mixes.Contender, against: tuple[str, ...], *, shake: bool, has_bulk_moves: bool
) -> tuple[list[mixes.Contender], list[tuple[str, str]]]:
    """Which ways to schedule are run, and which pairs are compared."""
    auto = ours if ours.name == mixes.AUTO.name else mixes.AUTO
    others = [mixes.FCFS_30] if auto is ours else [mixes.FCFS_30, auto]
    others += [OTHERS[name] for name in against if name != ours.name]
    if has_bulk_moves:
        others.append(mixes.by_faults(ours))
    pairs = [(ours.name, other.name) for other in others]
    if not shake:
        return [*others, ours], pairs
    late = mixes.shaken(auto)
    return [*others, ours, late], [*pairs, (late.name, auto.name)]

"""Options that several commands of `nvshare simulate` have, and how they print JSON."""

import functools
from collections.abc import Callable
from typing import Any, get_args

import click
import msgspec

from nvshare.cli.options import SIZE
from nvshare.core.model import SECOND, ModeName, QuantumRule, Settings
from nvshare.core.queue.policies import POLICIES
from nvshare.record import Record
from nvshare.schedsim import thesis

Command = Callable[..., Any]
POSITIVE = click.FloatRange(min=0, min_open=True)


class Moves(Record, frozen=True):
    """How our library moves memory: by faults, or in bulk over a link of so many bytes per second."""

    link: float | None
    is_duplex: bool


class Fit(Record, frozen=True):
    """What keeps programs within the card and the host."""

    card_reserve: int | None
    """None: as the scheduler has it by default."""
    may_oversubscribe: bool
    is_host_counted: bool


def _setting(name: str, kind: click.ParamType[Any], default: str | int, text: str) -> Callable[[Command], Command]:
    return click.option(name, type=kind, default=default, show_default=True, help=text)


def settings_options(command: Command) -> Command:
    """Options that say how to schedule, given to the command as `settings`."""

    @_setting("--mode", click.Choice(get_args(ModeName)), QuantumRule().mode, "How the GPU's time is divided.")
    @_setting("--quantum", click.IntRange(1), 60, "Mode fixed: the quantum in seconds.")
    @_setting("--multiplier", click.IntRange(1), 5, "Modes except fixed: seconds per GiB.")
    @_setting("--policy", click.Choice(sorted(POLICIES)), Settings().policy, "Order of the queue.")
    @_setting("--reserve-percent", click.IntRange(0, 90), 10, "Part of the card that the scheduler keeps free.")
    @functools.wraps(command)
    def wrapped(
        *args: Any, mode: ModeName, quantum: int, multiplier: int, policy: str, reserve_percent: int, **kwargs: Any
    ) -> Any:
        rule = QuantumRule(mode=mode, fixed_ns=quantum * SECOND, multiplier=multiplier)
        settings = Settings(quantum=rule, policy=policy, reserve_percent=reserve_percent)
        return command(*args, settings=settings, **kwargs)

    return wrapped


def moves_options(command: Command) -> Command:
    """Options that say how our library moves memory, given to the command as `moves`."""

    @click.option("--link", type=POSITIVE, help="Bandwidth of bulk moves in GB/s, each way. Default: page faults only.")
    @click.option("--half-duplex", is_flag=True, help="The link does not carry both ways at the same time.")
    @functools.wraps(command)
    def wrapped(*args: Any, link: float | None, half_duplex: bool, **kwargs: Any) -> Any:
        moves = Moves(None if link is None else link * thesis.GB, is_duplex=not half_duplex)
        return command(*args, moves=moves, **kwargs)

    return wrapped


def fit_options(command: Command) -> Command:
    """Options that say what keeps programs within the card and the host, given to the command as `fit`."""

    @click.option("--card-reserve", type=SIZE, help="What no job may allocate. Default: 1Gi, or 5 % of a larger card.")
    @click.option("--oversubscribe", is_flag=True, help="A job may allocate more than the card has for it.")
    @click.option(
        "--host-memory",
        type=click.Choice(["on", "off"]),
        default="on",
        show_default=True,
        help="Whether the scheduler counts the host memory of jobs.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, card_reserve: int | None, oversubscribe: bool, host_memory: str, **kwargs: Any) -> Any:
        return command(*args, fit=Fit(card_reserve, oversubscribe, host_memory == "on"), **kwargs)

    return wrapped


def print_json(values: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(values), indent=2).decode())

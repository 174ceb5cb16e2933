"""Options that several commands share."""

import functools
import os
import re
from collections.abc import Callable
from typing import Any, ClassVar

import click

from nvshare.cli.run.environment import ProgramSettings
from nvshare.config import MAX_QUANTUM_S
from nvshare.core.model import MAX_WEIGHT
from nvshare.core.queue.policies import MAX_PRIORITY, MIN_PRIORITY
from nvshare.percentage import parse_percent
from nvshare.quantity import QuantityError, parse_bytes
from nvshare.wire.messages import NAME_BYTES

MIN_BYTES = 1 << 20
"""A smaller limit is taken for a typing error."""


class _Size(click.ParamType):  # type: ignore[type-arg]
    """An amount of memory as Kubernetes writes it."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            size = parse_bytes(str(value))
        except QuantityError as error:
            self.fail(f"{value!r} {error}", param, ctx)
        if 0 < size < MIN_BYTES:
            hint = f"; did you mean {value}Gi?" if str(value).isdecimal() else ""
            self.fail(f"{value!r} is {size} bytes, less than the minimum of 1Mi{hint}", param, ctx)
        return size


SIZE = _Size()


class Percent(click.ParamType):  # type: ignore[type-arg]
    """A share of one GPU's time."""

    name = "PERCENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_percent(str(value))
        except ValueError as error:
            self.fail(f"{value!r} {error}", param, ctx)


PERCENT = Percent()


class _QuantumSeconds(click.IntRange):
    """The quantum in whole seconds."""

    name = "SECONDS"

    def __init__(self) -> None:
        super().__init__(1, MAX_QUANTUM_S)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", str(value), re.ASCII):
            self.fail(f"{value!r} is not a whole number of seconds from 1 to {MAX_QUANTUM_S}", param, ctx)
        return super().convert(value, param, ctx)


QUANTUM_SECONDS = _QuantumSeconds()


class _Duration(click.ParamType):  # type: ignore[type-arg]
    """A duration as people write it: 90s, 10m, 2h, 7d."""

    name = "DURATION"
    _SECONDS: ClassVar = {"s": 1, "m": 60, "h": 3600, "d": 86_400}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhd])", str(value), re.ASCII)
        if match is None:
            self.fail(f"{value!r} is not a duration such as 90s, 10m, 2h or 7d", param, ctx)
        return float(match[1]) * self._SECONDS[match[2]]


DURATION = _Duration()


def _name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and len(os.fsencode(value)) >= NAME_BYTES:
        raise click.BadParameter(f"must be shorter than {NAME_BYTES} bytes")
    return value


def program_options(command: Callable[..., None]) -> Callable[..., None]:
    """--limit, --core-limit, --priority, --weight, --name and --preallocate, given to the command as `settings`."""

    @click.option("--limit", type=SIZE, help="Memory limit on each GPU, e.g. 4Gi; 0 means no limit.")
    @click.option("--core-limit", type=PERCENT, help="Limit of GPU time, in percent of each GPU, e.g. 30.")
    @click.option(
        "--priority",
        type=click.IntRange(MIN_PRIORITY, MAX_PRIORITY),
        help="-10 to 10: a higher one gets the GPU first. Above 0 only for root and the scheduler's user. Default: 0.",
    )
    @click.option(
        "--weight",
        type=click.IntRange(1, MAX_WEIGHT),
        help="Share of GPU time, with policy `fair`. Default: 100.",
    )
    @click.option("--name", callback=_name, help="Name of the program in `nvsharectl status` and `top`.")
    @click.option(
        "--preallocate",
        is_flag=True,
        help="Let TensorFlow and JAX allocate most of the GPU when they start, as they do by default.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        limit: int | None,
        core_limit: int | None,
        priority: int | None,
        weight: int | None,
        name: str | None,
        preallocate: bool,
        **kwargs: Any,
    ) -> None:
        settings = ProgramSettings(limit, priority, weight, name, core_limit=core_limit, preallocate=preallocate)
        command(*args, settings=settings, **kwargs)

    return wrapped

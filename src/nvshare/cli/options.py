"""Options that several commands share."""

import functools
from collections.abc import Callable
from typing import Any

import click

from nvshare.cli.launch import Terms
from nvshare.core.policies import LEAST_PRIORITY, MOST_PRIORITY
from nvshare.kube.annotations import MOST_WEIGHT
from nvshare.kube.quantity import QuantityError, parse_bytes
from nvshare.wire.messages import NAME_BYTES

LEAST_BYTES = 1 << 20
"""Nobody limits a program to less than a mebibyte."""


class _Size(click.ParamType):  # type: ignore[type-arg]
    """An amount of memory as Kubernetes writes it."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            size = parse_bytes(str(value))
        except QuantityError as error:
            self.fail(f"{value!r} {error}", param, ctx)
        if 0 < size < LEAST_BYTES:
            self.fail(f"{value!r} is {size} bytes, too little to be meant; was {value}Gi meant?", param, ctx)
        return size


SIZE = _Size()


def _name(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and len(value.encode()) >= NAME_BYTES:
        raise click.BadParameter(f"must be shorter than {NAME_BYTES} bytes")
    return value


def terms_options(command: Callable[..., None]) -> Callable[..., None]:
    """--limit, --priority, --weight and --name, given to the command as `terms`."""

    @click.option("--limit", type=SIZE, help="GPU memory at most on each GPU, e.g. 4Gi; 0 is none.")
    @click.option(
        "--priority",
        type=click.IntRange(LEAST_PRIORITY, MOST_PRIORITY),
        help="Above 0: goes before others under the scheduler's policy `priority`.",
    )
    @click.option(
        "--weight",
        type=click.IntRange(1, MOST_WEIGHT),
        help="GPU time in proportion under the policy `fair`; 100 is usual.",
    )
    @click.option("--name", callback=_name, help="What the program is called in `nvsharectl status` and `top`.")
    @functools.wraps(command)
    def wrapped(
        *args: Any, limit: int | None, priority: int | None, weight: int | None, name: str | None, **kwargs: Any
    ) -> None:
        command(*args, terms=Terms(limit, priority, weight, name), **kwargs)

    return wrapped

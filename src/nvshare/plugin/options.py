"""Options of the programs that run on a node: each can be given as a flag or in the environment."""

from collections.abc import Callable
from typing import Any

import click


def option(flag: str, default: object, text: str, **more: Any) -> Callable[[Any], Any]:
    """`--run-dir` is also NVSHARE_RUN_DIR."""
    variable = "NVSHARE_" + flag.removeprefix("--").replace("-", "_").upper()
    return click.option(flag, default=default, envvar=variable, show_envvar=True, show_default=True, help=text, **more)

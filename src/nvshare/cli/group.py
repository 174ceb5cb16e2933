"""What all command lines share: hints for a mistyped command line, and the size of the terminal."""

import difflib
import os
import shutil
import sys
from typing import TextIO

import click

NO_SCREEN = ("", "dumb", "unknown")
"""Values of TERM of terminals that cannot move the cursor."""


class Group(click.Group):
    """A group that suggests the command that was meant."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            meant = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not meant:
                raise
            raise click.UsageError(f"No such command {args[0]!r}; did you mean {meant[0]!r}?", ctx) from None


def terminal_width() -> int | None:
    """The columns of the terminal; None if the output is read by a program, which wants it whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def has_screen(stream: TextIO | None = None) -> bool:
    """Whether the output, or another stream, is a terminal that can move the cursor."""
    return (stream or sys.stdout).isatty() and os.environ.get("TERM", "") not in NO_SCREEN


def usage_error(error: click.ClickException, program: str) -> str:
    """What is wrong with the command line, and where to read how it is right."""
    command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else program
    return f"{error.format_message().rstrip('.')}; see `{command} --help`"

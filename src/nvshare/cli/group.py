"""What all command lines share: a hint for a mistyped command, and output in any locale."""

import difflib
import io
import shutil
import sys

import click


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


def accept_any_locale() -> None:
    """Characters that the locale cannot write become `?` instead of an exception."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def terminal_width() -> int | None:
    """The columns of the terminal; None if the output is read by a program, which wants it whole."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None

"""`nvshare completion`: a script that completes commands."""

import click


@click.command(short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for SHELL. Use: eval "$(nvshare completion bash)"."""
    from click.shell_completion import get_completion_class

    from nvshare.cli.nvshare import cli

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "nvshare", "_NVSHARE_COMPLETE").source())

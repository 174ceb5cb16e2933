"""`nvshare docker-args`: what `docker run` needs so that a container shares its GPU."""

import os
from pathlib import Path

import click

from nvshare.cli.errors import CommandError
from nvshare.cli.options import program_options
from nvshare.cli.run import private_scheduler
from nvshare.cli.run.environment import ProgramSettings
from nvshare.cli.run.native_files import library
from nvshare.config import DEFAULT_SOCKET, SOCKET_VARIABLE
from nvshare.native_directory import CONTAINER_DIRECTORY, LIBRARY


@click.command("docker-args", short_help="Print the options for `docker run`.")
@program_options
@click.option("--socket", metavar="PATH", help=f"The scheduler's socket.  [{SOCKET_VARIABLE}; {DEFAULT_SOCKET}]")
@click.option(
    "--gpus", default="all", show_default=True, help="Value of docker's option --gpus; empty: omit the option."
)
def docker_args(settings: ProgramSettings, socket: str | None, gpus: str) -> None:
    """Print options of `docker run` that start a container which shares its GPU.

    \b
    docker run $(nvshare docker-args --limit 4Gi) IMAGE CMD

    The directories of the library and of the scheduler's socket are mounted read-only. The machine needs a running
    scheduler, e.g. the systemd unit of nvshare-scheduler; a private one ends with the programs of `nvshare run`.
    """
    path = socket or os.environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET
    if not private_scheduler.is_answering(path):
        raise CommandError(f"no scheduler listens at {path}; start nvshare-scheduler, or use --socket")
    words = arguments(library(), Path(path), settings, gpus)
    spoilt = next((word for word in words if len(word.split()) != 1), None)
    if spoilt is not None:
        # The shell splits the result of $(...) at blanks and does not interpret quotes in it.
        raise CommandError(f"{spoilt!r} contains blanks; the shell splits $(nvshare docker-args) at blanks")
    click.echo(" ".join(words))


def arguments(preload: Path, socket: Path, settings: ProgramSettings, gpus: str) -> list[str]:
    """The arguments. Directories are mounted, not files: a container keeps the old file after it is replaced."""
    inside = Path(DEFAULT_SOCKET).with_name(socket.name)
    variables = settings.framework_variables() | settings.variables()
    variables |= {"LD_PRELOAD": str(CONTAINER_DIRECTORY / LIBRARY), SOCKET_VARIABLE: str(inside)}
    words = ["--gpus", gpus] if gpus else []
    for source, target in ((preload.parent, CONTAINER_DIRECTORY), (socket.absolute().parent, inside.parent)):
        words += ["--mount", f"type=bind,source={source},target={target},readonly"]
    for name, value in variables.items():
        words += ["--env", f"{name}={value}"]
    return words

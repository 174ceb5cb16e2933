"""`nvshare docker-args`: what `docker run` needs so that a container shares its GPU."""

import os
from pathlib import Path

import click

from nvshare.cli import private
from nvshare.cli.failure import FrontError
from nvshare.cli.launch import Terms
from nvshare.cli.library import LIBRARY, MOUNTED, library
from nvshare.cli.options import terms_options
from nvshare.config import DEFAULT_SOCKET, SOCKET_VARIABLE


@click.command("docker-args", short_help="What `docker run` needs for the same.")
@terms_options
@click.option("--socket", metavar="PATH", help=f"The scheduler's socket.  [{SOCKET_VARIABLE}; {DEFAULT_SOCKET}]")
@click.option("--gpus", default="all", show_default=True, help="What to give to docker's --gpus; empty: nothing.")
def docker_args(terms: Terms, socket: str | None, gpus: str) -> None:
    """Print the arguments with which `docker run` starts a container that shares its GPU.

    \b
    docker run $(nvshare docker-args --limit 4Gi) IMAGE CMD

    The library and the scheduler's socket come in as read-only directories. The machine needs a scheduler
    (nvshare-scheduler, e.g. by its systemd unit): a private one ends with the programs of `nvshare run`.
    """
    path = socket or os.environ.get(SOCKET_VARIABLE) or DEFAULT_SOCKET
    if not private.answers(path):
        raise FrontError(f"no scheduler listens at {path}; start nvshare-scheduler, or name its --socket")
    words = arguments(library(), Path(path), terms, gpus)
    spoilt = next((word for word in words if len(word.split()) != 1), None)
    if spoilt is not None:
        # The shell splits what $(...) gives at blanks and takes quotes as they are.
        raise FrontError(f"{spoilt!r} has blanks, which do not survive $(nvshare docker-args)")
    click.echo(" ".join(words))


def arguments(preload: Path, socket: Path, terms: Terms, gpus: str) -> list[str]:
    """The words; directories and not files, because a file's mount goes stale when the file is replaced."""
    inside = Path(DEFAULT_SOCKET).with_name(socket.name)
    variables = terms.variables() | {"LD_PRELOAD": str(MOUNTED / LIBRARY), SOCKET_VARIABLE: str(inside)}
    words = ["--gpus", gpus] if gpus else []
    for source, target in ((preload.parent, MOUNTED), (socket.absolute().parent, inside.parent)):
        words += ["--mount", f"type=bind,source={source},target={target},readonly"]
    for name, value in variables.items():
        words += ["--env", f"{name}={value}"]
    return words

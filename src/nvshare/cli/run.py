"""`nvshare run`: start a program so that it shares its GPU.

The program takes this process's place (exec): signals, exit code, terminal and process id are its own, and nothing of
ours stays in between."""

import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nvshare.cli import private
from nvshare.cli.failure import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_OURS, EXIT_USAGE, FrontError
from nvshare.cli.launch import Terms, shared
from nvshare.cli.leftovers import entering
from nvshare.cli.library import library
from nvshare.cli.options import SIZE, terms_options
from nvshare.config import DEFAULT_SOCKET, SOCKET_VARIABLE

if TYPE_CHECKING:
    from nvshare.simgpu.config import SimGpu


@click.command(
    short_help="Run a program so that it shares its GPU.", context_settings={"allow_interspersed_args": False}
)
@terms_options
@click.option("--socket", metavar="PATH", help=f"The scheduler's socket.  [{SOCKET_VARIABLE}; {DEFAULT_SOCKET}]")
@click.option("--private", "is_private", is_flag=True, help="A scheduler of one's own, even if the machine has one.")
@click.option("--sim-gpus", type=click.IntRange(1, 16), metavar="N", help="Run on N simulated GPUs; needs no hardware.")
@click.option("--sim-memory", type=SIZE, metavar="SIZE", help="The memory of each simulated GPU.  [16Gi]")
@click.option("--sim-runtime", is_flag=True, help="Preload the simulator's CUDA runtime too, as PyTorch needs.")
@click.option("--no-share", is_flag=True, help="On the simulated GPUs without nvshare, to compare; needs --sim-gpus.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD [ARG]...")
def run(
    command: tuple[str, ...],
    terms: Terms,
    socket: str | None,
    is_private: bool,
    sim_gpus: int | None,
    sim_memory: int | None,
    sim_runtime: bool,
    no_share: bool,
) -> None:
    """Run CMD so that it shares its GPU with every other program that is run like this.

    CMD needs no change. It sees the whole GPU (or its limit), and takes turns with the others when not all fit
    into the GPU's memory at the same time.

    \b
    nvshare run -- python train.py
    nvshare run --limit 4Gi --name small -- ./infer
    nvshare run --sim-gpus 1 --sim-memory 8Gi -- ./my_cuda_program

    The machine's scheduler is used if there is one; otherwise a private one is started and ends after the last
    program. Programs that share a GPU must use the same scheduler.

    Exit codes: those of CMD; 127 if it is not found, 126 if it cannot be run, 125 if nvshare fails, 2 wrong usage.
    """
    if not command:
        raise FrontError("run: no command given; usage: nvshare run [OPTIONS] -- CMD [ARG]...", EXIT_USAGE)
    if is_private and socket:
        raise FrontError("run: give either --socket or --private", EXIT_USAGE)
    if no_share and sim_gpus is None:
        raise FrontError("run: --no-share needs --sim-gpus; on a real GPU just run the command", EXIT_USAGE)
    environment = dict(os.environ)
    if sim_gpus is not None or sim_memory is not None or sim_runtime:
        with entering(private.runtime_directory()):
            card = _card(environment, sim_gpus, sim_memory)
            environment = _simulated(card, environment, with_runtime=sim_runtime)
            if no_share:
                replace(command, environment)
            path = socket or environment.get(SOCKET_VARIABLE) or _join_on(card, environment)
    else:
        path = _scheduler(environment, socket, is_private=is_private)
    fresh = Terms(terms.limit_bytes, terms.priority, terms.weight, terms.name, secrets.token_hex(16))
    replace(command, shared(environment, library=library(), socket=path, terms=fresh))


def replace(command: tuple[str, ...], environment: dict[str, str]) -> None:
    """Become the command; what goes wrong has the exit codes of env(1)."""
    sys.stdout.flush()
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - the user's own command is what this is for
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FrontError(f"run: {command[0]}: {error.strerror}", EXIT_NOT_FOUND) from None
    except OSError as error:
        raise FrontError(f"run: {command[0]}: {error.strerror}", EXIT_NOT_EXECUTABLE) from None
    except ValueError as error:
        raise FrontError(f"run: {error}", EXIT_OURS) from None


def _scheduler(environment: dict[str, str], socket: str | None, *, is_private: bool) -> str:
    """The socket of the scheduler to use: the one named, the machine's, or a private one that now runs."""
    named = socket or environment.get(SOCKET_VARIABLE)
    if named and not is_private:
        if not private.answers(named):
            raise FrontError(f"no scheduler listens at {named}; start nvshare-scheduler, or use --private", EXIT_OURS)
        return named
    if not is_private and private.answers(DEFAULT_SOCKET):
        return DEFAULT_SOCKET
    place = private.Place(str(private.runtime_directory()))
    path = _join(place, environment)
    from nvshare.cli.neighbours import warn_of_strangers

    warn_of_strangers()
    return path


def _card(environment: dict[str, str], gpus: int | None, memory: int | None) -> "SimGpu":
    from nvshare.cli.simulated import simulated

    memory_text = None if memory is None else str(memory)
    return simulated(environment, private.runtime_directory(), gpus=gpus, memory=memory_text)


def _simulated(card: "SimGpu", environment: dict[str, str], *, with_runtime: bool) -> dict[str, str]:
    from nvshare.simgpu.config import SimConfigError

    try:
        return card.environment(environment, runtime=with_runtime)
    except SimConfigError as error:
        raise FrontError(str(error), EXIT_OURS) from None


def _join_on(card: "SimGpu", environment: dict[str, str]) -> str:
    from nvshare.cli.simulated import scheduler_directory

    return _join(private.Place(str(scheduler_directory(card, private.runtime_directory()))), environment)


def _join(place: private.Place, environment: dict[str, str]) -> str:
    try:
        private.join(place, environment)
    except OSError as error:
        name = error.filename or place.directory
        raise FrontError(f"no private scheduler can be had: {name}: {error.strerror}", EXIT_OURS) from None
    return str(Path(place.socket))

"""`nvshare run`: start a program so that it shares its GPU.

The program replaces this process (exec): signals, exit code, terminal and process id are its own, and nothing of
ours stays in between."""

import os
import secrets
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import structs

from nvshare.cli.errors import EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_NVSHARE_FAILED, EXIT_USAGE, CommandError
from nvshare.cli.options import SIZE, program_options
from nvshare.cli.run import private_scheduler
from nvshare.cli.run.cleanup import entering
from nvshare.cli.run.environment import (
    CORE_LIMIT_VARIABLE,
    LIMIT_VARIABLE,
    PRIORITY_VARIABLE,
    WEIGHT_VARIABLE,
    ProgramSettings,
    on_simulated_gpu,
    shared,
)
from nvshare.cli.run.native_files import library
from nvshare.config import DEFAULT_SOCKET, SOCKET_VARIABLE
from nvshare.framework_settings import evictable_setting, unswappable_settings
from nvshare.percentage import parse_percent
from nvshare.quantity import parse_bytes

_LIMITS: dict[str, Callable[[str], int]] = {LIMIT_VARIABLE: parse_bytes, CORE_LIMIT_VARIABLE: parse_percent}
GPU_FILES = ("/dev/nvidiactl", "/dev/nvhost-gpu", "/dev/nvgpu", "/dev/dxg")
"""Of the driver: on a server or desktop, on Jetson (old and new), on WSL."""

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from nvshare.simgpu.config import SimGpu


def _complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    from nvshare.cli.ctl.complete import files

    return files(context, parameter, incomplete)


def _complete_gpus(context: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    from nvshare.cli.ctl.complete import gpus

    return gpus(context, parameter, incomplete)


@click.command(short_help="Run a program that shares its GPU.", context_settings={"allow_interspersed_args": False})
@program_options
@click.option("--socket", metavar="PATH", help=f"The scheduler's socket.  [{SOCKET_VARIABLE}; {DEFAULT_SOCKET}]")
@click.option(
    "--gpu",
    metavar="GPU",
    shell_complete=_complete_gpus,
    help="Run on this GPU: index, UUID, or the beginning of one; or a list of them.",
)
@click.option("--private", "is_private", is_flag=True, help="Use a private scheduler, even if the machine has one.")
@click.option(
    "--sim-gpus", type=click.IntRange(1, 16), metavar="N", help="Run on N simulated GPUs, without hardware.  [1]"
)
@click.option(
    "--sim-memory", type=SIZE, metavar="SIZE", help="Memory of each simulated GPU; implies --sim-gpus.  [16Gi]"
)
@click.option(
    "--sim-runtime", is_flag=True, help="Also preload the simulated CUDA runtime, for PyTorch; implies --sim-gpus."
)
@click.option("--no-share", is_flag=True, help="Run on the simulated GPUs without nvshare, for comparison.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- CMD [ARG]...", shell_complete=_complete_files)
def run(
    command: tuple[str, ...],
    settings: ProgramSettings,
    socket: str | None,
    gpu: str | None,
    is_private: bool,
    sim_gpus: int | None,
    sim_memory: int | None,
    sim_runtime: bool,
    no_share: bool,
) -> None:
    """Run CMD. It shares its GPU with all other programs that are started this way.

    CMD needs no change. It sees the whole GPU, or a GPU of the size of its limit. Programs take turns if they do
    not fit into the GPU's memory together.

    \b
    nvshare run -- python train.py
    nvshare run --limit 4Gi --name small -- ./infer
    nvshare run --sim-gpus 1 --sim-memory 8Gi -- ./my_cuda_program

    CMD uses the machine's scheduler if one is running. Otherwise a private scheduler is started; it ends after its
    last program. Programs that share a GPU must use the same scheduler.

    Exit codes: that of CMD; 127 CMD not found, 126 CMD cannot be executed, 125 nvshare failed, 2 wrong usage.
    """
    if not command:
        raise CommandError("run: no command given; usage: nvshare run [OPTIONS] -- CMD [ARG]...", EXIT_USAGE)
    if is_private and socket:
        raise CommandError("run: use either --socket or --private, not both", EXIT_USAGE)
    if no_share and sim_gpus is None:
        raise CommandError(
            "run: --no-share needs --sim-gpus; on a real GPU, run the command without `nvshare run`", EXIT_USAGE
        )
    environment = dict(os.environ)
    _check_limit_variables(environment, settings)
    if sim_gpus is not None or sim_memory is not None or sim_runtime:
        with entering(private_scheduler.runtime_directory()):
            card = _card(environment, sim_gpus, sim_memory)
            environment = _simulated(card, environment, with_runtime=sim_runtime)
            if gpu is not None:
                environment["CUDA_VISIBLE_DEVICES"] = simulated_gpus(gpu, card)
            if no_share:
                replace(command, environment)
            path = _named_scheduler(environment, socket, is_private=is_private) or _join_on(card, environment)
    else:
        path = _scheduler(environment, socket, is_private=is_private)
        warn_without_gpu(environment)
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = _uuids_of(gpu)
    warn_of_unswappable_memory(environment)
    _warn_of_terms(environment | settings.variables(), path)
    settings = structs.replace(settings, run_id=secrets.token_hex(16))
    replace(command, shared(environment, library=library(), socket=path, settings=settings))


def _warn_of_terms(environment: dict[str, str], path: str) -> None:
    """Of a weight or a priority that the scheduler will not use."""
    weight, priority = environment.get(WEIGHT_VARIABLE), environment.get(PRIORITY_VARIABLE)
    if weight or priority:
        from nvshare.cli.run.ignored_terms import warn_of_ignored_weight, warn_of_refused_terms

        warn_of_refused_terms(weight, priority, path)
        if weight:
            warn_of_ignored_weight(weight, path, environment)


def _check_limit_variables(environment: dict[str, str], settings: ProgramSettings) -> None:
    """The library ignores a limit that it cannot read; here the user is still there to correct it."""
    for name, parse in _LIMITS.items():
        text = environment.get(name)
        if text is not None and name not in settings.variables():
            try:
                parse(text)
            except ValueError as error:
                raise CommandError(f"run: {name} is {text!r}: it {error}", EXIT_USAGE) from None


def _uuids_of(wanted: str) -> str:
    """The GPUs as the driver and every library understand them, whatever order it gives them."""
    from nvshare.inventory.gpus import SelectionError, select
    from nvshare.inventory.nvml import Nvml, NvmlUnavailableError

    try:
        with Nvml() as nvml:
            return ",".join(gpu.uuid for gpu in select(nvml.discover(), wanted))
    except (NvmlUnavailableError, SelectionError) as error:
        raise CommandError(f"run: --gpu {wanted}: {error}", EXIT_NVSHARE_FAILED) from None


def warn_without_gpu(environment: dict[str, str]) -> None:
    is_simulated = any(name.startswith("NVSHARE_SIM") for name in environment)
    if not is_simulated and not any(Path(file).exists() for file in GPU_FILES):
        sys.stderr.write(
            "nvshare: warning: this machine has no NVIDIA GPU; to run the program on a simulated one: nvshare run"
            " --sim-gpus 1\n"
        )


def warn_of_unswappable_memory(environment: dict[str, str]) -> None:
    """One line if the settings of a framework prevent that its memory is evicted."""
    for setting in unswappable_settings(environment):
        sys.stderr.write(
            f"nvshare: warning: {setting}: this memory cannot be evicted for other programs{_unless_cuda_13(setting)};"
            f" to take turns with programs that need the same memory, start it with {evictable_setting(setting)}\n"
        )


def _unless_cuda_13(setting: str) -> str:
    return " by drivers before CUDA 13" if "async" in setting.lower() and "expandable" not in setting.lower() else ""


def replace(command: tuple[str, ...], environment: dict[str, str]) -> None:
    """Replace this process by the command; exit codes of failures are those of env(1)."""
    sys.stdout.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these two, and a program would inherit that.
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - the user's own command is what this is for
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CommandError(f"run: {command[0]}: {error.strerror}", EXIT_NOT_FOUND) from None
    except OSError as error:
        raise CommandError(f"run: {command[0]}: {error.strerror}", EXIT_NOT_EXECUTABLE) from None
    except ValueError as error:
        raise CommandError(f"run: {error}", EXIT_NVSHARE_FAILED) from None


def _scheduler(environment: dict[str, str], socket: str | None, *, is_private: bool) -> str:
    """The socket of the scheduler: the named one, the machine's, or a private one, started if needed."""
    if named := _named_scheduler(environment, socket, is_private=is_private):
        return named
    if not is_private and private_scheduler.is_answering(DEFAULT_SOCKET):
        return DEFAULT_SOCKET
    paths = private_scheduler.SchedulerPaths(str(private_scheduler.runtime_directory()))
    path = _join(paths, environment)
    from nvshare.cli.run.other_users import warn_of_strangers

    warn_of_strangers()
    return path


def _named_scheduler(environment: dict[str, str], socket: str | None, *, is_private: bool) -> str | None:
    """The socket that the user names; without a scheduler there the program would run unshared."""
    named = None if is_private else socket or environment.get(SOCKET_VARIABLE)
    if named and not private_scheduler.is_answering(named):
        raise CommandError(
            f"no scheduler listens at {named}; start nvshare-scheduler, or use --private", EXIT_NVSHARE_FAILED
        )
    return named or None


def simulated_gpus(wanted: str, card: "SimGpu") -> str:
    """The GPUs that the user names, if they can exist: the simulated driver takes no others."""
    count = int(str(card.values.get("gpus", 1)))
    for word in wanted.split(","):
        if word.strip().isdecimal() and int(word) >= count:
            only = "there is only GPU 0" if count == 1 else f"there are GPUs 0 to {count - 1}"
            raise CommandError(f"run: --gpu {wanted}: no GPU {word.strip()}: {only} (--sim-gpus)", EXIT_USAGE)
    return wanted


def _card(environment: dict[str, str], gpus: int | None, memory: int | None) -> "SimGpu":
    from nvshare.cli.run.simulated_gpu import simulated

    memory_text = None if memory is None else str(memory)
    return simulated(environment, private_scheduler.runtime_directory(), gpus=gpus, memory=memory_text)


def _simulated(card: "SimGpu", environment: dict[str, str], *, with_runtime: bool) -> dict[str, str]:
    from nvshare.simgpu.config import SimConfigError

    try:
        return on_simulated_gpu(card.environment(environment, runtime=with_runtime))
    except SimConfigError as error:
        raise CommandError(str(error), EXIT_NVSHARE_FAILED) from None


def _join_on(card: "SimGpu", environment: dict[str, str]) -> str:
    from nvshare.cli.run.simulated_gpu import scheduler_directory

    return _join(
        private_scheduler.SchedulerPaths(str(scheduler_directory(card, private_scheduler.runtime_directory()))),
        environment,
    )


def _join(paths: private_scheduler.SchedulerPaths, environment: dict[str, str]) -> str:
    try:
        private_scheduler.join(paths, environment)
    except OSError as error:
        name = error.filename or paths.directory
        raise CommandError(f"cannot start a private scheduler: {name}: {error.strerror}", EXIT_NVSHARE_FAILED) from None
    return str(Path(paths.socket))

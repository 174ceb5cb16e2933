"""nvshare: the command for users. Each subcommand is imported only when it is used, so that `run` starts fast."""

import importlib
import sys

import click

from nvshare import __version__
from nvshare.cli import streams
from nvshare.cli.errors import EXIT_FAILED, EXIT_USAGE, CommandError
from nvshare.cli.group import Group, usage_error
from nvshare.printable import printable

COMMANDS = {
    "run": "nvshare.cli.run.command:run",
    "ps": "nvshare.cli.ctl.ps:ps",
    "demo": "nvshare.cli.demo.command:demo",
    "simulate": "nvshare.cli.simulate.command:simulate",
    "doctor": "nvshare.cli.doctor.command:doctor",
    "install-service": "nvshare.cli.install_service:install_service",
    "docker-args": "nvshare.cli.run.docker_args:docker_args",
    "completion": "nvshare.cli.completion:completion",
}


class _Lazy(Group):
    """Commands by name, imported when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        found = getattr(importlib.import_module(module), name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="nvshare")
def cli() -> None:
    """Run several CUDA programs on one GPU. Each program sees the whole GPU.

    \b
    nvshare run -- python train.py     run a program that shares its GPU
    nvshare ps                         show which programs run and which wait
    nvshare demo                       run a demonstration, without a GPU
    nvshare doctor                     check this machine
    nvsharectl status                  show the GPUs and the programs
    """


def main() -> None:
    """The console script: every failure is one line on stderr and its own exit code."""
    streams.prepare()
    try:
        sys.exit(cli.main(prog_name="nvshare", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else cli.get_help(click.Context(cli)))
        sys.exit(0)
    except click.ClickException as error:
        _fail(usage_error(error, "nvshare"), EXIT_USAGE)
    except CommandError as error:
        _fail(str(error), error.code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        streams.discard()
        sys.exit(EXIT_FAILED)
    except OSError as error:
        _fail(streams.failure(error), EXIT_FAILED)


def _fail(text: str, code: int) -> None:
    line = " ".join(printable(text, instead=" ").split())
    sys.stderr.write(f"nvshare: {line}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()

"""nvshare: the user's front door. Each command is loaded only when it is used, so that `run` starts at once."""

import importlib
import sys

import click

from nvshare import __version__
from nvshare.cli.failure import EXIT_FAILED, EXIT_USAGE, FrontError

COMMANDS = {
    "run": "nvshare.cli.run:run",
    "demo": "nvshare.cli.demo:demo",
    "simulate": "nvshare.cli.simulate:simulate",
    "doctor": "nvshare.cli.doctor:doctor",
    "docker-args": "nvshare.cli.docker:docker_args",
    "completion": "nvshare.cli.front_completion:completion",
}


class _Lazy(click.Group):
    """Commands by name, imported when asked for."""

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
    """Several CUDA programs share one GPU, each as if it had the whole card.

    \b
    nvshare run -- python train.py     run a program so that it shares
    nvshare demo                       see it work, without a GPU
    nvshare doctor                     is this machine ready?
    nvsharectl status                  who runs, who waits (the operator's tool)
    """


def main() -> None:
    """The console script: every failure is one line on stderr and its own exit code."""
    try:
        sys.exit(cli.main(prog_name="nvshare", standalone_mode=False) or 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else cli.get_help(click.Context(cli)))
        sys.exit(0)
    except click.ClickException as error:
        _fail(error.format_message(), EXIT_USAGE)
    except FrontError as error:
        _fail(str(error), error.code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(EXIT_FAILED)


def _fail(text: str, code: int) -> None:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    sys.stderr.write(f"nvshare: {line}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()

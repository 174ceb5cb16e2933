"""nvsharectl: the operator's tool."""

import sys
from collections.abc import Callable
from typing import Any

import click

from nvshare import __version__, admin
from nvshare.cli import operator, render
from nvshare.kube.quantity import QuantityError, parse_bytes

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Size(click.ParamType):  # type: ignore[type-arg]
    """An amount of memory as Kubernetes writes it."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return parse_bytes(str(value))
        except QuantityError as error:
            self.fail(f"{value!r} {error}", param, ctx)


@click.group(invoke_without_command=True, context_settings=_CONTEXT)
@click.option("--socket", "path", metavar="PATH", help="The scheduler's operator socket (NVSHARE_OPERATOR_SOCKET).")
@click.option("-T", "--set-tq", "seconds", type=click.IntRange(1, 86_400), metavar="N", help="The same as `set-tq N`.")
@click.option("-S", "--anti-thrash", "thrash", type=click.Choice(["on", "off"]), help="The same as `anti-thrash`.")
@click.version_option(__version__, prog_name="nvsharectl")
@click.pass_context
def cli(context: click.Context, path: str | None, seconds: int | None, thrash: str | None) -> None:
    """Look at the GPUs of this machine and who shares them, and change how they are shared.

    \b
    nvsharectl status                 who runs, who waits
    nvsharectl set-tq 30              a quantum of 30 seconds on every GPU
    nvsharectl limit default/p 8Gi    at most 8 GiB for this pod on each GPU
    nvsharectl story 6ccb             why this client is where it is

    Exit codes: 0 done, 1 refused or not found, 2 wrong usage, 3 the scheduler cannot be reached.
    """
    context.obj = path or operator.default_socket()
    if seconds is not None:
        _order(context.obj, admin.SetQuantum(seconds))
    if thrash is not None:
        _order(context.obj, admin.SetScheduling(thrash == "on"))
    if context.invoked_subcommand is None and seconds is None and thrash is None:
        click.echo(context.get_help())


@cli.command()
@click.option("-o", "--output", type=click.Choice(["table", "wide", "json", "yaml"]), default="table", help="The form.")
@click.pass_obj
def status(path: str, output: str) -> None:
    """Show each GPU, its memory, who runs and who waits."""
    answer = operator.ask(path, admin.GetStatus())
    assert isinstance(answer, admin.Status)
    forms: dict[str, Callable[[], str]] = {
        "table": lambda: render.status_table(answer, is_wide=False),
        "wide": lambda: render.status_table(answer, is_wide=True),
        "json": lambda: render.as_json(render.status_values(answer)),
        "yaml": lambda: render.as_yaml(render.status_values(answer)),
    }
    click.echo(forms[output]())


@cli.command("set-tq")
@click.argument("seconds", type=click.IntRange(1, 86_400))
@click.option("--gpu", metavar="UUID", help="Only on this GPU.")
@click.pass_obj
def set_tq(path: str, seconds: int, gpu: str | None) -> None:
    """Give every running set a quantum of SECONDS; implies mode fixed."""
    _order(path, admin.SetQuantum(seconds, gpu))


@cli.command("set-mode")
@click.argument("mode", type=click.Choice(["auto", "fixed"]))
@click.option("--gpu", metavar="UUID", help="Only on this GPU.")
@click.pass_obj
def set_mode(path: str, mode: Any, gpu: str | None) -> None:
    """Find the quantum from the memory that runs (auto), or take the configured one (fixed)."""
    _order(path, admin.SetMode(mode, gpu))


@cli.command("anti-thrash")
@click.argument("state", type=click.Choice(["on", "off"]))
@click.pass_obj
def anti_thrash(path: str, state: str) -> None:
    """Switch scheduling on or off. Off: everybody may run at the same time."""
    _order(path, admin.SetScheduling(state == "on"))


@cli.command()
@click.argument("target", metavar="CLIENT|POD")
@click.argument("size", type=Size(), required=False)
@click.option("--clear", is_flag=True, help="Take the limit back.")
@click.pass_obj
def limit(path: str, target: str, size: int | None, clear: bool) -> None:
    """Limit the GPU memory of a client's pod, container or run on each GPU to SIZE, e.g. 8Gi; 0 is no limit.

    A pod with the annotation nvshare.com/gpu-memory-limit is limited by that, and this is refused.
    """
    if (size is None) != clear:
        raise click.UsageError("give either a SIZE or --clear")
    _order(path, admin.SetLimit(target, size))


@cli.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens next, until interrupted.")
@click.option("-n", "--last", type=click.IntRange(0), default=100, show_default=True, help="How many steps back.")
@click.pass_obj
def events(path: str, follow: bool, last: int) -> None:
    """Show what happened: locks given and taken back, waits, limits, clients that came and went."""
    patience = None if follow else operator.PATIENCE_S
    for answer in operator.answers(path, admin.GetEvents(follow, last), patience_s=patience):
        if isinstance(answer, admin.StepLine):
            click.echo(render.step_line(answer))
        elif isinstance(answer, admin.Failed):
            raise operator.RefusedError(answer.reason)
        else:
            return


@cli.command()
@click.argument("client")
@click.pass_obj
def story(path: str, client: str) -> None:
    """Tell why CLIENT is where it is, and the steps that led there."""
    answer = operator.ask(path, admin.GetStory(client))
    assert isinstance(answer, admin.Story)
    click.echo(render.clean(answer.summary))
    for line in answer.steps:
        click.echo(render.step_line(line))


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands in SHELL: eval "$(nvsharectl completion bash)"."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "nvsharectl", "_NVSHARECTL_COMPLETE").source())


def _order(path: str, request: admin.Request) -> None:
    operator.ask(path, request)


def main() -> None:
    """The console script: every failure is one line on stderr and its own exit code."""
    try:
        sys.exit(cli.main(prog_name="nvsharectl", standalone_mode=False) or 0)
    except click.ClickException as error:
        _fail(error.format_message(), EXIT_USAGE)
    except operator.RefusedError as error:
        _fail(str(error), EXIT_REFUSED)
    except (operator.UnreachableError, admin.AdminError) as error:
        _fail(str(error), EXIT_UNREACHABLE)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


def _fail(text: str, code: int) -> None:
    sys.stderr.write(f"nvsharectl: {render.clean(text)}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()

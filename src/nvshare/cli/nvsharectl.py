"""nvsharectl: the operator's tool."""

import sys
from collections.abc import Callable
from typing import Any

import click

from nvshare import __version__, admin
from nvshare.cli import operator, render
from nvshare.cli.options import SIZE
from nvshare.record import Record

EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Scheduler(Record, frozen=True):
    """Whom to ask, and how long to wait."""

    path: str
    patience_s: float

    def order(self, request: admin.Request) -> None:
        self.ask_for(admin.Done, request)

    def ask_for(self, kind: type[operator.AnswerT], request: admin.Request) -> operator.AnswerT:
        return operator.ask_for(kind, self.path, request, patience_s=self.patience_s)


class _WithTop(click.Group):
    """`top` is imported when it is used: a terminal view costs more to load than all the rest."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), "top"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "top":
            from nvshare.cli.top import top

            return top
        return super().get_command(ctx, cmd_name)


@click.group(cls=_WithTop, invoke_without_command=True, context_settings=_CONTEXT)
@click.option("--socket", "path", metavar="PATH", help="The scheduler's operator socket (NVSHARE_OPERATOR_SOCKET).")
@click.option("-T", "--set-tq", "seconds", type=click.IntRange(1, 86_400), metavar="N", help="The same as `set-tq N`.")
@click.option("-S", "--anti-thrash", "thrash", type=click.Choice(["on", "off"]), help="The same as `anti-thrash`.")
@click.option(
    "--timeout",
    type=click.IntRange(1, 86_400),
    default=int(operator.PATIENCE_S),
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for the scheduler's answer.",
)
@click.version_option(__version__, prog_name="nvsharectl")
@click.pass_context
def cli(context: click.Context, path: str | None, seconds: int | None, thrash: str | None, timeout: int) -> None:
    """Look at the GPUs of this machine and who shares them, and change how they are shared.

    \b
    nvsharectl status                 who runs, who waits
    nvsharectl top                    the same, live
    nvsharectl set-tq 30              a quantum of 30 seconds on every GPU
    nvsharectl limit default/p 8Gi    at most 8 GiB for this pod on each GPU
    nvsharectl story 6ccb             why this client is where it is

    Exit codes: 0 done, 1 refused or not found, 2 wrong usage, 3 the scheduler cannot be reached.
    """
    context.obj = Scheduler(path or operator.default_socket(), timeout)
    if seconds is not None:
        context.obj.order(admin.SetQuantum(seconds))
    if thrash is not None:
        context.obj.order(admin.SetScheduling(thrash == "on"))
    if context.invoked_subcommand is None and seconds is None and thrash is None:
        click.echo(context.get_help())


@cli.command()
@click.option("-o", "--output", type=click.Choice(["table", "wide", "json", "yaml"]), default="table", help="The form.")
@click.pass_obj
def status(scheduler: Scheduler, output: str) -> None:
    """Show each GPU, its memory, who runs and who waits."""
    answer = scheduler.ask_for(admin.Status, admin.GetStatus())
    forms: dict[str, Callable[[], str]] = {
        "table": lambda: render.status_table(answer, is_wide=False),
        "wide": lambda: render.status_table(answer, is_wide=True),
        "json": lambda: render.as_json(render.status_values(answer)),
        "yaml": lambda: render.as_yaml(render.status_values(answer)),
    }
    click.echo(forms[output]())


@cli.command("set-tq", short_help="Set the quantum, in seconds; implies mode fixed.")
@click.argument("seconds", type=click.IntRange(1, 86_400))
@click.option("--gpu", metavar="UUID", help="Only on this GPU.")
@click.pass_obj
def set_tq(scheduler: Scheduler, seconds: int, gpu: str | None) -> None:
    """Give every running set a quantum of SECONDS; implies mode fixed."""
    scheduler.order(admin.SetQuantum(seconds, gpu))


@cli.command("set-mode", short_help="Choose how the quantum is found.")
@click.argument("mode", type=click.Choice(["auto", "fixed", "adaptive"]))
@click.option("--gpu", metavar="UUID", help="Only on this GPU.")
@click.pass_obj
def set_mode(scheduler: Scheduler, mode: Any, gpu: str | None) -> None:
    """Find the quantum from the memory that runs (auto) or from what a switch costs (adaptive), or take the set one."""
    scheduler.order(admin.SetMode(mode, gpu))


@cli.command("anti-thrash", short_help="Switch scheduling on or off.")
@click.argument("state", type=click.Choice(["on", "off"]))
@click.pass_obj
def anti_thrash(scheduler: Scheduler, state: str) -> None:
    """Switch scheduling on or off. Off: everybody may run at the same time."""
    scheduler.order(admin.SetScheduling(state == "on"))


@cli.command(short_help="Limit a program's or pod's GPU memory.")
@click.argument("target", metavar="CLIENT|POD")
@click.argument("size", metavar="SIZE|none", required=False)
@click.option("--clear", is_flag=True, help="The same as `none`.")
@click.pass_obj
def limit(scheduler: Scheduler, target: str, size: str | None, clear: bool) -> None:
    """Limit the GPU memory of a client's pod, container or run on each GPU to SIZE, e.g. 8Gi.

    `none` takes the limit back: what the pod or the program itself asked for counts again. 0 is no limit at all.

    A pod with the annotation nvshare.com/gpu-memory-limit is limited by that, and this is refused.
    """
    if (size is None) != clear:
        raise click.UsageError("give either a SIZE, none, or --clear")
    scheduler.order(admin.SetLimit(target, None if size in (None, "none") else SIZE(size)))


@cli.command(short_help="Show what happened, step by step.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens next, until interrupted.")
@click.option("-n", "--last", type=click.IntRange(0), default=100, show_default=True, help="How many steps back.")
@click.pass_obj
def events(scheduler: Scheduler, follow: bool, last: int) -> None:
    """Show what happened: locks given and taken back, waits, limits, clients that came and went."""
    request = admin.GetEvents(follow, last)
    for answer in operator.answers(scheduler.path, request, patience_s=scheduler.patience_s, forever=follow):
        if isinstance(answer, admin.StepLine):
            click.echo(render.step_line(answer))
        elif isinstance(answer, admin.Failed):
            raise operator.RefusedError(answer.reason)
        else:
            return
    raise operator.UnreachableError(f"the scheduler at {scheduler.path} went away")


@cli.command()
@click.argument("client")
@click.pass_obj
def story(scheduler: Scheduler, client: str) -> None:
    """Tell why CLIENT is where it is, and the steps that led there."""
    answer = scheduler.ask_for(admin.Story, admin.GetStory(client))
    click.echo(render.clean(answer.summary))
    for line in answer.steps:
        click.echo(render.step_line(line))


@cli.command(short_help="Complete commands in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands in SHELL: eval "$(nvsharectl completion bash)"."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "nvsharectl", "_NVSHARECTL_COMPLETE").source())


def main() -> None:
    """The console script: every failure is one line on stderr and its own exit code."""
    try:
        sys.exit(cli.main(prog_name="nvsharectl", standalone_mode=False) or 0)
    except click.ClickException as error:
        _fail(f"{error.format_message().rstrip('.')}; see `nvsharectl --help`", EXIT_USAGE)
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
    sys.stderr.write(f"nvsharectl: {render.clean(' '.join(text.split()))}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()

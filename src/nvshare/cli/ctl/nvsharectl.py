"""nvsharectl: the command for operators."""

import sys
import time
from collections.abc import Callable
from typing import Any, get_args

import click
import msgspec

from nvshare import __version__, admin
from nvshare.cli import operator_client, streams
from nvshare.cli.ctl import complete, orders, render
from nvshare.cli.ctl.limits import limit, limits
from nvshare.cli.ctl.report import report
from nvshare.cli.ctl.status_table import status_table
from nvshare.cli.group import Group, has_screen, terminal_width, usage_error
from nvshare.cli.options import DURATION, QUANTUM_SECONDS
from nvshare.config import MAX_QUANTUM_S
from nvshare.core.model import ModeName
from nvshare.printable import printable
from nvshare.record import Record
from nvshare.status_document import event_document, schema, status_document

WATCH_S = 2.0
EXIT_REFUSED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
LOOKS = ("status", "top", "events", "story", "limits", "report")
"""The commands that only show something."""

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Scheduler(Record, frozen=True):
    """The socket of the scheduler, and the timeout."""

    found: operator_client.Found
    timeout_s: float

    @property
    def path(self) -> str:
        return self.found.path

    def order(self, request: admin.Request) -> None:
        """Print what the order has changed, and where if nobody has named the scheduler."""
        if self.found.others:
            paths = ", ".join((self.path, *self.found.others))
            raise operator_client.RefusedError(f"several private schedulers run; choose one with --socket: {paths}")
        click.echo(printable(self.ask_for(admin.Done, request).text))
        if self.found.is_private:
            sys.stderr.write(f"note: this is the private scheduler at {self.path}\n")

    def ask_for(self, kind: type[operator_client.AnswerT], request: admin.Request) -> operator_client.AnswerT:
        return operator_client.ask_for(kind, self.path, request, timeout_s=self.timeout_s)


class _WithTop(Group):
    """`top` is imported when it is used: its imports take longer than all others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), "top"])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name == "top":
            from nvshare.cli.ctl.top import top

            return top
        return super().get_command(ctx, cmd_name)


@click.group(cls=_WithTop, invoke_without_command=True, context_settings=_CONTEXT)
@click.option("--socket", "path", metavar="PATH", help="Operator socket of the scheduler.  [NVSHARE_OPERATOR_SOCKET]")
@click.option("-T", "--set-tq", "seconds", type=QUANTUM_SECONDS, metavar="N", help="Same as `set-quantum N`.")
@click.option("-S", "--anti-thrash", "thrash", type=click.Choice(["on", "off"]), help="Same as `scheduling`.")
@click.option(
    "--timeout",
    type=click.IntRange(1, MAX_QUANTUM_S),
    default=int(operator_client.TIMEOUT_S),
    show_default=True,
    metavar="SECONDS",
    help="Maximum wait for the answer of the scheduler.",
)
@click.version_option(__version__, prog_name="nvsharectl")
@click.pass_context
def cli(context: click.Context, path: str | None, seconds: int | None, thrash: str | None, timeout: int) -> None:
    """Show and control how the GPUs of this machine are shared.

    \b
    nvsharectl status                 show which clients run and which wait
    nvsharectl top                    show the same continuously
    nvsharectl set-quantum 30         set a quantum of 30 seconds on every GPU
    nvsharectl limit default/p 8Gi    limit this pod to 8 GiB on each GPU
    nvsharectl core-limit train 30    limit its time to 30 % of each GPU
    nvsharectl limits                 show all limits and where they come from
    nvsharectl pause train            give this program no turns until `resume`
    nvsharectl story 6ccb             explain why this client runs or waits
    nvsharectl report --by user       show what users have used in 7 days

    Exit codes: 0 success, 1 refused or not found, 2 wrong usage, 3 no connection to the scheduler.
    """
    context.obj = Scheduler(operator_client.find(path), timeout)
    if context.invoked_subcommand in LOOKS:
        operator_client.note_others(context.obj.found)
    if seconds is not None:
        context.obj.order(admin.SetQuantum(seconds))
    if thrash is not None:
        context.obj.order(admin.SetScheduling(thrash == "on"))
    if context.invoked_subcommand is None and seconds is None and thrash is None:
        click.echo(context.get_help())


@cli.command()
@click.option(
    "-o", "--output", type=click.Choice(["table", "wide", "json", "yaml"]), default="table", help="Output format."
)
@click.option("-w", "--watch", is_flag=True, help="Show it again every two seconds, until interrupted.")
@click.pass_obj
def status(scheduler: Scheduler, output: str, watch: bool) -> None:
    """Show the GPUs, and running and waiting clients."""
    while True:
        text = _status_text(scheduler.ask_for(admin.Status, admin.GetStatus()), output)
        if watch and has_screen():
            click.clear()
        click.echo(text)
        if not watch:
            return
        time.sleep(WATCH_S)
        click.echo("")


def _status_text(answer: admin.Status, output: str) -> str:
    forms: dict[str, Callable[[], str]] = {
        "table": lambda: status_table(answer, is_wide=False, width=terminal_width()),
        "wide": lambda: status_table(answer, is_wide=True),
        "json": lambda: render.as_json(status_document(answer)),
        "yaml": lambda: render.as_yaml(status_document(answer)),
    }
    return forms[output]()


@cli.command("set-quantum", short_help="Set the quantum in seconds, with mode fixed.")
@click.argument("seconds", type=QUANTUM_SECONDS)
@click.option(
    "--gpu", metavar="GPU", shell_complete=complete.gpus, help="Only this GPU: index, UUID, or the beginning of one."
)
@click.pass_obj
def set_quantum(scheduler: Scheduler, seconds: int, gpu: str | None) -> None:
    """Set the quantum to SECONDS and the mode to fixed."""
    scheduler.order(admin.SetQuantum(seconds, gpu))


@cli.command("set-mode", short_help="Set how the quantum is chosen.")
@click.argument("mode", type=click.Choice(get_args(ModeName)))
@click.option(
    "--gpu", metavar="GPU", shell_complete=complete.gpus, help="Only this GPU: index, UUID, or the beginning of one."
)
@click.pass_obj
def set_mode(scheduler: Scheduler, mode: Any, gpu: str | None) -> None:
    """Divide the GPU's time by the measured cost of moving memory and by what programs do (balanced, the default;
    adaptive), by the memory of running clients (auto), or with the value of `set-quantum` (fixed).
    """
    scheduler.order(admin.SetMode(mode, gpu))


@cli.command("scheduling", short_help="Switch scheduling on or off.")
@click.argument("state", type=click.Choice(["on", "off"]))
@click.pass_obj
def scheduling(scheduler: Scheduler, state: str) -> None:
    """Switch scheduling on or off. When it is off, all programs run at the same time."""
    scheduler.order(admin.SetScheduling(state == "on"))


def _also_called(command: click.Command, name: str) -> None:
    """A second name of a command, from the original nvshare."""
    cli.add_command(
        click.Command(
            name,
            callback=command.callback,
            params=command.params,
            help=command.help,
            short_help=f"Same as {command.name}.",
        )
    )


for _order in (*orders.ORDERS, limit, limits, report):
    cli.add_command(_order)
_also_called(set_quantum, "set-tq")
_also_called(scheduling, "anti-thrash")


@cli.command(short_help="Show what happened, line by line.")
@click.option("-f", "--follow", is_flag=True, help="Continue with new events until interrupted.")
@click.option("-n", "--last", type=click.IntRange(0), default=100, show_default=True, help="Number of past lines.")
@click.option("--since", type=DURATION, help="Only lines of this time, e.g. 90s, 10m, 2h, 7d.")
@click.option("--client", metavar="CLIENT", shell_complete=complete.clients, help="Only steps with this client.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="json: a line for each event."
)
@click.pass_obj
def events(scheduler: Scheduler, follow: bool, last: int, since: float | None, client: str | None, output: str) -> None:
    """Show events: locks given and taken back, waits, limits, clients that registered and left."""
    request = admin.GetEvents(follow, last, since, client)
    for answer in operator_client.answers(scheduler.path, request, timeout_s=scheduler.timeout_s, forever=follow):
        if isinstance(answer, admin.StepLine):
            is_json = output == "json"
            text = render.step_line(answer, terminal_width())
            click.echo(msgspec.json.encode(event_document(answer)).decode() if is_json else text)
        elif isinstance(answer, admin.Failed):
            raise operator_client.RefusedError(answer.reason)
        else:
            return
    raise operator_client.UnreachableError(f"the scheduler at {scheduler.path} closed the connection")


@cli.command()
@click.argument("client", shell_complete=complete.clients)
@click.option("-n", "--last", type=click.IntRange(0), help="Number of past lines.  [default: all]")
@click.pass_obj
def story(scheduler: Scheduler, client: str, last: int | None) -> None:
    """Explain why CLIENT runs or waits, and show the steps before.

    CLIENT is an ID or the beginning of one, a name, a process ID, or a pod.
    """
    answer = scheduler.ask_for(admin.Story, admin.GetStory(client, last))
    click.echo(render.wrapped(printable(answer.summary), terminal_width()))
    for line in answer.steps:
        click.echo(render.step_line(line, terminal_width()))


@cli.command("schema", short_help="Print the JSON Schema of `status -o json`.")
def print_schema() -> None:
    """Print the JSON Schema of `status -o json` and /api/v1/status.

    Definitions in it: limits, events, reports, and the messages of /api/v1/events.
    """
    click.echo(render.as_json(schema()))


@cli.command(short_help="Print a shell completion script.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for SHELL. Use: eval "$(nvsharectl completion bash)"."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(cli, {}, "nvsharectl", "_NVSHARECTL_COMPLETE").source())


def main() -> None:
    """The console script: every failure is one line on stderr and its own exit code."""
    streams.prepare()
    try:
        sys.exit(cli.main(prog_name="nvsharectl", standalone_mode=False) or 0)
    except click.ClickException as error:
        _fail(usage_error(error, "nvsharectl"), EXIT_USAGE)
    except operator_client.RefusedError as error:
        _fail(str(error), EXIT_REFUSED)
    except (operator_client.UnreachableError, admin.AdminError) as error:
        _fail(str(error), EXIT_UNREACHABLE)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        streams.discard()
        sys.exit(0)
    except OSError as error:
        _fail(streams.failure(error), EXIT_REFUSED)


def _fail(text: str, code: int) -> None:
    sys.stderr.write(f"nvsharectl: {printable(' '.join(text.split()))}\n")
    sys.exit(code)


if __name__ == "__main__":
    main()

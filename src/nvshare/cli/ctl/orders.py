"""nvsharectl's orders about turns: weight, priority, core limit, policy, pause, resume, yield."""

from typing import TYPE_CHECKING, Any

import click

from nvshare import admin
from nvshare.cli.ctl import complete
from nvshare.cli.options import Percent
from nvshare.core.model import MAX_WEIGHT
from nvshare.core.queue.policies import MAX_PRIORITY, MIN_PRIORITY, POLICIES

if TYPE_CHECKING:
    from nvshare.cli.ctl.nvsharectl import Scheduler

_TARGET = click.argument("target", metavar="CLIENT|POD", shell_complete=complete.clients)
_MAYBE = click.argument("target", metavar="[CLIENT|POD]", required=False, shell_complete=complete.clients)
_GPU = click.option(
    "--gpu", metavar="GPU", shell_complete=complete.gpus, help="All clients of this GPU: index, UUID, or its beginning."
)


class _NumberOrNone(click.IntRange):
    """A number, or `none`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "none" else super().convert(value, param, ctx)


class _PercentOrNone(Percent):
    """A share of a GPU's time, or `none`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if value == "none" else super().convert(value, param, ctx)


@click.command("set-weight", short_help="Set the share of GPU time of a program or pod.")
@_TARGET
@click.argument("weight", metavar="WEIGHT|none", type=_NumberOrNone(1, MAX_WEIGHT))
@click.pass_obj
def set_weight(scheduler: "Scheduler", target: str, weight: int | str) -> None:
    """Set the weight of a client's pod, container or run, from 1 to 1000. The default is 100.

    Policy fair divides GPU time in proportion to the weights; other policies ignore them.
    `none` removes the weight. The command is refused for a pod with the annotation nvshare.com/gpu-weight.
    """
    scheduler.order(admin.SetWeight(target, None if isinstance(weight, str) else weight))


@click.command(
    "set-priority",
    short_help="Set the priority of a program or pod.",
    context_settings={"ignore_unknown_options": True},  # -5 is a number
)
@_TARGET
@click.argument("priority", metavar="PRIORITY|none", type=_NumberOrNone(MIN_PRIORITY, MAX_PRIORITY))
@click.pass_obj
def set_priority(scheduler: "Scheduler", target: str, priority: int | str) -> None:
    """Set the priority of a client's pod, container or run, from -10 to 10. The default is 0.

    A program of higher priority gets the GPU before the quantum of a lower one ends, also if it waits already. Policy
    fcfs ignores priorities. `none` removes the priority. The command is refused for a pod with the annotation
    nvshare.com/gpu-priority.
    """
    scheduler.order(admin.SetPriority(target, None if isinstance(priority, str) else priority))


@click.command("core-limit", short_help="Set the limit of GPU time of a program or pod.")
@_TARGET
@click.argument("percent", metavar="PERCENT|none", type=_PercentOrNone())
@click.pass_obj
def core_limit(scheduler: "Scheduler", target: str, percent: int | str) -> None:
    """Limit the GPU time of a client's pod, container or run to PERCENT of each GPU, from 1 to 100, e.g. 30.

    Its processes together get no more, even if the GPU is free. `none` removes this limit; the limit of the pod's
    specification or of the program applies again. The limit is kept when the scheduler restarts.

    The command is refused for a pod with the annotation nvshare.com/gpu-core-limit; change the annotation.
    """
    scheduler.order(admin.SetCoreLimit(target, None if isinstance(percent, str) else percent))


@click.command("set-policy", short_help="Set the order of the queues.")
@click.argument("policy", type=click.Choice(list(POLICIES)))
@click.pass_obj
def set_policy(scheduler: "Scheduler", policy: str) -> None:
    """Order the queues by arrival (fcfs), by share of GPU time (fair) or by priority, until the scheduler ends.

    Clients that wait already are ordered again.
    """
    scheduler.order(admin.SetPolicy(policy))


@click.command(short_help="Give a program, a pod or all clients of a GPU no turns.")
@_MAYBE
@_GPU
@click.pass_obj
def pause(scheduler: "Scheduler", target: str | None, gpu: str | None) -> None:
    """Give a client's pod, container or run no turns until `nvsharectl resume`. With --gpu: all clients of this GPU.

    A program that runs releases its lock; its memory may then be moved to the host. It keeps its rank in the queue.
    The command is refused for a pod with the annotation nvshare.com/gpu-pause.
    """
    scheduler.order(admin.SetPause(True, *_one_of(target, gpu)))


@click.command(short_help="End `pause`.")
@_MAYBE
@_GPU
@click.pass_obj
def resume(scheduler: "Scheduler", target: str | None, gpu: str | None) -> None:
    """Give a client's pod, container or run turns again. With --gpu: all clients of this GPU."""
    scheduler.order(admin.SetPause(False, *_one_of(target, gpu)))


@click.command("yield", short_help="End the turn of a program, or the turns on a GPU, now.")
@_MAYBE
@_GPU
@click.pass_obj
def yield_turn(scheduler: "Scheduler", target: str | None, gpu: str | None) -> None:
    """End the turn of a client now, or with --gpu all turns on this GPU, if another client waits for the GPU. The first
    client in the queue gets the next turn."""
    scheduler.order(admin.YieldTurn(*_one_of(target, gpu)))


def _one_of(target: str | None, gpu: str | None) -> tuple[str | None, str | None]:
    if target is None and gpu is None:
        raise click.UsageError("give a CLIENT or POD, or --gpu")
    if target is not None and gpu is not None:
        raise click.UsageError("give either a CLIENT or POD, or --gpu, not both")
    return target, gpu


ORDERS = (core_limit, set_weight, set_priority, set_policy, pause, resume, yield_turn)

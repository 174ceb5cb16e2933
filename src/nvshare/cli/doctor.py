"""`nvshare doctor`: is this machine ready, and if not, what to do."""

import asyncio
import os
import sys

import click

from nvshare.cli.failure import EXIT_FAILED


@click.command(short_help="Is this machine ready?")
@click.option("--gpu", "is_deep", is_flag=True, help="Also try it on each GPU: allocate, launch, limit, switch.")
@click.option("--sim-gpus", type=click.IntRange(1, 16), metavar="N", help="Look at N simulated GPUs instead.")
def doctor(is_deep: bool, sim_gpus: int | None) -> None:
    """Check driver, library, scheduler, sockets and what else sharing needs; each line with its remedy.

    With --gpu, programs are run on every GPU for about a minute, with a scheduler of their own. Programs of others on
    the same GPU are not disturbed beyond that.

    Exit codes: 0 nothing failed, 1 something did.
    """
    if sim_gpus is not None:
        _again_on_simulated(sim_gpus, is_deep=is_deep)
    from nvshare.cli.doctor_checks import CHECKS, Finding, Machine

    machine = Machine(environment=dict(os.environ))
    failures = warnings = 0

    def show(finding: Finding) -> None:
        nonlocal failures, warnings
        failures += finding.level == "fail"
        warnings += finding.level == "warn"
        _print(finding.level, finding.text, finding.remedy)

    for check in CHECKS:
        for finding in check(machine):
            show(finding)
    if is_deep:
        from nvshare.cli.doctor_gpu import self_test

        async def test() -> None:
            async for finding in self_test(machine.environment):
                show(finding)

        asyncio.run(test())
    click.echo(f"\n{failures} failed, {warnings} to look at" if failures or warnings else "\nall well")
    if failures:
        sys.exit(EXIT_FAILED)


def _print(level: str, text: str, remedy: str) -> None:
    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    clean = "".join(char if char.isprintable() else "?" for char in text)
    click.echo(f"{click.style(f'{level:5}', fg=colours.get(level))} {clean}")
    if remedy:
        click.echo(f"      -> {remedy}")


def _again_on_simulated(count: int, *, is_deep: bool) -> None:
    """Start anew with the simulated libraries in place: a process finds its NVML when it starts."""
    from nvshare.cli import private
    from nvshare.cli.failure import EXIT_OURS, FrontError
    from nvshare.cli.leftovers import entering
    from nvshare.cli.simulated import simulated
    from nvshare.simgpu.config import SimConfigError

    try:
        runtime = private.runtime_directory()
        with entering(runtime):
            card = simulated(os.environ, runtime, gpus=count, memory=None)
        environment = card.environment()
    except SimConfigError as error:
        raise FrontError(str(error), EXIT_OURS) from None
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    words = [sys.executable, "-P", "-m", "nvshare.cli.nvshare", "doctor", *(["--gpu"] if is_deep else [])]
    os.execve(sys.executable, words, environment)  # noqa: S606 - ourselves

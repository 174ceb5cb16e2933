"""`nvshare doctor`: checks this machine and prints the remedy of each problem."""

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from nvshare.cli.errors import EXIT_FAILED
from nvshare.printable import printable

if TYPE_CHECKING:
    from nvshare.cli.doctor.checks import Finding


@click.command(short_help="Check this machine.")
@click.option("--gpu", "is_deep", is_flag=True, help="Also run programs on each GPU: allocate, launch, limit, switch.")
@click.option("--sim-gpus", type=click.IntRange(1, 16), metavar="N", help="Check N simulated GPUs instead.")
@click.option("--json", "is_json", is_flag=True, help="Print the findings as JSON.")
def doctor(is_deep: bool, sim_gpus: int | None, is_json: bool) -> None:
    """Check the driver, the library, the scheduler and its sockets. Each problem is printed with its remedy.

    With --gpu, test programs run on each GPU for about a minute, with a scheduler of their own. They use memory that
    is free; other programs on the GPU continue.

    Exit codes: 0 no check failed, 1 a check failed.
    """
    if sim_gpus is not None:
        _restart_on_simulated_gpus(sim_gpus, is_deep=is_deep, is_json=is_json)
    found: list[Finding] = []
    for finding in _findings(is_deep=is_deep):
        found.append(finding)
        if not is_json:
            _announce("")
            _print(finding.level, finding.text, finding.remedy)
    _announce("")
    failures, warnings = (sum(finding.level == level for finding in found) for level in ("fail", "warn"))
    if is_json:
        _print_json(found, failures, warnings)
    else:
        click.echo(f"\n{failures} failed, {warnings} warnings" if failures or warnings else "\nno problems found")
    if failures:
        sys.exit(EXIT_FAILED)


def _findings(*, is_deep: bool) -> Iterator["Finding"]:
    from nvshare.cli.doctor.checks import CHECKS, machine_of

    machine = machine_of(dict(os.environ))
    for check in CHECKS:
        _announce(f"checking the {check.__name__.removeprefix('check_').replace('_', ' ')} ...")
        yield from check(machine)
    if is_deep:
        from nvshare.cli.doctor.gpu_test import self_test

        _announce("running programs on each GPU; this takes up to a minute ...")
        tests = self_test(machine.environment)

        async def following() -> "Finding | None":
            return await anext(tests, None)

        with asyncio.Runner() as runner:
            while (finding := runner.run(following())) is not None:
                yield finding


def _announce(text: str) -> None:
    """What is being checked, on a terminal only; the next call replaces it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def _print_json(found: "list[Finding]", failures: int, warnings: int) -> None:
    import msgspec

    values = {"schema_version": 1, "findings": found, "failed": failures, "warnings": warnings}
    click.echo(msgspec.json.format(msgspec.json.encode(values), indent=2).decode())


def _print(level: str, text: str, remedy: str) -> None:
    colours = {"ok": "green", "warn": "yellow", "fail": "red"}
    click.echo(f"{click.style(f'{level:5}', fg=colours.get(level))} {printable(text)}")
    if remedy:
        click.echo(f"      -> {remedy}")


def _restart_on_simulated_gpus(count: int, *, is_deep: bool, is_json: bool) -> None:
    """Start this command again with the simulated libraries: a process loads NVML once."""
    from nvshare.cli.errors import EXIT_NVSHARE_FAILED, CommandError
    from nvshare.cli.run import private_scheduler
    from nvshare.cli.run.cleanup import entering
    from nvshare.cli.run.simulated_gpu import simulated
    from nvshare.simgpu.config import SimConfigError

    try:
        runtime = private_scheduler.runtime_directory()
        with entering(runtime):
            card = simulated(os.environ, runtime, gpus=count, memory=None)
        environment = card.environment()
    except SimConfigError as error:
        raise CommandError(str(error), EXIT_NVSHARE_FAILED) from None
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    words = [sys.executable, "-P", "-m", "nvshare.cli.nvshare", "doctor"]
    words += ["--gpu"] * is_deep + ["--json"] * is_json
    os.execve(sys.executable, words, environment)  # noqa: S606 - this program

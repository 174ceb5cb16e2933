"""`nvshare demo`: a demonstration of two minutes, without a GPU."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import click

from nvshare.cli.errors import CommandError


@click.command(short_help="Run a demonstration, without a GPU.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="Directory for the picture."
)
@click.option(
    "--real", is_flag=True, help="Use the first GPU of this machine instead of a simulated one; takes longer."
)
@click.option("--only", type=click.Choice(["steady", "bursty", "small", "slow", "limit"]), help="Run only this part.")
def demo(out: Path, real: bool, only: str | None) -> None:
    """Show how programs share a GPU although they do not fit on it together, with and without nvshare.

    The scheduler, the library and the CUDA programs are real; the GPU is simulated (a P100 of 16 GiB, with the
    paging costs of the real one). The times are seconds of the simulated card, measured in this run.

    \b
    1. one after another
    2. at the same time, plain CUDA      the second program gets no memory
    3. at the same time, unified memory  both programs run, and thrash
    4. at the same time, with nvshare    big programs take turns, and memory
                                         moves in bulk at a switch (once by
                                         page faults, to compare, also with
                                         slow page faults); small programs
                                         run side by side
    5. a limit is raised and lowered while its program runs
    """
    from nvshare import admin
    from nvshare.cli import operator_client
    from nvshare.cli.demo.demonstration import Demonstration

    plan = _plan(is_real=real)
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):  # so that it does not fail after two minutes
            pass
    except OSError as error:
        raise CommandError(f"demo: {out}: {error.strerror}; --out names another directory") from None
    demonstration = Demonstration(plan, out, is_real=real, only=only)
    try:
        has_worked = asyncio.run(demonstration.run())
    except TimeoutError:
        raise CommandError("demo: a program did not answer in time; is the machine very busy?") from None
    except (operator_client.UnreachableError, operator_client.RefusedError, admin.AdminError) as error:
        raise CommandError(f"demo: {error}") from None
    except OSError as error:
        raise CommandError(f"demo: {error.filename or out}: {error.strerror or error}") from None
    if not has_worked:
        raise CommandError("demo: a program failed; see above")


def _plan(*, is_real: bool) -> Any:
    from nvshare.cli.demo import plan

    if not is_real:
        return plan.simulated()
    from nvshare.inventory.nvml import Nvml, NvmlUnavailableError

    try:
        with Nvml() as nvml:
            gpus = nvml.discover()
    except NvmlUnavailableError as error:
        raise CommandError(f"demo: {error}") from None
    if not gpus:
        raise CommandError("demo: NVML reports no GPU; omit --real to use the simulated GPU")
    return plan.real(gpus[0].total_bytes)

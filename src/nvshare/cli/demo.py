"""`nvshare demo`: see it work, in two minutes and without a GPU."""

import asyncio
from pathlib import Path
from typing import Any

import click

from nvshare.cli.failure import FrontError


@click.command(short_help="See it work, without a GPU.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="Where the picture goes.")
@click.option("--real", is_flag=True, help="Use this machine's first GPU instead of the simulated one. Takes longer.")
@click.option("--only", type=click.Choice(["steady", "bursty", "small", "limit"]), help="One part of it.")
def demo(out: Path, real: bool, only: str | None) -> None:
    """Show programs that do not fit on a GPU together share it, and what they would do without nvshare.

    The scheduler, the library and the CUDA programs are real; the GPU is simulated (16 GiB, with the paging costs
    of a real one), so that this works everywhere. The times shown are the card's, measured in this run.

    \b
    1. one after another     what people do today
    2. at once, plain CUDA   the second one finds no memory
    3. at once, unified      both run, and spend their time moving memory
    4. with nvshare          they take turns; small ones run side by side
    5. a memory limit is raised and lowered while its program runs
    """
    from nvshare import admin
    from nvshare.cli import operator
    from nvshare.cli.demo_show import Show

    plan = _plan(is_real=real)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FrontError(f"demo: {out}: {error.strerror}") from None
    show = Show(plan, out, is_real=real, only=only)
    try:
        is_as_promised = asyncio.run(show.run())
    except TimeoutError:
        raise FrontError("demo: a program did not answer in time; is the machine very busy?") from None
    except (operator.UnreachableError, operator.RefusedError, admin.AdminError) as error:
        raise FrontError(f"demo: {error}") from None
    except OSError as error:
        raise FrontError(f"demo: {error.filename or out}: {error.strerror or error}") from None
    if not is_as_promised:
        raise FrontError("demo: not everything was as promised; see above")


def _plan(*, is_real: bool) -> Any:
    from nvshare.cli import demo_plan

    if not is_real:
        return demo_plan.simulated()
    from nvshare.inventory.nvml import Nvml, NvmlUnavailableError

    try:
        with Nvml() as nvml:
            gpus = nvml.discover()
    except NvmlUnavailableError as error:
        raise FrontError(f"demo: {error}") from None
    if not gpus:
        raise FrontError("demo: NVML knows no GPU; leave out --real for the simulated one")
    return demo_plan.real(gpus[0].total_bytes)

"""The simulated GPU of a command. Runs with the same settings share one card."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from nvshare.cli.errors import EXIT_USAGE, CommandError
from nvshare.cli.run.cleanup import occupy
from nvshare.simgpu.config import SETTINGS, SimConfigError, SimGpu, from_environment

OF_THE_PROGRAM = ("kernels", "kernel_us", "module_load", "stale_handles", "cuda_version", "trace")
"""Settings in which programs on one card may differ."""


def simulated(environment: Mapping[str, str], runtime: Path, *, gpus: int | None, memory: str | None) -> SimGpu:
    """The card of these settings. Its directory is named after them, unless the environment names one.

    Call it inside `cleanup.entering`; this process and programs that it becomes are users of the directory."""
    try:
        card = from_environment(environment).with_values(gpus=gpus, memory=memory)
    except SimConfigError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if "directory" in card.values:
        return card
    folder = runtime / f"sim-{_digest(card)}"
    folder.mkdir(mode=0o700, exist_ok=True)
    occupy(folder)
    return card.with_values(directory=folder)


def scheduler_directory(card: SimGpu, runtime: Path) -> Path:
    """The directory of the scheduler of a simulated card; its name is short because paths of sockets must be."""
    digest = hashlib.sha256(os.fsencode(card.values["directory"])).hexdigest()[:8]
    folder = runtime / f"on-{digest}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _digest(card: SimGpu) -> str:
    of_the_card = [name for name in SETTINGS if name in card.values and name not in OF_THE_PROGRAM]
    said = "\n".join(f"{name}={card.values[name]}" for name in of_the_card)
    return hashlib.sha256(os.fsencode(said)).hexdigest()[:8]

"""A simulated GPU for one command: the same settings mean the same card, so two runs with them meet on it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from nvshare.cli.failure import EXIT_USAGE, FrontError
from nvshare.cli.leftovers import occupy
from nvshare.simgpu.config import SETTINGS, SimConfigError, SimGpu, from_environment

OF_THE_PROGRAM = ("kernels", "kernel_us", "touch", "trace")
"""Settings that two programs on one card may have differently."""


def simulated(environment: Mapping[str, str], runtime: Path, *, gpus: int | None, memory: str | None) -> SimGpu:
    """The card of these settings; its directory, unless the environment names one, is named by them.

    Called by who is `leftovers.entering`; this process and what it execs are then users of the directory."""
    try:
        card = from_environment(environment).with_values(gpus=gpus, memory=memory)
    except SimConfigError as error:
        raise FrontError(str(error), EXIT_USAGE) from None
    if "directory" in card.values:
        return card
    folder = runtime / f"sim-{_digest(card)}"
    folder.mkdir(mode=0o700, exist_ok=True)
    occupy(folder)
    return card.with_values(directory=folder)


def scheduler_directory(card: SimGpu, runtime: Path) -> Path:
    """Where the scheduler of a simulated card lives: short, because a socket's path has to be."""
    digest = hashlib.sha256(card.values["directory"].encode()).hexdigest()[:8]
    folder = runtime / f"on-{digest}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _digest(card: SimGpu) -> str:
    of_the_card = [name for name in SETTINGS if name in card.values and name not in OF_THE_PROGRAM]
    said = "\n".join(f"{name}={card.values[name]}" for name in of_the_card)
    return hashlib.sha256(said.encode()).hexdigest()[:8]

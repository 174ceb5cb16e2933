"""The checks of the kit, in order: one table."""

import os
from collections.abc import Callable
from pathlib import Path

from nvshare.cli.doctor.acceptance import judgement, several, single
from nvshare.cli.doctor.acceptance.framework_scripts import SCRIPTS
from nvshare.cli.doctor.acceptance.frameworks import framework
from nvshare.cli.doctor.acceptance.judgement import REPORT, Judge, works
from nvshare.cli.doctor.acceptance.results import Card
from nvshare.cli.doctor.acceptance.single import Measure, shared_probe
from nvshare.inventory.nvml import Nvml
from nvshare.record import Record

FEATURE_S = 60
LONG_S = 240
MOST_S = 600
FRAMEWORK_S = 180
MEMORY_MODE = "set NVSHARE_MEMORY_MODE=native for programs that need it; " + REPORT


def no_time(card: Card) -> int:
    return 0


class Check(Record, frozen=True):
    """One check. It is ended after `limit_s(card)`."""

    name: str
    what: str
    measure: Measure
    judge: Judge
    fixed_s: int = FEATURE_S
    remedy: str = REPORT
    needs_idle_card: bool = False
    """It takes all memory of the card, so it is not run on a card that others use."""
    by_card_s: Callable[[Card], int] = no_time
    """What it takes on a card of this size and speed, beyond the fixed time."""

    def limit_s(self, card: Card) -> int:
        return min(MOST_S, self.fixed_s + self.by_card_s(card))


def compute_mode(card: Card) -> dict[str, float]:
    with Nvml() as nvml:
        return {"is_exclusive": bool(nvml.is_exclusive(card.uuid))}


def mps(card: Card) -> dict[str, float]:
    pipe = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # noqa: S108 - NVIDIA's default
    return {"machine": 1, "is_running": Path(pipe, "control").exists()}


def _feature(name: str, what: str, remedy: str = REPORT) -> Check:
    return Check(name, what, shared_probe(name), works(what), remedy=remedy)


def checks(python: str) -> tuple[Check, ...]:
    """All checks; `python` is the interpreter of the frameworks."""
    return (
        Check("identity", "the driver answers", single.identity, judgement.identity,
              remedy="see dmesg; reset the GPU or reboot"),
        Check("compute-mode", "compute mode", compute_mode, judgement.compute_mode),
        Check("mps", "MPS", mps, judgement.mps),
        Check("host-memory", "memory of the host", several.host_memory, judgement.host_memory),
        Check("moves", "speed of memory", single.moves, judgement.moves, LONG_S),
        Check("launches", "a kernel launch", single.launches, judgement.launches),
        Check("allocations", "an allocation", single.allocations, judgement.allocations),
        Check("limit", "a limit", several.limit, judgement.limit),
        Check("switch-in-bulk", "turns, memory moved in bulk", several.switch_in_bulk, judgement.switch, LONG_S,
              needs_idle_card=True),
        Check("switch-by-faults", "turns, memory moved by page faults", several.switch_by_faults, judgement.switch,
              LONG_S, needs_idle_card=True, by_card_s=several.turns_by_faults_s),
        Check("reserve", "a program that fills the card", several.reserve, judgement.reserve, LONG_S,
              needs_idle_card=True, by_card_s=several.filling_s),
        _feature("graphs", "a captured graph"),
        _feature("pools", "a memory pool (cuMemAllocAsync)", "use cuMemAlloc: docs/hardware.md"),
        _feature("virtual-memory", "virtual memory management (cuMemCreate)", "docs/hardware.md"),
        _feature("fork", "forked children"),
        _feature("pointers", "memory looks like device memory", MEMORY_MODE),
        Check("small-memory", "small memory", shared_probe("small-memory"), judgement.small_memory, remedy=MEMORY_MODE),
        Check("nvml", "NVML", single.nvml, judgement.nvml),
        *(
            Check(name, name, framework(name, python), judgement.framework(name),
                  2 * FRAMEWORK_S if name == "vllm" else FRAMEWORK_S,
                  "docs/hardware.md has the settings of each framework; " + REPORT)
            for name in SCRIPTS
        ),
    )  # fmt: skip

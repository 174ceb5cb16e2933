"""Settings of the simulated GPU: one table, read from a TOML file, the environment or arguments.

The simulated libraries read only the environment. This module is the one place that knows every setting's name, checks
values before a process starts, and gives the environment in which a program finds the simulated libraries.

    [simgpu]
    gpus = 2
    memory = "16Gi"
    scale = 0.01
    kernels = { matmul = "5ms", relu = "20us" }
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nvshare.native_directory import NATIVE
from nvshare.simgpu import setting_checks as checks
from nvshare.simgpu.setting_checks import SimConfigError as SimConfigError


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its variable, its check, and its row in docs/simulated-gpu.md."""

    variable: str
    check: Callable[[object], str]
    default: str
    meaning: str


SETTINGS: dict[str, Setting] = {
    "directory": Setting(
        "NVSHARE_SIM_DIR",
        str,
        "`/dev/shm/nvshare-sim-UID`",
        "state of the simulated node; processes with the same directory share the cards",
    ),
    "gpus": Setting("NVSHARE_SIM_GPUS", checks.count, "1", "number of cards, up to 16"),
    "card": Setting(
        "NVSHARE_SIM_CARD",
        checks.card,
        "",
        "a known card: `p100`, `t4`, `a100` or `h100`; sets name, memory, compute capability and bandwidths",
    ),
    "memory": Setting("NVSHARE_SIM_MEMORY", checks.size, "`16Gi`", "memory of each card"),
    "context_memory": Setting("NVSHARE_SIM_CONTEXT_MEMORY", checks.size, "`256Mi`", "memory that each context uses"),
    "module_memory": Setting("NVSHARE_SIM_MODULE_MEMORY", checks.size, "`64Ki`", "memory that each loaded module uses"),
    "graph_memory": Setting(
        "NVSHARE_SIM_GRAPH_MEMORY", checks.size, "`64Ki`", "memory that each instance of a graph uses"
    ),
    "host_memory": Setting(
        "NVSHARE_SIM_HOST_MEMORY",
        checks.size,
        "no limit",
        "host memory that the process has for memory evicted from a card; each process has its own value",
    ),
    "host_full": Setting(
        "NVSHARE_SIM_HOST_FULL",
        checks.one_of("kill", "refuse"),
        "`kill`",
        "what happens beyond that: `kill` ends the process that owns the memory, `refuse` leaves it on the card",
    ),
    "name": Setting("NVSHARE_SIM_NAME", str, "`Simulated GPU`", "name of the cards"),
    "compute_capability": Setting("NVSHARE_SIM_COMPUTE_CAPABILITY", checks.capability, "`8.0`", "compute capability"),
    "scale": Setting(
        "NVSHARE_SIM_SCALE", checks.scale, "1", "real seconds per simulated second; 0.01 runs a hundred times faster"
    ),
    "bandwidth": Setting(
        "NVSHARE_SIM_BANDWIDTH",
        checks.size,
        "10 GiB in 0.12 s",
        "access to resident memory and copies on the card, bytes per second",
    ),
    "copy_bandwidth": Setting(
        "NVSHARE_SIM_COPY_BANDWIDTH",
        checks.size,
        "`12G`",
        "copies between host and card, prefetches and checkpoints, bytes per second",
    ),
    "fault_bandwidth": Setting(
        "NVSHARE_SIM_FAULT_BANDWIDTH",
        checks.size,
        "10 GiB in 3.70 s",
        "managed memory moved in by page faults, bytes per second",
    ),
    "evict_bandwidth": Setting(
        "NVSHARE_SIM_EVICT_BANDWIDTH", checks.size, "`12G`", "managed memory evicted from the card, bytes per second"
    ),
    "evicting_fault_bandwidth": Setting(
        "NVSHARE_SIM_EVICTING_FAULT_BANDWIDTH",
        checks.size,
        "",
        "page faults that must evict, eviction included, bytes per second; default: one after the other",
    ),
    "prefetch": Setting(
        "NVSHARE_SIM_PREFETCH",
        checks.one_of("works", "ignored"),
        "`works`",
        "`ignored`: a prefetch succeeds and does nothing, as was reported from a full T4",
    ),
    "slice": Setting(
        "NVSHARE_SIM_SLICE",
        checks.duration,
        "`2ms`",
        "time slice of a process while others wait; at least 0.1 ms of real time",
    ),
    "touch": Setting(
        "NVSHARE_SIM_TOUCH",
        checks.one_of("all", "stream"),
        "`all`",
        "what a kernel touches: `all` managed memory of its process, or `stream` (what it can read in its duration)",
    ),
    "kernel_us": Setting(
        "NVSHARE_SIM_KERNEL_US", str, "10", "default duration of a kernel in microseconds; also `5ms`, `1s`"
    ),
    "kernels": Setting(
        "NVSHARE_SIM_KERNELS", checks.kernels, "", "durations by kernel name: `matmul=5ms,relu=20us,cutlass_*=1ms`"
    ),
    "module_load": Setting(
        "NVSHARE_SIM_MODULE_LOAD",
        checks.duration,
        "0",
        "time to load a module, during which other calls of its context wait. If it is not 0, a module that is read "
        "from a named pipe loads until the first byte has come",
    ),
    "stale_handles": Setting(
        "NVSHARE_SIM_STALE_HANDLES",
        checks.one_of("refused", "crash"),
        "`refused`",
        "`crash`: a program that uses a destroyed stream, event or context ends, as it may with a real driver",
    ),
    "context_end": Setting(
        "NVSHARE_SIM_CONTEXT_END",
        str,
        "",
        "path of a named pipe: a context that is being destroyed has freed its memory, but exists until a process has "
        "opened the pipe for writing and closed it",
    ),
    "most_events": Setting(
        "NVSHARE_SIM_MOST_EVENTS", str, "any number", "a program that has more events than this at a time ends"
    ),
    "pool_pointers": Setting(
        "NVSHARE_SIM_POOL_POINTERS",
        checks.one_of("device", "managed"),
        "`device`",
        "what a pointer from a managed pool is reported as; drivers may differ",
    ),
    "checkpoint": Setting(
        "NVSHARE_SIM_CHECKPOINT",
        checks.checkpoint,
        "`works`",
        "what does not work of checkpoints: `lock-fails`, `checkpoint-fails`, `restore-fails`, `checkpoint-hangs`, "
        "`restore-hangs`, or `refusal-breaks` (a process with managed or shared memory is unusable after the attempt)",
    ),
    "cuda_version": Setting(
        "NVSHARE_SIM_CUDA_VERSION", str, "13000", "the driver's; checkpoints from 12080, managed pools from 13000 on"
    ),
    "mig": Setting("NVSHARE_SIM_MIG", checks.flag, "0", "1: the cards are MIG instances of one card"),
    "nvml_memory": Setting(
        "NVSHARE_SIM_NVML_MEMORY", checks.flag, "1", "0: NVML answers Not Supported to questions about memory"
    ),
    "nvml_reserved": Setting(
        "NVSHARE_SIM_NVML_RESERVED",
        checks.size,
        "0",
        "memory that the second version of NVML's call reports as reserved",
    ),
    "nvml_link": Setting(
        "NVSHARE_SIM_NVML_LINK",
        checks.link,
        "nearest to `copy_bandwidth`",
        "generation and width of the PCIe link that NVML reports, `3x16`; 0: it answers Not Supported",
    ),
    "nvml_init": Setting(
        "NVSHARE_SIM_NVML_INIT",
        str,
        "",
        "path of a named pipe: NVML does not start until a process has opened the pipe for writing and closed it",
    ),
    "trace": Setting("NVSHARE_SIM_TRACE", checks.flag, "0", "1: write a trace into the directory"),
}


@dataclass(frozen=True)
class SimGpu:
    """A checked set of settings; those not given are left to the simulator's defaults."""

    values: Mapping[str, str] = field(default_factory=dict)

    def with_values(self, **given: object) -> "SimGpu":
        """These settings with others on top; None means "not given"."""
        return replace(self, values={**self.values, **_checked(given)})

    def environment(self, base: Mapping[str, str] | None = None, *, runtime: bool = False) -> dict[str, str]:
        """The environment of a child that finds the simulated libraries.

        `runtime` also preloads the stand-in CUDA runtime, for programs that bring their own (PyTorch's RPATH beats
        LD_LIBRARY_PATH).
        """
        environment = dict(os.environ if base is None else base)
        environment |= {SETTINGS[name].variable: value for name, value in self.values.items()}
        environment["LD_LIBRARY_PATH"] = _prepend(str(library_directory()), environment.get("LD_LIBRARY_PATH"), ":")
        if runtime:
            preload = str(library_directory() / "libcudart.so.12")
            environment["LD_PRELOAD"] = _prepend(preload, environment.get("LD_PRELOAD"), ":")
        return environment


def from_environment(environment: Mapping[str, str]) -> SimGpu:
    """What the environment already says; an empty variable says nothing."""
    given = {name: environment.get(setting.variable) or None for name, setting in SETTINGS.items()}
    return SimGpu().with_values(**given)


def from_file(path: Path) -> SimGpu:
    """The `[simgpu]` table of a TOML file, or the whole file if it has no such table."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SimConfigError(f"{path}: {error}") from error
    table = content.get("simgpu", content)
    if not isinstance(table, dict):
        raise SimConfigError(f"{path}: simgpu is not a table")
    try:
        return SimGpu().with_values(**table)
    except SimConfigError as error:
        raise SimConfigError(f"{path}: {error}") from error


def load(path: Path | None, environment: Mapping[str, str], **given: object) -> SimGpu:
    """Arguments over environment over file, the way every nvshare program takes its settings."""
    base = from_file(path) if path is not None else SimGpu()
    return base.with_values(**from_environment(environment).values).with_values(**given)


def library_directory() -> Path:
    """Where the simulated libcuda.so.1, libnvidia-ml.so.1 and libcudart are; a remedy if they are not built."""
    folder = NATIVE / "sim"
    if not (folder / "libcuda.so.1").exists():
        raise SimConfigError(f"no simulated libraries in {folder}: build them with `make native`")
    return folder


def _checked(given: Mapping[str, object]) -> dict[str, str]:
    values = {}
    for name, value in given.items():
        if name not in SETTINGS:
            raise SimConfigError(f"{name!r} is not a setting; there are {', '.join(sorted(SETTINGS))}")
        if value is None:
            continue
        try:
            values[name] = SETTINGS[name].check(value)
        except SimConfigError as error:
            raise SimConfigError(f"{name} ({SETTINGS[name].variable}): {error}") from error
    return values


def _prepend(first: str, rest: str | None, separator: str) -> str:
    return first if not rest else f"{first}{separator}{rest}"

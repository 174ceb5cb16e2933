"""PyTorch on the simulated GPU (`make torch`): installs it in a venv of its own (several GB) and runs every scenario.

PyTorch brings NVIDIA's runtime, found by RPATH; the stand-in is preloaded under the same soname and takes its place.
The allocator scenarios run once for each of PyTorch's three ways to get memory. Everything runs twice: on the bare
simulated driver, and with libnvshare in between (`--bare` or `--shared` for one of the two).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import kit_frameworks  # noqa: E402  (needs the path above)
import torch_sharing  # noqa: E402  (needs the path above)
from nvshare.simgpu.config import SimGpu, library_directory  # noqa: E402  (the package may not be installed)

VERSION = "2.9.1"  # its PyPI wheel for Linux is +cu128
SCENARIO_TIMEOUT_S = 600
KIT = ("torch", "nccl")
"""Checks of the acceptance kit; the last connects two processes."""
EXPANDABLE, ASYNC = "expandable_segments:True", "backend:cudaMallocAsync"


@dataclass(frozen=True)
class Scenario:
    """A function of torch_scenarios.py, its arguments, PyTorch's allocator, a limit (only with libnvshare), and
    libnvshare's memory mode."""

    name: str
    arguments: tuple[str, ...] = ()
    allocator: str = ""
    limit: str = ""
    mode: str = ""

    def label(self, *, shared: bool) -> str:
        limit = f", limit {self.limit}" if self.limit else ""
        name = " ".join((self.name, *self.arguments))
        return f"{name} [{self.allocator or 'default allocator'}{limit}{', with libnvshare' if shared else ''}]"


SCENARIOS = (
    Scenario("available"),
    Scenario("two_gib"),
    Scenario("round_trip"),
    Scenario("kernels"),
    Scenario("training"),
    Scenario("guide"),
    Scenario("data_loader"),
    Scenario("streams_and_events"),
    Scenario("between_processes", mode="native"),
    Scenario("graphs"),
    Scenario("compiled", ("default", "forward")),
    Scenario("compiled", ("default", "backward")),
    Scenario("compiled", ("reduce-overhead", "forward")),
    Scenario("compiled", ("reduce-overhead", "backward")),
    Scenario("out_of_memory", ("native",)),
    Scenario("two_gib", allocator=EXPANDABLE),
    Scenario("out_of_memory", ("expandable",), EXPANDABLE),
    Scenario("round_trip", allocator=ASYNC),
    Scenario("out_of_memory", ("async",), ASYNC),
    Scenario("limited", ("1",), limit="1Gi"),
    Scenario("limited", ("1",), EXPANDABLE, limit="1Gi"),
    Scenario("limited", ("1",), ASYNC, limit="1Gi"),
    Scenario("limited", ("4",), limit="4Gi"),
)


def prepare(folder: Path) -> Path:
    """The interpreter of a venv that has PyTorch; made on first use."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    test = f"import torch; assert torch.__version__.startswith('{VERSION}')"
    present = subprocess.run([python, "-c", test], capture_output=True, check=False)
    if present.returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "-q", f"torch=={VERSION}", "numpy"], check=True)
    return python


def environment_of(scenario: Scenario, directory: str, *, shared: bool) -> dict[str, str]:
    settings = SimGpu().with_values(directory=directory, gpus=2, memory="16Gi", scale=0.01, compute_capability="8.0")
    environment = settings.environment(dict(os.environ), runtime=True)
    if scenario.allocator:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = scenario.allocator
    if scenario.limit:
        environment["NVSHARE_GPU_MEMORY_LIMIT"] = scenario.limit
    if scenario.mode:
        environment["NVSHARE_MEMORY_MODE"] = scenario.mode
    if shared:  # with no daemon it lets all work through and still counts memory
        environment["LD_PRELOAD"] = f"{library_directory().parent / 'libnvshare.so'}:{environment['LD_PRELOAD']}"
        environment["NVSHARE_SOCKET"] = f"{directory}/none/scheduler.sock"
    return environment


def run(python: Path, scenario: Scenario, *, shared: bool) -> str | None:
    """None if it went well, else what it said."""
    with tempfile.TemporaryDirectory(prefix="nvshare-torch-") as directory:
        environment = environment_of(scenario, directory, shared=shared)
        command: list[str | Path] = [python, ROOT / "tools" / "torch_scenarios.py", scenario.name, *scenario.arguments]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=SCENARIO_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"did not end in {SCENARIO_TIMEOUT_S} s"
    return None if done.returncode == 0 else f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def _report(label: str, problem: str | None, seconds: float) -> int:
    """Prints how it went; 1 if it failed."""
    print(f"{'ok    ' if problem is None else 'FAILED'} {label} ({seconds:.1f} s)", flush=True)
    if problem is not None:
        print(problem, flush=True)
    return int(problem is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / "build" / "torch-venv")
    parser.add_argument("--only", help="run the scenarios of this name")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--bare", dest="modes", action="store_const", const=(False,), default=(False, True))
    modes.add_argument("--shared", dest="modes", action="store_const", const=(True,))
    arguments = parser.parse_args()
    python = prepare(arguments.venv)
    chosen = [
        (scenario, shared)
        for shared in arguments.modes
        for scenario in SCENARIOS
        if arguments.only in (None, scenario.name) and (shared or not scenario.limit)
    ]
    count, failed = len(chosen), 0
    for scenario, shared in chosen:
        begin = time.monotonic()
        problem = run(python, scenario, shared=shared)
        failed += _report(scenario.label(shared=shared), problem, time.monotonic() - begin)
    if True in arguments.modes and arguments.only in (None, "sharing"):
        begin = time.monotonic()
        problem = torch_sharing.check(python)
        failed += _report("sharing [two programs, one card, the daemon]", problem, time.monotonic() - begin)
        count += 1
    for name in KIT if True in arguments.modes else ():
        if arguments.only in (None, f"kit-{name}"):
            begin = time.monotonic()
            failed += _report(
                f"{name} of `nvshare doctor --gpu`", kit_frameworks.check(python, name), time.monotonic() - begin
            )
            count += 1
    print(f"{count - failed} passed, {failed} failed")
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())

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
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from nvshare.simgpu.config import SimGpu, library_directory  # noqa: E402  (the package may not be installed)

VERSION = "2.9.1"  # its PyPI wheel for Linux is +cu128
SCENARIO_TIMEOUT_S = 600
SCENARIOS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("available", (), ""),
    ("two_gib", (), ""),
    ("round_trip", (), ""),
    ("kernels", (), ""),
    ("streams_and_events", (), ""),
    ("graphs", (), ""),
    ("out_of_memory", ("native",), ""),
    ("two_gib", (), "expandable_segments:True"),
    ("out_of_memory", ("expandable",), "expandable_segments:True"),
    ("round_trip", (), "backend:cudaMallocAsync"),
    ("out_of_memory", ("async",), "backend:cudaMallocAsync"),
)


def prepare(folder: Path) -> Path:
    """The interpreter of a venv that has PyTorch; made on first use."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    present = subprocess.run(
        [python, "-c", f"import torch; assert torch.__version__.startswith('{VERSION}')"], check=False
    )
    if present.returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "-q", f"torch=={VERSION}", "numpy"], check=True)
    return python


def run(python: Path, scenario: str, arguments: tuple[str, ...], allocator: str, *, shared: bool) -> str | None:
    """None if it went well, else what it said. `shared` puts libnvshare in; with no daemon it lets all through."""
    with tempfile.TemporaryDirectory(prefix="nvshare-torch-") as directory:
        settings = SimGpu().with_values(
            directory=directory, gpus=2, memory="16Gi", scale=0.01, compute_capability="8.0"
        )
        environment = settings.environment(dict(os.environ), runtime=True)
        if allocator:
            environment["PYTORCH_CUDA_ALLOC_CONF"] = allocator
        if shared:
            environment["LD_PRELOAD"] = f"{library_directory().parent / 'libnvshare.so'}:{environment['LD_PRELOAD']}"
            environment["NVSHARE_SOCKET"] = f"{directory}/no-daemon.sock"
        command: list[str | Path] = [python, ROOT / "tools" / "torch_scenarios.py", scenario, *arguments]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=SCENARIO_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"did not end in {SCENARIO_TIMEOUT_S} s"
    return None if done.returncode == 0 else f"exit {done.returncode}\n{done.stdout}{done.stderr}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / "build" / "torch-venv")
    parser.add_argument("--only", help="run the scenarios of this name")
    modes = parser.add_mutually_exclusive_group()
    modes.add_argument("--bare", dest="modes", action="store_const", const=(False,), default=(False, True))
    modes.add_argument("--shared", dest="modes", action="store_const", const=(True,))
    arguments = parser.parse_args()
    python = prepare(arguments.venv)
    chosen = [(mode, *s) for mode in arguments.modes for s in SCENARIOS if arguments.only in (None, s[0])]
    failed = 0
    for shared, name, extra, allocator in chosen:
        begin = time.monotonic()
        problem = run(python, name, extra, allocator, shared=shared)
        label = f"{name} [{allocator or 'default allocator'}{', with libnvshare' if shared else ''}]"
        print(f"{'ok    ' if problem is None else 'FAILED'} {label} ({time.monotonic() - begin:.1f} s)", flush=True)
        if problem is not None:
            failed += 1
            print(problem, flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())

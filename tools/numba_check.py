"""numba-cuda on the simulated GPU (`make numba`): a real JIT and driver-API client, in a venv of its own (0.8 GB).

numba compiles Python to PTX or a cubin with NVIDIA's own compilers, loads it and launches by cuLaunchKernelEx. The
simulated kernel takes time and computes nothing; copies really move bytes. It runs on the bare driver, and with
libnvshare in between.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import kit_frameworks  # noqa: E402  (needs the path above)
from nvshare.simgpu.config import SimGpu, library_directory  # noqa: E402  (the package may not be installed)
from nvshare.simgpu.trace import read_traces  # noqa: E402  (the same)

PACKAGE = "numba-cuda[cu12]"
LAUNCHES = 4
PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1

assert cuda.is_available()
host = np.arange(100_000, dtype=np.float32)
device = cuda.to_device(host)
add_one[(host.size + 255) // 256, 256](device)
cuda.synchronize()
assert np.array_equal(device.copy_to_host(), host)  # moved there and back; the kernel itself computes nothing

stream = cuda.stream()
with stream.auto_synchronize():
    other = cuda.to_device(host * 2, stream=stream)
    add_one[1, 32, stream](other)
assert np.array_equal(other.copy_to_host(), host * 2)

managed = cuda.managed_array(1000, dtype=np.int32)
managed[:] = 7
add_one[4, 256](managed)
cuda.synchronize()
assert int(managed.sum()) == 7000

start, stop = cuda.event(), cuda.event()
start.record(); add_one[1, 32](device); stop.record(); stop.synchronize()
assert cuda.event_elapsed_time(start, stop) >= 0
free, total = cuda.current_context().get_memory_info()
assert total == 16 << 30 and free < total
try:
    cuda.device_array(20 << 30, dtype=np.uint8)
except Exception as error:
    assert "OUT_OF_MEMORY" in str(error), error
else:
    raise AssertionError("20 GiB fitted on a card of 16 GiB")
print("numba fine")
"""


def prepare(folder: Path) -> Path:
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    if subprocess.run([python, "-c", "import numba_cuda"], capture_output=True, check=False).returncode != 0:
        subprocess.run([python, "-m", "pip", "install", "-q", PACKAGE], check=True)
    return python


def run(python: Path, *, shared: bool) -> bool:
    with tempfile.TemporaryDirectory(prefix="nvshare-numba-") as directory:
        settings = SimGpu().with_values(directory=directory, gpus=1, memory="16Gi", scale=0.01, trace=1)
        environment = settings.environment(dict(os.environ))
        if shared:
            environment["LD_PRELOAD"] = str(library_directory().parent / "libnvshare.so")
            environment["NVSHARE_SOCKET"] = f"{directory}/none/scheduler.sock"
        done = subprocess.run([python, "-W", "ignore", "-c", PROGRAM], env=environment, check=False)
        kernels = [kernel.name for trace in read_traces(Path(directory)) for kernel in trace.kernels()]
    good = done.returncode == 0 and sum("add_one" in name for name in kernels) == LAUNCHES
    label = "numba, with libnvshare" if shared else "numba"
    print(f"{'ok    ' if good else 'FAILED'} {label}: {len(kernels)} kernels in the trace")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--venv", type=Path, default=ROOT / "build" / "numba-venv")
    python = prepare(parser.parse_args().venv)
    good = [run(python, shared=shared) for shared in (False, True)]
    problem = kit_frameworks.check(python, "numba")
    print(f"{'ok    ' if problem is None else 'FAILED'} numba of `nvshare doctor --gpu`")
    if problem is not None:
        print(problem)
    good.append(problem is None)
    print(f"{good.count(True)} passed, {good.count(False)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

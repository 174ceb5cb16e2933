"""Two PyTorch programs of 10 GiB on one simulated card of 16 GiB: the whole product, with the trace as the judge.

Without nvshare the second one is refused its memory. With the daemon and the library both run, in turns: no kernel of
one ever overlaps a kernel of the other.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nvshare.simgpu.config import SimGpu, library_directory
from nvshare.simgpu.trace import overlaps, read_traces

ROOT = Path(__file__).resolve().parent.parent
EACH_GIB, SECONDS, QUANTUM_S = "10", "9", "1"
START_S, END_S = 30, 120


def check(python: Path) -> str | None:
    """None if all is as it should be, else what is not."""
    with tempfile.TemporaryDirectory(prefix="nvshare-torch-") as directory:
        refused = [code for code, said in _bare(python, Path(directory)) if code != 0 and "OutOfMemoryError" in said]
        if len(refused) != 1:
            return f"without nvshare {len(refused)} of two programs were refused their memory, not one"
    with tempfile.TemporaryDirectory(prefix="nvshare-torch-") as directory:
        return _shared(python, Path(directory))


def _settings(directory: Path) -> SimGpu:
    return SimGpu().with_values(directory=str(directory), gpus=1, memory="16Gi", scale=0.1, kernel_us=2000, trace=1)


def _programs(python: Path, environment: dict[str, str]) -> list[tuple[int, str]]:
    """Exit codes and words of two programs that ran at the same time."""
    command = [str(python), str(ROOT / "tools" / "torch_scenarios.py"), "working", EACH_GIB, SECONDS]
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    said = [program.communicate(timeout=END_S)[0] for program in both]
    return [(program.returncode, words) for program, words in zip(both, said, strict=True)]


def _bare(python: Path, directory: Path) -> list[tuple[int, str]]:
    return _programs(python, _settings(directory).environment(dict(os.environ), runtime=True))


def _shared(python: Path, directory: Path) -> str | None:
    socket = directory / "scheduler.sock"
    environment = _settings(directory).environment({**os.environ, "PYTHONPATH": str(ROOT / "src")})
    where: list[str | Path] = ["--socket", socket, "--operator-socket", directory / "operator" / "control.sock"]
    how = ["--kubernetes", "off", "--switch-time-mode", "fixed", "--switch-time-fixed", QUANTUM_S]
    daemon = subprocess.Popen(
        [sys.executable, "-m", "nvshare.scheduler.main", *where, *how],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        begin = time.monotonic()
        while not socket.exists():
            if time.monotonic() - begin > START_S or daemon.poll() is not None:
                return "the scheduler did not start"
            time.sleep(0.05)
        libraries = f"{library_directory().parent / 'libnvshare.so'}:{library_directory() / 'libcudart.so.12'}"
        done = _programs(python, environment | {"LD_PRELOAD": libraries, "NVSHARE_SOCKET": str(socket)})
    finally:
        daemon.terminate()
        daemon.wait(END_S)
    failed = [words for code, words in done if code != 0]
    return "".join(failed) if failed else _judge(directory)


def _judge(directory: Path) -> str | None:
    traces = [trace for trace in read_traces(directory) if trace.kernels()]
    if len(traces) != 2:
        return f"{len(traces)} programs launched kernels, not two"
    if any(trace.dropped for trace in traces):
        return "the trace is not complete"
    together = overlaps(traces)
    return f"kernels of the two ran at the same time {len(together)} times, first {together[0]}" if together else None

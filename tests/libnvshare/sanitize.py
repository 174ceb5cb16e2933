"""The library's tests in sanitizer builds: ThreadSanitizer, and AddressSanitizer with UndefinedBehaviorSanitizer.

python tests/libnvshare/sanitize.py [thread] [address,undefined] [test_memory.py ...]

Without names of files: those that are listed here.
"""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OPTIONS = {
    "thread": {"TSAN_OPTIONS": f"die_after_fork=0:suppressions={HERE / 'tsan.supp'}"},
    "address,undefined": {
        "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    },
}
# A program that is not instrumented cannot load a sanitizer's runtime late.
NOT_OURS = "not without_cuda and not at_a_fixed_address and not python"
# ThreadSanitizer's runtime takes locks in instrumented code: a thread that is cancelled there leaves them held.
LEFT_OUT = {"thread": f"{NOT_OURS} and not asynchronous", "address,undefined": NOT_OURS}
TESTS = [
    "test_turns.py",
    "test_memory.py",
    "test_lives.py",
    "test_captures.py",
    "test_graph_use.py",
    "test_draining.py",
    "test_busy_driver.py",
    "test_storm.py",
    "test_exit.py",
    "test_cancellation.py",
    "test_managed_pools.py",
    "test_suspended_processes.py",
    "test_live_shrink.py",
    "test_checkpoint.py",
    "test_mover.py",
    "test_nvml.py",
]
UNDER_THREAD_ONLY = [
    "test_keepalive.py",
    "test_joining.py",
    "test_starting_together.py",
    "test_mover_faults.py",
    "test_working_set.py",
    "test_core_limit.py",
    "test_gangs.py",
    "test_gpu_time.py",
    "test_pointers.py",
    "test_native_memory.py",
    "test_charged_memory.py",
    "test_peers.py",
    "test_broken_contexts.py",
    "test_ending_contexts.py",
    "test_moves_in_contexts.py",
    "test_thread_shortage.py",
    "test_collectives.py",
    "test_mig.py",
    "test_signals.py",
]
"""They show how the library's threads work together; for memory they add nothing to TESTS."""


def run(sanitizer: str, files: list[str]) -> int:
    build = ROOT / "native" / ".." / "build" / f"native-{sanitizer.replace(',', '-')}"
    programs = [build / "checks" / path.stem for path in sorted((ROOT / "tests" / "native").glob("lib_*.c"))]
    targets = [
        build / "out" / "libnvshare.so",
        build / "null" / "libcuda.so.1",
        build / "checks" / "lib_client_linked",
        build / "checks" / "simgpu_worker",
        build / "encoder" / "libnvidia-encode.so.1",
        *programs,
    ]
    subprocess.run(["make", "-s", "-C", str(ROOT / "native"), f"SAN={sanitizer}", *map(str, targets)], check=True)
    for program in programs:
        if program.name.startswith("lib_unit_"):
            subprocess.run([program], check=True)
    environment = {**os.environ, "NVSHARE_BUILD": str(build), "NVSHARE_LIBRARY": str(targets[0]), **OPTIONS[sanitizer]}
    tests = [str(HERE / name) for name in files or TESTS + (UNDER_THREAD_ONLY if sanitizer == "thread" else [])]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", LEFT_OUT[sanitizer], *tests], env=environment, check=False
    ).returncode


def main() -> int:
    files = [word for word in sys.argv[1:] if word.endswith(".py")]
    sanitizers = [word for word in sys.argv[1:] if word not in files]
    return max(run(sanitizer, files) for sanitizer in sanitizers or OPTIONS)


if __name__ == "__main__":
    raise SystemExit(main())

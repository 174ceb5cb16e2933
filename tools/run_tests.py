"""All tests that need no cluster and no GPU, on both cores.

    python tools/run_tests.py [pytest arguments]

Tests of the pure parts know no clock and no other process, so they may be slow: they run in the background, in the time
that nobody else uses, core and wire with coverage. The others start real processes and wait for them most of the time;
they run in the foreground meanwhile. What the background said is printed at the end."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
LOG = ROOT / "build" / "pure-tests.log"
COVERED = ["tests/core", "tests/wire"]
PURE = ["tests/client_machine", "tests/model", "tests/schedsim"]


def background(arguments: list[str]) -> int:
    """The tests of the pure parts, one command after the other; 0 if all passed and everything was covered."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # unlike nice 19, it gives way at once
    python = [sys.executable, "-m"]
    commands = [
        [*python, "coverage", "run", "-m", "pytest", "-q", *COVERED, *arguments],
        [*python, "coverage", "report"],
        [*python, "pytest", "-q", *PURE, *arguments],
    ]
    codes = [subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands]
    return max(codes, key=abs)


def foreground(arguments: list[str]) -> int:
    ignored = [f"--ignore={folder}" for folder in COVERED + PURE]
    command = [sys.executable, "-m", "pytest", "-q", *ignored, *arguments]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main(arguments: list[str]) -> int:
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("wb") as log:
        pure = subprocess.Popen([sys.executable, __file__, "--background", *arguments], stdout=log, stderr=log)
    try:
        code = foreground(arguments)
        pure_code = pure.wait()
    finally:
        pure.terminate()
        print(LOG.read_text(errors="replace"), end="")
    return code or pure_code


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(background(words[1:]) if words[:1] == ["--background"] else main(words))

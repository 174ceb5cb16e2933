"""A scheduler with something done to it before it starts, for example a defect put in."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from support.daemon import clean_environment
from support.log import LogReader

PROGRAM = "import sys; from nvshare.scheduler.main import main; {0}; sys.exit(main(sys.argv[1:]))"


def start(place: Path, prelude: str, stderr: Any = subprocess.PIPE, **environment: str) -> subprocess.Popen[bytes]:
    """A scheduler with something done to it first."""
    ways = ["--socket", f"{place}/run/s.sock", "--operator-socket", f"{place}/op/c.sock", "--kubernetes=off"]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(prelude), *ways, "--nvml=off"],
        stderr=stderr,
        env=clean_environment(**environment),
    )


def serve(place: Path, prelude: str, **environment: str) -> tuple[subprocess.Popen[bytes], LogReader]:
    """The same, once it listens, and its log."""
    process = start(place, prelude, **environment)
    assert process.stderr is not None
    log = LogReader(process.stderr)
    log.wait_for("listens at")
    return process, log

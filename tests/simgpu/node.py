"""A simulated node as a value: its settings, and children that run on it."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nvshare.simgpu.config import SimGpu
from nvshare.simgpu.trace import ProcessTrace, read_traces

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 60
# The driver recycles handles and never frees them, on purpose: leaks mean nothing there.
SANITIZER_OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"}


@dataclass(frozen=True)
class Sanitized:
    """The sanitizer build: the libraries, the programs, and how to run one of them on a node."""

    build: Path

    def run(self, node: "Node", program: str) -> None:
        libraries = {"LD_LIBRARY_PATH": str(self.build / "out" / "sim")}
        node.run(self.build / "checks" / program, **libraries, **SANITIZER_OPTIONS)


@dataclass(frozen=True)
class Node:
    """The settings of one simulated node."""

    settings: SimGpu

    @property
    def directory(self) -> Path:
        return Path(self.settings.values["directory"])

    def environment(self, **more: str) -> dict[str, str]:
        """The child's; `more` has the last word, even over the node's own settings."""
        return self.settings.environment({**os.environ, "PYTHONPATH": str(ROOT / "src")}) | more

    def start(self, *command: str | Path, **more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [str(part) for part in command],
            env=self.environment(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str | Path, **more: str) -> str:
        """What the command printed; a failure shows everything it said."""
        child = self.start(*command, **more)
        try:
            out, err = child.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            raise AssertionError(f"{command} did not end in {TIMEOUT_S} s\n{out}\n{err}") from None
        assert child.returncode == 0, f"{command} ended with {child.returncode}\n{out}\n{err}"
        return out

    def python(self, script: str, **more: str) -> str:
        return self.run(sys.executable, "-c", textwrap.dedent(script), **more)

    def start_python(self, script: str, **more: str) -> "subprocess.Popen[str]":
        return self.start(sys.executable, "-c", textwrap.dedent(script), **more)

    def traces(self) -> list[ProcessTrace]:
        return read_traces(self.directory)


MakeNode = Callable[..., Node]

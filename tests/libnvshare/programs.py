"""Starting programs with the library preloaded, and talking to the one that does as it is told."""

import os
import select
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NVSHARE_BUILD", ROOT / "build" / "native"))
CHECKS = BUILD / "checks"
NULL_DRIVER = BUILD / "null"
LIBRARY = Path(os.environ.get("NVSHARE_LIBRARY", ROOT / "src" / "nvshare" / "_native" / "libnvshare.so"))
OUT_OF_MEMORY = 2
MIB = 1 << 20
GIB = 1 << 30
REPORTS = ("ThreadSanitizer", "AddressSanitizer", "runtime error:")


class Program:
    """A process under the library. Its stderr is in a file, so that nothing it says can block it."""

    def __init__(self, command: list[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, bufsize=0
            )
        self.heard = b""

    def say(self, line: str) -> None:
        """A command, without waiting for its answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    def hear(self, seconds: float) -> bool:
        """True if a line of output is there within the time."""
        assert self.process.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self.heard:
            if not select.select([self.process.stdout], [], [], max(0.0, end - time.monotonic()))[0]:
                return False
            data = os.read(self.process.stdout.fileno(), 65536)
            assert data, f"the program ended with {self.process.wait()}; stderr: {self.said()}"
            self.heard += data
        return True

    def answer(self, timeout: float = 20.0) -> list[str]:
        """The next line of output as words."""
        assert self.hear(timeout), f"no answer in {timeout} s; stderr: {self.said()}"
        line, _, self.heard = self.heard.partition(b"\n")
        return line.decode().split()

    def ask(self, line: str, timeout: float = 20.0) -> list[str]:
        self.say(line)
        return self.answer(timeout)

    def do(self, line: str, timeout: float = 20.0) -> list[str]:
        """A command that must succeed; its values."""
        result, *values = self.ask(line, timeout)
        assert result == "0", f"{line}: result {result} {values}; stderr: {self.said()}"
        return values

    def is_silent(self, seconds: float) -> bool:
        """True if no answer comes within the time."""
        return not self.hear(seconds)

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def finish(self, code: int = 0, timeout: float = 20.0) -> None:
        """Ends it in good order."""
        self.say(f"exit {code}")
        assert self.process.wait(timeout) == code, self.said()


class Programs:
    """Everything a test starts; killed at its end."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self.environment = {**os.environ, **environment, "LD_PRELOAD": str(LIBRARY)}
        self.started: list[Program] = []

    def start(self, *command: str | Path, **environment: str) -> Program:
        log = self.directory / f"stderr-{len(self.started)}"
        words = [str(word) for word in command] or [str(CHECKS / "lib_client"), "dlsym"]
        self.started.append(Program(words, {**self.environment, **environment}, log))
        return self.started[-1]

    def run(self, *command: str | Path, timeout: float = 60.0, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(word) for word in command],
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self.started:
            program.process.kill()
            program.process.wait()
        for program in self.started:  # in a sanitizer build
            assert not any(word in program.said() for word in REPORTS), program.said()


def wait_until(condition: object, timeout: float = 10.0, what: str = "it") -> None:
    """Polls for what cannot be awaited: another process's file or log line."""
    assert callable(condition)
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {timeout} s"
        time.sleep(0.005)

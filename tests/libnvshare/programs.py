"""Starting programs with the library preloaded, and talking to the one that does as it is told."""

import os
import platform
import re
import select
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NVSHARE_BUILD", ROOT / "build" / "native"))
CHECKS = BUILD / "checks"
NULL_DRIVER = BUILD / "null"
LIBRARY = Path(os.environ.get("NVSHARE_LIBRARY", ROOT / "src" / "nvshare" / "_native" / "libnvshare.so"))
NOT_INSTALLED = "/nonexistent/scheduler.sock"
"""A socket in a directory that does not exist: nobody waits for a scheduler there."""
OUT_OF_MEMORY = 2
MIB = 1 << 20
GIB = 1 << 30
FUTEX = {"x86_64": 202, "aarch64": 98}[platform.machine()]  # the number of the system call
REPORTS = ("ThreadSanitizer", "AddressSanitizer", "runtime error:")


def _name_of_thread(directory: Path) -> str:
    try:
        return (directory / "comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # It has ended meanwhile.


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

    def answer(self, timeout: float = 60) -> list[str]:
        """The next line of output as words."""
        assert self.hear(timeout), f"no answer in {timeout} s; stderr: {self.said()}"
        line, _, self.heard = self.heard.partition(b"\n")
        return line.decode().split()

    def ask(self, line: str, timeout: float = 60) -> list[str]:
        self.say(line)
        return self.answer(timeout)

    def do(self, line: str, timeout: float = 60) -> list[str]:
        """A command that must succeed; its values."""
        result, *values = self.ask(line, timeout)
        assert result == "0", f"{line}: result {result} {values}; stderr: {self.said()}"
        return values

    def waits(self, timeout: float = 60) -> bool:
        """True once its first thread sleeps in a futex, as at the gate; False if it answers instead."""
        syscall = Path(f"/proc/{self.process.pid}/syscall")
        is_futex = re.compile(rf"{FUTEX} ").match
        wait_until(lambda: self.hear(0) or is_futex(syscall.read_text()), "it waits or answers", timeout)
        return not self.hear(0)

    def has_thread(self, name: str) -> bool:
        return name in map(_name_of_thread, Path(f"/proc/{self.process.pid}/task").iterdir())

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def finish(self, code: int = 0, timeout: float = 60) -> None:
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

    def run_until(
        self, is_enough: Callable[[], bool], *command: str | Path, timeout: float = 60.0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program that goes on until its input ends, which is when it is enough."""
        process = subprocess.Popen(
            [str(word) for word in command],
            env={**self.environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            wait_until(lambda: is_enough() or process.poll() is not None, f"enough of {command}", timeout)
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
            process.wait()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in self.started:
            program.process.kill()
            program.process.wait()
        for program in self.started:  # in a sanitizer build
            assert not any(word in program.said() for word in REPORTS), program.said()

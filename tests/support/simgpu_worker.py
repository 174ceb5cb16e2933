"""Talks to tests/native/simgpu_worker.c: programs on a simulated card that do what they are told."""

import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

GIB = 1 << 30
MIB = 1 << 20


class Worker:
    """One process on the card. As a context manager it ends when the block does."""

    def __init__(self, node: Any, checks: Path, *prefix: str, **environment: str) -> None:
        self.process: subprocess.Popen[str] = node.start(*prefix, checks / "simgpu_worker", **environment)
        assert self.answer() == "ready"

    def answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the worker died: {self.process.stderr and self.process.stderr.read()}"
        return line.rstrip("\n")

    def tell(self, command: str) -> None:
        assert self.process.stdin is not None
        print(command, file=self.process.stdin, flush=True)

    def ask(self, command: str) -> str:
        self.tell(command)
        return self.answer()

    def simulated_s(self, command: str) -> float:
        return float(self.ask(command)) / 1e3

    def used(self) -> int:
        free, total = map(int, self.ask("info").split())
        return total - free

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.communicate()

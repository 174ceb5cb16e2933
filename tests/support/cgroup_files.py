"""The files of a cgroup, as the kernel shows them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nvshare.core.model import MIB
from nvshare.scheduler.sources.cgroup_memory import memory_cgroup


def write_v2(directory: Path, *, limit: int | None, current: int, kernel: int = 0, cache: int = 0) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "memory.max").write_text(f"{'max' if limit is None else limit}\n")
    (directory / "memory.current").write_text(f"{current}\n")
    (directory / "memory.stat").write_text(f"anon 1\nfile {cache}\nkernel {kernel}\ninactive_file {cache}\n")


class HostLimit:
    """The memory limit of the cgroup in which this process and its children are."""

    USED = 100 * MIB

    def __init__(self, root: Path) -> None:
        self.root = root
        found = memory_cgroup(Path("/proc/self/cgroup").read_text())
        if found is None or ".." in found[1]:
            pytest.skip("this machine does not count memory by cgroups")
        self._is_v2, self._path = found
        self._directory = (root if self._is_v2 else root / "memory") / self._path.strip("/")
        self._directory.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def of_its_own(self, name: str) -> Iterator["OwnHostLimit"]:
        """A cgroup below this one, for programs that have a limit of their own."""
        real = Path(
            "/sys/fs/cgroup", *(() if self._is_v2 else ("memory",)), self._path.strip("/"), f"{name}-{os.getpid()}"
        )
        try:
            real.mkdir()
        except OSError:
            pytest.skip("this user may not make cgroups")
        try:
            yield OwnHostLimit(self, real)
        finally:
            real.rmdir()

    def set(self, limit: int) -> None:
        names = ("memory.max", "memory.current") if self._is_v2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
        texts = {
            names[1]: str(self.USED),
            "memory.kmem.usage_in_bytes": "0",
            "memory.stat": "kernel 0\ninactive_file 0\ntotal_inactive_file 0\n",
            names[0]: str(limit),
        }
        for name, text in texts.items():
            (self._directory / name).write_text(text)


class OwnHostLimit(HostLimit):
    """The memory limit of a cgroup that exists for one test: its files are those of the test. Its processes must have
    ended before the test has."""

    def __init__(self, above: HostLimit, real: Path) -> None:
        self.root, self._is_v2 = above.root, above._is_v2
        self._real, self._directory = real, above._directory / real.name
        self._directory.mkdir()

    def add(self, pid: int) -> None:
        (self._real / "cgroup.procs").write_text(str(pid))

"""How much evicted GPU memory a cgroup can take, from the files of cgroup v1 and v2.

    room = limit - usage + file cache that can be dropped + kernel memory

The pages of evicted GPU memory are kernel memory of the cgroup of the process that owns them. So kernel memory is not
subtracted: memory that is already on the host needs no more room, and the figure is the same before and after an
eviction. Other kernel memory (stacks, slabs) is small; MARGIN covers it.

cgroup v2 shows kernel memory since Linux 5.18. On earlier kernels it is usage - memory of programs, files and sockets.
If these are not shown either, kernel memory counts as 0: evicted memory then seems to need its room twice, and clients
wait longer than necessary, but no process is killed."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

from nvshare.core.model import MIB
from nvshare.record import Record

MARGIN = 128 * MIB
_UNLIMITED_V1 = 1 << 62
"""cgroup v1 shows no limit as the largest number of whole pages."""
_MAX_LEVELS = 32


class Cgroup(Record, frozen=True):
    """The memory of one cgroup, in bytes. `limit`: None if it has none."""

    path: str
    limit: int | None
    usage: int
    kernel: int
    is_estimated: bool = False
    """The kernel does not show `kernel`."""

    @property
    def room(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.usage + self.kernel - MARGIN)


def memory_cgroup(cgroups: str) -> tuple[bool, str] | None:
    """Of the text of /proc/PID/cgroup: whether memory is counted by v2, and the path; v1 counts if it is mounted."""
    found: tuple[bool, str] | None = None
    for line in cgroups.split("\n"):  # splitlines() also splits at characters that a cgroup's name may hold
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and "memory" in controllers.split(","):
            return False, path
        if colon and not controllers:
            found = True, path
    return found


def read_cgroup(directory: Path, is_v2: bool) -> Cgroup | None:
    """One cgroup; None if it cannot be read."""
    try:
        if is_v2:
            limit_text, usage = _text(directory / "memory.max"), int(_text(directory / "memory.current"))
            stat = _stat(_text(directory / "memory.stat"))
            is_estimated, cache = "kernel" not in stat, stat["inactive_file"]
            kernel = _kernel_memory(stat, usage) if is_estimated else stat["kernel"]
        else:
            limit_text, usage = (
                _text(directory / "memory.limit_in_bytes"),
                int(_text(directory / "memory.usage_in_bytes")),
            )
            is_estimated, kernel = False, int(_text(directory / "memory.kmem.usage_in_bytes"))
            cache = _stat(_text(directory / "memory.stat"))["total_inactive_file"]
        limit = None if limit_text == "max" or int(limit_text) >= _UNLIMITED_V1 else int(limit_text)
    except (OSError, ValueError, KeyError):
        return None
    return Cgroup(str(directory), limit, max(0, usage - cache), kernel, is_estimated)


def _kernel_memory(stat: dict[str, int], usage: int) -> int:
    others = [stat.get(name) for name in ("anon", "file", "sock")]
    return max(0, usage - sum(one or 0 for one in others)) if None not in others else 0


def levels(
    root: Path,
    cgroups: str,
    own: Callable[[Path], list[str]],
    read: Callable[[Path, bool], Cgroup | None] = read_cgroup,
) -> list[Cgroup]:
    """The cgroup of a process and those above it, as far as they can be read; empty if they cannot.

    Seen from a cgroup namespace, a path outside of it begins with `/..`: `own` says where in the hierarchy that is."""
    named = memory_cgroup(cgroups)
    if named is None:
        return []
    is_v2, path = named
    base = root if is_v2 else root / "memory"
    parts = _below([part for part in path.split("/") if part], base, own)
    found = []
    for count in range(min(len(parts), _MAX_LEVELS), -1, -1):
        one = read(base.joinpath(*parts[:count]), is_v2)
        if one is not None:
            found.append(one)
    return found


def _below(parts: list[str], base: Path, own: Callable[[Path], list[str]]) -> list[str]:
    up = next((count for count, part in enumerate(parts) if part != ".."), len(parts))
    if not up:
        return parts
    above = own(base)
    return [*above[: len(above) - up], *parts[up:]] if up <= len(above) else []


def own_parts(base: Path, pid: int) -> list[str]:
    """Where this process is in a hierarchy, by looking for it; the kernel does not tell a process in a namespace."""
    for directory, below, files in os.walk(base):
        if "cgroup.procs" in files:
            with contextlib.suppress(OSError):
                if str(pid) in Path(directory, "cgroup.procs").read_text().split():
                    return list(Path(directory).relative_to(base).parts)
        below.sort()
    return []


def available_memory(meminfo: str) -> int | None:
    """MemAvailable of /proc/meminfo in bytes."""
    for line in meminfo.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name == "MemAvailable" and words and words[0].isdecimal():
            return int(words[0]) << 10
    return None


def _text(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()


def _stat(text: str) -> dict[str, int]:
    words = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2}

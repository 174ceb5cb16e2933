"""What can be seen of a process from outside."""

from pathlib import Path

_LIBRARY = b"libnvshare"


def proc_text(path: Path) -> str:
    """The text of a file in /proc. Names of processes and cgroups may hold any bytes."""
    return path.read_bytes().decode("utf-8", "replace")


def start_of(process: Path) -> int:
    """When a process (/proc/PID) started, in clock ticks since the boot. OSError if it has ended."""
    return int(proc_text(process / "stat").rpartition(")")[2].split()[19])


def loads_library(process: Path) -> bool:
    """Whether libnvshare is in this process (/proc/PID). OSError if it has ended or may not be read."""
    return _LIBRARY in (process / "maps").read_bytes()

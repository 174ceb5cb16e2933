"""What can be seen of a process on a GPU from outside."""

from pathlib import Path

_LIBRARY = b"libnvshare"


def loads_library(process: Path) -> bool:
    """Whether libnvshare is in this process (/proc/PID). OSError if it has ended or may not be read."""
    return _LIBRARY in (process / "maps").read_bytes()

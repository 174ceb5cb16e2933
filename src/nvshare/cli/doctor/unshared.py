"""What doctor says of programs that use a GPU and are no clients of the scheduler."""

import os
from collections.abc import Iterator
from pathlib import Path

from nvshare.cli.ctl.render import gpu_short
from nvshare.cli.doctor.finding import Finding
from nvshare.config import DEFAULT_SOCKET, SOCKET_VARIABLE
from nvshare.core.snapshots.snapshot import Snapshot
from nvshare.inventory.processes import loads_library, proc_text
from nvshare.printable import printable


def check_unshared(node: Snapshot, socket: str, root: Path = Path("/")) -> Iterator[Finding]:
    """Each program that NVML lists and the scheduler at `socket` does not know, with the reason if it can be seen."""
    for gpu in node.gpus:
        for pid in gpu.foreign_pids:
            process = root / "proc" / str(pid)
            yield Finding(
                "warn",
                f"GPU {gpu_short(gpu)}: process {pid}{_name(process)} uses it without turns and limits",
                _remedy(process, socket),
            )


def _name(process: Path) -> str:
    try:
        return f" ({printable(proc_text(process / 'comm').strip())})"
    except OSError:
        return ""


def _remedy(process: Path, socket: str) -> str:
    try:
        has_library = loads_library(process)
        words = [word.partition(b"=") for word in (process / "environ").read_bytes().split(b"\0")]
    except OSError:
        return "if it should share, start it with `nvshare run`"
    if not has_library:
        return "it does not load the library; if it should share, start it with `nvshare run`"
    environment = {name: value for name, _, value in words}
    if environment.get(b"NVSHARE_DISABLE", b"0") not in (b"", b"0"):
        return "it has NVSHARE_DISABLE; if it should share, start it without"
    used = os.fsdecode(environment.get(SOCKET_VARIABLE.encode(), DEFAULT_SOCKET.encode()))
    if os.path.realpath(used) != os.path.realpath(socket):  # /var/run is a link to /run
        return f"it uses another scheduler, at {printable(used)}; programs that share a GPU must use the same one"
    return "it loads the library and is not connected: see its standard error, and the scheduler's log"

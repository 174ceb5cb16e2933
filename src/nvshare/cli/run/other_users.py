"""Warns of other users' programs on the GPUs: a private scheduler does not know them."""

import os
import pwd
import sys
from pathlib import Path

from nvshare.inventory.nvml import GpuLostError, Nvml, NvmlUnavailableError
from nvshare.inventory.processes import proc_text
from nvshare.printable import printable


def warn_of_strangers() -> None:
    """One line if programs of other users are on a GPU; nothing if there is no NVML."""
    found = strangers()
    if found:
        names = ", ".join(f"{name} (pid {pid}, user {user})" for pid, user, name in found[:3])
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        sys.stderr.write(
            f"nvshare: warning: other users' programs are on the GPU: {names}{more}; a private scheduler does not take"
            " turns with them; install a scheduler for the whole machine\n"
        )


def strangers() -> list[tuple[int, str, str]]:
    """pid, user and name of each program of another user that NVML sees."""
    try:
        with Nvml() as nvml:
            pids = {pid for gpu in nvml.discover() for pid in nvml.sample(gpu.uuid).processes}
    except (NvmlUnavailableError, GpuLostError):
        return []
    found = []
    for pid in sorted(pids):
        try:
            uid = Path(f"/proc/{pid}").stat().st_uid
            name = proc_text(Path(f"/proc/{pid}/comm")).strip()
        except OSError:
            continue  # It has ended, or is in a PID namespace that is not visible here.
        if uid != os.geteuid():
            found.append((pid, _user(uid), printable(name)))
    return found


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)

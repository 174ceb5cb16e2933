"""Makes a simulated card report an error."""

import ctypes
import os
import threading
from pathlib import Path

from nvshare.simgpu.config import library_directory

RECOVERED = 0  # the code that ends the need for a reset
_environment_is_ours = threading.Lock()


class InjectionError(RuntimeError):
    """The simulated node is not there, or has no such card."""


def inject_xid(uuid: str, code: int, *, directory: Path | None = None) -> None:
    """Every NVML event set that waits for errors of the card gets XID `code`.

    Codes that call for a reset (79, "fallen off the bus", is one) also set the card's recovery action, until
    `RECOVERED` is injected. `directory` is the simulated node's; without it, the one this process' environment names.
    """
    library = ctypes.CDLL(str(library_directory() / "libnvidia-ml.so.1"))
    library.nvshareSimInjectXid.argtypes = [ctypes.c_char_p, ctypes.c_ulonglong]
    library.nvmlErrorString.restype = ctypes.c_char_p
    with _environment_is_ours:
        before = os.environ.get("NVSHARE_SIM_DIR")
        if directory is not None:
            os.environ["NVSHARE_SIM_DIR"] = str(directory)
        try:
            result = library.nvshareSimInjectXid(uuid.encode(), code)
        finally:
            if directory is not None:
                os.environ.pop("NVSHARE_SIM_DIR")
                if before is not None:
                    os.environ["NVSHARE_SIM_DIR"] = before
    if result != 0:
        raise InjectionError(f"XID {code} on {uuid}: {library.nvmlErrorString(result).decode()}")

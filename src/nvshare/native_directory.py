"""Where the compiled parts of this installation are: the library, the simulated GPU, the demonstration programs."""

from pathlib import Path

NATIVE = Path(__file__).resolve().parent / "_native"
LIBRARY = "libnvshare.so"
CONTAINER_DIRECTORY = Path("/usr/lib/nvshare")
"""Where the library is inside a container, and where a package of the system may put it."""

"""An addition to memory that other processes change at the same time. Python has none, so a C compiler makes it."""

import ctypes
import subprocess
from pathlib import Path

SOURCE = """#include <stdint.h>
void add(int64_t *sum, int64_t change) { __atomic_fetch_add(sum, change, __ATOMIC_SEQ_CST); }
"""


def atomic_add(place: Path, address: int, change: int) -> None:
    """`place` keeps the compiled function."""
    library = place / "adder.so"
    if not library.exists():
        source = place / "adder.c"
        source.write_text(SOURCE)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    add = ctypes.CDLL(str(library)).add
    add.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    add(address, change)

"""Where the C parts are: beside the Python ones, or where a package or a pod's mount puts them."""

import os
from pathlib import Path

from nvshare.cli.failure import EXIT_OURS, FrontError

NATIVE = Path(__file__).resolve().parent.parent / "_native"
MOUNTED = Path("/usr/lib/nvshare")
LIBRARY_VARIABLE = "NVSHARE_LIBRARY"
LIBRARY = "libnvshare.so"


def library() -> Path:
    """The library to preload: as the environment says, the one that came with this package, or the system's."""
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return _usable(Path(named).absolute(), f"{LIBRARY_VARIABLE} names {named}, which is not there")
    for folder in (NATIVE, MOUNTED):
        if (folder / LIBRARY).is_file():
            return _usable(folder / LIBRARY, "")
    raise FrontError(
        f"{LIBRARY} is neither in {NATIVE} nor in {MOUNTED}: build it with `make native`, or install the package again",
        EXIT_OURS,
    )


def _usable(path: Path, missing: str) -> Path:
    if not path.is_file():
        raise FrontError(missing, EXIT_OURS)
    if set(str(path)) & set(" :\t\n"):
        # The dynamic linker splits LD_PRELOAD at blanks and colons and knows no quoting.
        raise FrontError(f"{path} cannot be preloaded from a path with blanks or colons; move it", EXIT_OURS)
    return path


def demo_program(name: str) -> Path:
    """One of the CUDA programs that `demo` and `doctor --gpu` run."""
    path = NATIVE / "demo" / name
    if not path.is_file():
        raise FrontError(f"{path} is not there: build it with `make native`, or install the package again")
    return path

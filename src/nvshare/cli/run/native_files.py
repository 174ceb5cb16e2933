"""Finds the compiled files: in this installation, or where a package of the system or a mount puts them."""

import os
from pathlib import Path

from nvshare.cli.errors import EXIT_NVSHARE_FAILED, CommandError
from nvshare.native_directory import CONTAINER_DIRECTORY, LIBRARY, NATIVE

LIBRARY_VARIABLE = "NVSHARE_LIBRARY"


def library() -> Path:
    """The library to preload: from the environment, from this installation, or from the system."""
    named = os.environ.get(LIBRARY_VARIABLE)
    if named:
        return _usable(Path(named).absolute(), f"{LIBRARY_VARIABLE} names {named}, which is not a file")
    for folder in (NATIVE, CONTAINER_DIRECTORY):
        if (folder / LIBRARY).is_file():
            return _usable(folder / LIBRARY, "")
    raise CommandError(
        f"{LIBRARY} is neither in {NATIVE} nor in {CONTAINER_DIRECTORY}: build it with `make native`, or install the"
        " package again",
        EXIT_NVSHARE_FAILED,
    )


def _usable(path: Path, missing: str) -> Path:
    if not path.is_file():
        raise CommandError(missing, EXIT_NVSHARE_FAILED)
    if set(str(path)) & set(" :\t\n"):
        # The dynamic linker splits LD_PRELOAD at blanks and colons, without quoting.
        raise CommandError(
            f"{path} cannot be preloaded from a path with blanks or colons; move it", EXIT_NVSHARE_FAILED
        )
    return path


def demo_program(name: str) -> Path:
    """One of the CUDA programs that `demo` and `doctor --gpu` run."""
    path = NATIVE / "demo" / name
    if not path.is_file():
        raise CommandError(f"{path} does not exist: build it with `make native`, or install the package again")
    return path

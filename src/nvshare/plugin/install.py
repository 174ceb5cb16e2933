"""Installs the library on the host, in the directory that is mounted into containers.

Files are replaced by rename, so that a process that has mapped the old library keeps it. A container that started
before this plugin (after a reboot) made the runtime create missing mount sources as directories: the directory of the
library is then used, a directory in the place of the library file is removed."""

import contextlib
import os
import shutil
import stat
import time
from pathlib import Path

from nvshare.native_directory import CONTAINER_DIRECTORY, LIBRARY
from nvshare.plugin.container import PRELOAD_FILE

_TRIES = 20
_PAUSE_S = 0.02


class HostDirGoneError(RuntimeError):
    """The directory on the host was removed; only a restart of this container mounts it again."""


def install(library: Path, run_dir: Path) -> list[Path]:
    """Write the files that are missing or different; returns their paths. May be repeated."""
    content = library.read_bytes()
    for _ in range(_TRIES):
        if not run_dir.is_dir() or run_dir.stat().st_nlink == 0:
            raise HostDirGoneError(f"{run_dir} was removed from the host; restart this container to mount it again")
        try:
            return _install(content, run_dir / "lib")
        except FileNotFoundError:
            time.sleep(_PAUSE_S)  # the directory is being cleared right now
    raise HostDirGoneError(f"{run_dir} is cleared repeatedly")


def _install(library: bytes, lib: Path) -> list[Path]:
    _make_directory(lib)
    wanted = {lib / LIBRARY: library, lib / PRELOAD_FILE: f"{CONTAINER_DIRECTORY}/{LIBRARY}\n".encode()}
    written = [path for path, content in wanted.items() if not _has(path, content)]
    for path in written:
        _replace(path, wanted[path], 0o755 if path.name == LIBRARY else 0o644)
    return written


def _make_directory(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        path.unlink()
    # Not `exist_ok`: that raises FileExistsError if the directory is removed meanwhile.
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o755)
    if stat.S_IMODE(path.stat().st_mode) != 0o755:
        path.chmod(0o755)  # only if needed: inotify reports a change of the mode, and the caller watches


def _has(path: Path, content: bytes) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == content


def _replace(path: Path, content: bytes, mode: int) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), mode)  # independent of the umask
        os.fsync(file.fileno())
    fresh.rename(path)

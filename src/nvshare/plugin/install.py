"""Puts the library on the host, where containers' mounts find it.

Replaced by rename, so that a process which has the old one mapped keeps it. A container started before us (after a
reboot, say) made the runtime create what was missing as directories: the directory for the library is then just what
we want, a directory in the library's place is taken away."""

import os
import shutil
import stat
import time
from pathlib import Path

from nvshare.plugin.container import CONTAINER_LIBRARY_DIR, LIBRARY, PRELOAD_FILE

_TRIES = 20
_PAUSE_S = 0.02


class HostDirGoneError(RuntimeError):
    """The host's directory was removed under us; only a new mount of it helps, that is, a restart of this container."""


def install(library: Path, run_dir: Path) -> list[Path]:
    """Bring the host's files up to date; the paths that had to be written. Repeating it is free."""
    content = library.read_bytes()
    for _ in range(_TRIES):
        if not run_dir.is_dir() or run_dir.stat().st_nlink == 0:
            raise HostDirGoneError(f"{run_dir} was removed from the host; a restart of this container mounts it anew")
        try:
            return _install(content, run_dir / "lib")
        except FileNotFoundError:
            time.sleep(_PAUSE_S)  # somebody is clearing the directory right now
    raise HostDirGoneError(f"{run_dir} is being cleared again and again")


def _install(library: bytes, lib: Path) -> list[Path]:
    _own_directory(lib)
    wanted = {lib / LIBRARY: library, lib / PRELOAD_FILE: f"{CONTAINER_LIBRARY_DIR}/{LIBRARY}\n".encode()}
    written = [path for path, content in wanted.items() if not _has(path, content)]
    for path in written:
        _replace(path, wanted[path], 0o755 if path.name == LIBRARY else 0o644)
    return written


def _own_directory(path: Path) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        path.unlink()
    path.mkdir(mode=0o755, exist_ok=True)
    if stat.S_IMODE(path.stat().st_mode) != 0o755:
        path.chmod(0o755)  # only then: we watch for changes of just this kind


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
        os.fchmod(file.fileno(), mode)  # whatever the umask was
        os.fsync(file.fileno())
    fresh.rename(path)

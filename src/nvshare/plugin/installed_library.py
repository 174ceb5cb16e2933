"""Keeps the library installed on the host while the program runs."""

import asyncio
import contextlib
import logging
from pathlib import Path

from nvshare.inotify import Inotify
from nvshare.plugin.install import install

log = logging.getLogger(__name__)


class InstalledLibrary:
    """The library in the directory that is mounted into containers."""

    def __init__(self, library: Path, run_dir: Path) -> None:
        self._library = library
        self._run_dir = run_dir
        self._host_changed = asyncio.Event()

    def install(self) -> None:
        """Write what is missing or different. Raises OSError or HostDirGoneError."""
        for path in install(self._library, self._run_dir):
            log.info("Installed %s", path)

    async def keep(self) -> None:
        """Install the library again when the directory is cleared."""
        inotify = Inotify(self._host_changed.set)
        try:
            while True:
                self.install()
                with contextlib.suppress(FileNotFoundError):
                    inotify.watch(self._run_dir)
                    inotify.watch(self._run_dir / "lib")
                    self.install()  # for what was removed before the watch began
                    await self._host_changed.wait()
                self._host_changed.clear()
        finally:
            inotify.close()

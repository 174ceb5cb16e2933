"""Where programs come in: the clients' socket, kept findable.

Somebody may clear its directory, as a careless hand does. A scheduler that nobody finds is of no use, so the directory
is watched and the socket made anew: programs that are connected stay so, newcomers find the new one. A directory that
is gone for good (the source of a mount) is left to a successor, which gets a new one."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from nvshare.config import ConfigError
from nvshare.inotify import Inotify
from nvshare.scheduler.life import Life
from nvshare.scheduler.listener import BACKLOG, Listener
from nvshare.scheduler.log import log

AGAIN_S = 0.05


class Door:
    """Listens at the path until closed, whatever happens to the path."""

    def __init__(self, path: Path, connection: Callable[[], asyncio.BaseProtocol], life: Life) -> None:
        self._path = path
        self._connection = connection
        self._life = life
        self._listener = Listener(path, mode=0o666)
        self._servers: list[asyncio.AbstractServer] = []
        self._inotify: Inotify | None = None
        self._again: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._serve()
        self._watch()

    async def close(self) -> None:
        """Nobody comes in any more; who is in stays."""
        for server in self._servers:
            server.close()
        if self._inotify is not None:
            self._inotify.close()
        if self._again is not None:
            self._again.cancel()
            await asyncio.gather(self._again, return_exceptions=True)
        self._listener.close()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_unix_server(self._connection, sock=self._listener.socket, backlog=BACKLOG)
        self._servers.append(server)

    def _watch(self) -> None:
        directory = self._path.parent
        try:
            self._inotify = self._inotify or Inotify(self._look)
            self._inotify.watch(directory)
        except OSError as error:
            log.warning(f"{directory} cannot be watched ({error.strerror}); if it is cleared, restart the scheduler")

    def _look(self) -> None:
        is_at_it = self._again is not None and not self._again.done()
        if self._listener.is_ours() or self._life.is_ending or is_at_it:
            return
        if self._listener.is_nowhere():
            self._life.fail(f"The directory of {self._path} was removed: ending, so that a successor makes it anew")
            return
        self._again = asyncio.get_running_loop().create_task(self._listen_again())

    async def _listen_again(self) -> None:
        while not self._listener.is_ours():
            try:
                self._listener = Listener(self._path, mode=0o666)
                await self._serve()
            except (ConfigError, OSError):
                await asyncio.sleep(AGAIN_S)  # it is being cleared right now
                continue
            self._watch()  # the directory may be another
            log.warning(f"{self._path} was removed, and made anew")

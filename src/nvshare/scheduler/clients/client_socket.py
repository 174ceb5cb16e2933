"""The socket where clients connect. It is created again if it is removed.

The directory is watched: if the socket is removed, a new one is created. Connected programs stay connected, new ones
find the new socket. If the directory itself was removed (for example the source of a mount), the scheduler ends, and
the next one gets a new directory. Steps that fail are tried again."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

from nvshare.config import ConfigError
from nvshare.inotify import Inotify
from nvshare.scheduler.back_off import BackOff
from nvshare.scheduler.listening_socket import BACKLOG, ListeningSocket
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.passed_descriptors import guarded_from_descriptors
from nvshare.scheduler.shutdown import Shutdown

RETRY_S = 0.05
TOLD_AFTER = 10
"""Failures before the log tells it: the first ones are usual while a directory is being removed."""


class ClientSocket:
    """Listens at the path until it is closed, even if the path is removed meanwhile."""

    def __init__(self, path: Path, connection: Callable[[], asyncio.BufferedProtocol], shutdown: Shutdown) -> None:
        self._path = path
        self._connection = connection
        self._shutdown = shutdown
        self._listening = ListeningSocket(path, mode=0o666)
        self._servers: list[asyncio.AbstractServer] = []
        self._inotify: Inotify | None = None
        self._recreation: asyncio.Task[None] | None = None

    async def open(self) -> None:
        await self._serve(self._listening)
        self._watch()

    async def close(self) -> None:
        """Accept no more connections; open ones stay."""
        for server in self._servers:
            server.close()
        if self._inotify is not None:
            self._inotify.close()
        if self._recreation is not None:
            self._recreation.cancel()
            await asyncio.gather(self._recreation, return_exceptions=True)
        self._listening.close()

    async def _serve(self, listening: ListeningSocket) -> None:
        loop = asyncio.get_running_loop()
        make = self._connection if listening.refuses_descriptors else guarded_from_descriptors(self._connection)
        server = await loop.create_unix_server(_contained(make), sock=listening.socket, backlog=BACKLOG)
        self._servers.append(server)

    def _watch(self) -> None:
        directory = self._path.parent
        try:
            self._inotify = self._inotify or Inotify(self._shutdown.retried(self._directory_changed))
            self._inotify.watch(directory)
        except OSError as error:
            log.warning(
                f"{directory} cannot be watched ({error.strerror}); if the socket is removed, restart the scheduler"
            )

    def _directory_changed(self) -> None:
        is_being_recreated = self._recreation is not None and not self._recreation.done()
        if self._listening.is_at_path() or self._shutdown.is_requested or is_being_recreated:
            return
        self._recreation = asyncio.get_running_loop().create_task(self._recreate())

    async def _recreate(self) -> None:
        back_off = BackOff()
        failures = 0
        while not self._listening.is_at_path():
            try:
                await self._listen_again()
            except (ConfigError, OSError) as error:
                failures += 1
                if failures == TOLD_AFTER:
                    log.warning(f"{self._path} was removed and cannot be created again yet: {error}")
                await asyncio.sleep(RETRY_S)  # the directory is being removed right now, or it is lost for good
                if self._listening.has_lost_directory():
                    self._shutdown.fail(
                        f"The directory of {self._path} was removed: ending, so that the next start makes it"
                    )
                    return
            except Exception as error:
                wait_s = back_off.failed()
                log.bug("task", f"kept {self._path} from being created; it is tried again in {wait_s:g} s", error)
                await asyncio.sleep(wait_s)
        self._watch()  # the directory may be a new one
        log.warning(f"{self._path} was removed and has been created again")

    async def _listen_again(self) -> None:
        listening = ListeningSocket(self._path, mode=0o666)
        try:
            await self._serve(listening)
        except Exception:
            listening.close()
            raise
        self._listening = listening


class _Closed(asyncio.Protocol):
    """A connection that cannot be served."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()


def _contained(make: Callable[[], asyncio.BaseProtocol]) -> Callable[[], asyncio.BaseProtocol]:
    """The event loop stops listening if an exception comes from here."""

    def made() -> asyncio.BaseProtocol:
        try:
            return make()
        except Exception as error:
            log.bug("client", "refused one client's connection", error)
            return _Closed()

    return made

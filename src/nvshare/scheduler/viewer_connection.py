"""Connections of viewers (HTTP) and operators: a failure on one connection ends only that connection.

A peer may close at any time, with data unread. Writing to a closed transport raises RuntimeError under uvloop, which is
not a ConnectionError. A page may have a bug. None of these ends the scheduler, because clients are not affected. A
failure of the core does end it: the engine itself reports it, whatever posted the event."""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

from nvshare.scheduler.observe.log import log
from nvshare.unix_socket import peer_credentials

READ_TIMEOUT_S = 10.0
"""How long a peer may take to read what was sent to it."""

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class FullError(Exception):
    """There are too many connections of this kind."""


class ConnectionLimit:
    """A bounded number of connections of one kind. One more is refused; or, with `closes_oldest`, the oldest one of the
    host, or user, that has the most is closed, and what serves it is cancelled: slow peers cannot lock out a fast one,
    and one that connects again and again can neither abort the connections of others nor leave work behind."""

    def __init__(self, maximum: int, *, closes_oldest: bool = False) -> None:
        self._maximum = maximum
        self._closes_oldest = closes_oldest
        self._held: dict[asyncio.StreamWriter, tuple[str, asyncio.Task[Any]]] = {}
        """The host or user of each connection, and what serves it, oldest first."""

    @contextlib.contextmanager
    def hold(self, writer: asyncio.StreamWriter) -> Iterator[str]:
        """Count this connection, or raise FullError. Gives its host or user."""
        if len(self._held) >= self._maximum:
            if not self._closes_oldest:
                raise FullError
            self._close_oldest()
        owner, task = _owner_of(writer), asyncio.current_task()
        assert task is not None, "connections are served by tasks"
        self._held[writer] = owner, task
        try:
            yield owner
        except asyncio.CancelledError:
            if writer in self._held or task.uncancel():  # cancelled by others
                raise
            raise ConnectionAbortedError("closed for a newer connection") from None
        finally:
            self._held.pop(writer, None)

    def _close_oldest(self) -> None:
        """The oldest one of the host or user that has the most."""
        owners = Counter(owner for owner, _ in self._held.values())
        most = max(owners.values())
        oldest = next(writer for writer, (owner, _) in self._held.items() if owners[owner] == most)
        _, task = self._held.pop(oldest)
        oldest.transport.abort()
        task.cancel()  # It may wait for a turn (scheduler.pieces), and nobody would read what it makes.


def _owner_of(writer: asyncio.StreamWriter) -> str:
    """The address of the peer; at a unix socket its user."""
    peer = writer.get_extra_info("peername")
    if isinstance(peer, tuple):
        return str(peer[0])
    return f"uid {peer_credentials(cast('socket.socket', writer.get_extra_info('socket'))).uid}"


def guarded(handler: Handler, kind: str) -> Handler:
    """The handler for asyncio's stream servers: it closes the connection, and no exception leaves it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except ConnectionError:
            pass  # The peer has closed.
        except TimeoutError:
            writer.transport.abort()  # It had its time: what it has not read is not kept any longer.
        except Exception as error:
            log.bug("viewer", f"closed one {kind} connection", error)
        finally:
            try:
                await _close(writer)
            except Exception as error:
                writer.transport.abort()
                log.bug("viewer", f"aborted one {kind} connection", error)

    return serve


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close when everything is sent; abort if the peer does not read it."""
    writer.close()
    try:
        async with asyncio.timeout(READ_TIMEOUT_S):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()


def write(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write; raises ConnectionResetError on every event loop if the connection is closed."""
    if writer.is_closing():
        raise ConnectionResetError("the peer has closed the connection")
    writer.write(data)


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write, and wait until the write buffer has room; TimeoutError if the peer does not read."""
    write(writer, data)
    async with asyncio.timeout(READ_TIMEOUT_S):
        await writer.drain()

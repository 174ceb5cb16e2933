"""A small HTTP server for those who only look: metrics and health. There are no write operations here.

h11 reads and writes HTTP; this file only moves its bytes. Long answers are written piece by piece with a turn of the
event loop between two pieces, so that a scrape does not hold up the clients."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable

import h11

from nvshare.config import ConfigError

MOST_CONNECTIONS = 64
PATIENCE_S = 10.0
MOST_REQUEST = 16_384

Page = Callable[[], tuple[str, Iterable[bytes]]]
"""Gives a content type and the pieces of a body."""


class Web:
    """Serves a fixed table of pages."""

    def __init__(self, pages: dict[str, Page]) -> None:
        self._pages = pages
        self._open = 0

    async def listen(self, address: str) -> asyncio.Server:
        host, _, port = address.rpartition(":")
        try:
            return await asyncio.start_server(self._serve, host.strip("[]"), int(port), limit=MOST_REQUEST)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"cannot serve http at {address}: {reason}; choose another --http") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MOST_CONNECTIONS:
                async with asyncio.timeout(PATIENCE_S):
                    await self._exchange(reader, writer)
        except (TimeoutError, ConnectionError, h11.ProtocolError):
            pass  # A peer that is slow, gone, or does not speak HTTP.
        finally:
            self._open -= 1
            with contextlib.suppress(ConnectionError):
                writer.close()
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_REQUEST)
        request = await _request(http, reader)
        if request is None:
            return
        status, kind, pieces = self._page(request)
        headers = [("content-type", kind), ("connection", "close"), ("x-content-type-options", "nosniff")]
        _send(http, writer, h11.Response(status_code=status, headers=headers))
        if request.method != b"HEAD":
            async for piece in _unhurried(pieces):
                _send(http, writer, h11.Data(data=piece))
                await writer.drain()
        _send(http, writer, h11.EndOfMessage())
        await writer.drain()

    def _page(self, request: h11.Request) -> tuple[int, str, Iterable[bytes]]:
        path = request.target.partition(b"?")[0].decode("ascii", "replace")
        if request.method not in (b"GET", b"HEAD"):
            return 405, "text/plain", [b"only GET and HEAD\n"]
        page = self._pages.get(path)
        if page is None:
            known = " ".join(self._pages)
            return 404, "text/plain", [f"there is only {known}\n".encode()]
        kind, pieces = page()
        return 200, kind, pieces


async def _request(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(4096))
        elif isinstance(event, h11.Request):
            return event
        else:
            return None


def _send(
    http: h11.Connection, writer: asyncio.StreamWriter, event: h11.Response | h11.Data | h11.EndOfMessage
) -> None:
    data = http.send(event)
    if data:
        writer.write(data)


async def _unhurried(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)

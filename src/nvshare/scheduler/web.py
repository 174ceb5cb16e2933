"""A small HTTP server for those who only look: metrics, health, status, the live page. There are no write operations.

h11 reads and writes HTTP; this file only moves its bytes. Long answers are written piece by piece with a turn of the
event loop between two pieces, so that a scrape does not hold up the clients. A stream goes on until its reader leaves
or stops reading.

Served on a loopback address, it answers only to names of this machine: a page from elsewhere in the user's browser
must not be able to read it by pointing a name of its own here."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncGenerator, Callable, Iterable

import h11

from nvshare.config import ConfigError

MOST_CONNECTIONS = 64
PATIENCE_S = 10.0
MOST_REQUEST = 16_384
_HEADERS = (
    ("connection", "close"),
    ("cache-control", "no-store"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)

Page = Callable[[], tuple[str, Iterable[bytes]]]
"""Gives a content type and the pieces of a body."""
Stream = Callable[[], AsyncGenerator[bytes, None]]
"""Gives server-sent events without end."""
Answer = tuple[int, str, Iterable[bytes] | AsyncGenerator[bytes, None]]


class Web:
    """Serves a fixed table of pages and streams."""

    def __init__(self, pages: dict[str, Page], streams: dict[str, Stream] | None = None) -> None:
        self._pages = pages
        self._streams = streams or {}
        self._open = 0
        self._is_local = False

    async def listen(self, address: str) -> asyncio.Server:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        self._is_local = _is_loopback(host)
        try:
            return await asyncio.start_server(self._serve, host, int(port), limit=MOST_REQUEST)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"cannot serve http at {address}: {reason}; choose another --http") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MOST_CONNECTIONS:
                await self._exchange(reader, writer)
        except (TimeoutError, ConnectionError, h11.ProtocolError):
            pass  # A peer that is slow, gone, or does not speak HTTP.
        finally:
            self._open -= 1
            with contextlib.suppress(ConnectionError, TimeoutError):
                writer.close()
                async with asyncio.timeout(PATIENCE_S):
                    await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_REQUEST)
        async with asyncio.timeout(PATIENCE_S):
            request = await _request(http, reader)
        if request is None:
            return
        status, kind, pieces = self._answer(request)
        response = h11.Response(status_code=status, headers=[("content-type", kind), *_HEADERS])
        async with asyncio.timeout(PATIENCE_S) as patience:
            await _send(http, writer, response)
            if request.method != b"HEAD":
                async with contextlib.aclosing(_unhurried(pieces)) as unhurried:
                    async for piece in unhurried:
                        await _send(http, writer, h11.Data(data=piece))
                        # Each piece has its own time: a stream may last for days.
                        patience.reschedule(asyncio.get_running_loop().time() + 10 * PATIENCE_S)
            await _send(http, writer, h11.EndOfMessage())

    def _answer(self, request: h11.Request) -> Answer:
        path = request.target.partition(b"?")[0].decode("ascii", "replace")
        if request.method not in (b"GET", b"HEAD"):
            return 405, "text/plain", [b"only GET and HEAD\n"]
        if self._is_local and not _names_this_machine(request):
            return 403, "text/plain", [b"this is served to this machine only: use localhost or its address\n"]
        stream = self._streams.get(path)
        if stream is not None:
            return 200, "text/event-stream", stream()
        page = self._pages.get(path)
        if page is None:
            known = " ".join((*self._pages, *self._streams))
            return 404, "text/plain", [f"there is only {known}\n".encode()]
        kind, pieces = page()
        return 200, kind, pieces


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names_this_machine(request: h11.Request) -> bool:
    host = next((value for name, value in request.headers if name == b"host"), b"").decode("ascii", "replace")
    bare = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return not bare or _is_loopback(bare.strip("[]").lower())


async def _request(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(4096))
        elif isinstance(event, h11.Request):
            return event
        else:
            return None


async def _send(
    http: h11.Connection, writer: asyncio.StreamWriter, event: h11.Response | h11.Data | h11.EndOfMessage
) -> None:
    data = http.send(event)
    if data:
        writer.write(data)
        await writer.drain()


async def _unhurried(pieces: Iterable[bytes] | AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    if isinstance(pieces, AsyncGenerator):
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                yield piece
        return
    for piece in pieces:
        if piece:
            yield piece
        await asyncio.sleep(0)

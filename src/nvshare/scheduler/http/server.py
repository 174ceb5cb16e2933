"""A small HTTP server that can only be read: metrics, health, status, the live page.

h11 parses HTTP; this file transfers the bytes. Long answers are made and written in pieces (scheduler.pieces). A
stream continues until its reader disconnects or stops reading.

The number of connections is limited by kind: without a request yet, pages, streams, health checks, scrapes. Each kind
has its own limit, so other connections cannot make a liveness probe fail, and scrapes cannot either. Hosts get pieces
in turn, and a host's scrapes apart from its pages and streams.

It answers only requests for an address, for a name of this machine, or for one of `hosts`. Otherwise a web page of
another site could read it through the user's browser, with a DNS name of its own that points to this machine (DNS
rebinding). On a loopback address only loopback addresses and `localhost` are accepted."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import AsyncGenerator, Callable, Iterable

import h11

from nvshare.config import ConfigError
from nvshare.scheduler.pieces import Owner, Pieces
from nvshare.scheduler.viewer_connection import ConnectionLimit, FullError, guarded, send

MAX_ASKING = 24
"""Connections whose request has not come yet. One more closes the oldest of them."""
MAX_RESERVED = 8
"""Answers that are being sent, to health checks and to scrapes each. One more closes the oldest of the host that has
the most: the newest is always served."""
MAX_STREAMS = 16
MAX_PAGES = 16
REQUEST_TIMEOUT_S = 10.0
"""How long a peer may take to send its request."""
ANSWER_TIMEOUT_S = 30.0
"""How long a peer may take to read an answer that is not a stream."""
SEND_BUFFER = 1 << 17
"""Asked of the kernel for each connection, which doubles it. By default it grows to 4 MiB if a peer does not read."""
MAX_REQUEST = 16_384
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
"""Gives a content type and a body: a list if it is there already, otherwise parts that are each made quickly."""
Stream = Callable[[Owner], AsyncGenerator[bytes, None]]
"""Gives server-sent events without end."""
Body = list[bytes] | AsyncGenerator[bytes, None]
Answer = tuple[int, str, Body]


class HttpServer:
    """Serves a fixed table of pages and streams. Each path in `reserved` has a connection limit of its own."""

    def __init__(
        self,
        pages: dict[str, Page],
        streams: dict[str, Stream] | None = None,
        reserved: frozenset[str] = frozenset(),
        hosts: frozenset[str] = frozenset(),
        pieces: Pieces | None = None,
    ) -> None:
        self._pages = pages
        self._pieces = pieces or Pieces()
        self._streams = streams or {}
        self._reserved = reserved
        self._is_local = False
        self._hosts = hosts | {"localhost"}
        self._asking = ConnectionLimit(MAX_ASKING, closes_oldest=True)
        self._page_limit = ConnectionLimit(MAX_PAGES)
        self._limits = dict.fromkeys(self._streams, ConnectionLimit(MAX_STREAMS))
        self._limits |= {path: ConnectionLimit(MAX_RESERVED, closes_oldest=True) for path in reserved}

    async def listen(self, address: str) -> asyncio.Server:
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        self._is_local = _is_loopback(host)
        if not self._is_local:
            self._hosts |= {socket.gethostname().lower(), socket.getfqdn().lower()}
        try:
            server = await asyncio.start_server(guarded(self._serve, "HTTP"), host, int(port), limit=MAX_REQUEST)
            for listening in server.sockets:  # Connections inherit it.
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
            return server
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"cannot serve http at {address}: {reason}; choose another --http") from None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_REQUEST)
        try:
            with self._asking.hold(writer):
                async with asyncio.timeout(REQUEST_TIMEOUT_S):
                    request = await _request(http, reader)
            if request is not None:
                await self._reply(http, writer, request)
        except h11.ProtocolError:
            pass  # The peer does not speak HTTP.

    async def _reply(self, http: h11.Connection, writer: asyncio.StreamWriter, request: h11.Request) -> None:
        path = _path_of(request)
        try:
            with self._limits.get(path, self._page_limit).hold(writer) as host:
                # What has a limit of its own does not wait for pages and streams of its host either.
                owner = Owner(f"{host} {path}" if path in self._reserved else host)
                await _send_answer(
                    http, writer, request, self._answer(request, owner), is_endless=path in self._streams
                )
        except FullError:
            busy: Answer = 503, "text/plain", [b"too many readers at once; try again\n"]
            await _send_answer(http, writer, request, busy)

    def _answer(self, request: h11.Request, owner: Owner) -> Answer:
        path = _path_of(request)
        if request.method not in (b"GET", b"HEAD"):
            return 405, "text/plain", [b"only GET and HEAD\n"]
        if not self._is_meant(_host_of(request)):
            return 403, "text/plain", [b"not a name of this server: use its address, or add the name to --http-hosts\n"]
        stream = self._streams.get(path)
        if stream is not None:
            return 200, "text/event-stream", stream(owner)
        page = self._pages.get(path)
        if page is None:
            known = " ".join((*self._pages, *self._streams))
            return 404, "text/plain", [f"there is only {known}\n".encode()]
        kind, body = page()
        return 200, kind, body if isinstance(body, list) else self._pieces.text_of(body, owner)

    def _is_meant(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return not host or host in self._hosts
        return not self._is_local or address.is_loopback or host in self._hosts


def _path_of(request: h11.Request) -> str:
    return request.target.partition(b"?")[0].decode("ascii", "replace")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _host_of(request: h11.Request) -> str:
    host = next((value for name, value in request.headers if name == b"host"), b"").decode("ascii", "replace")
    bare = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return bare.strip("[]").rstrip(".").lower()


async def _request(http: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(4096))
        elif isinstance(event, h11.Request):
            return event
        else:
            return None


async def _send_answer(
    http: h11.Connection, writer: asyncio.StreamWriter, request: h11.Request, answer: Answer, is_endless: bool = False
) -> None:
    status, kind, body = answer
    async with asyncio.timeout(None if is_endless else ANSWER_TIMEOUT_S):
        await _send(http, writer, h11.Response(status_code=status, headers=[("content-type", kind), *_HEADERS]))
        if request.method != b"HEAD":
            async with contextlib.aclosing(_pieces_of(body)) as pieces:
                async for piece in pieces:
                    await _send(http, writer, h11.Data(data=piece))
        await _send(http, writer, h11.EndOfMessage())


async def _send(
    http: h11.Connection, writer: asyncio.StreamWriter, event: h11.Response | h11.Data | h11.EndOfMessage
) -> None:
    data = http.send(event)
    if data:
        await send(writer, data)


async def _pieces_of(body: Body) -> AsyncGenerator[bytes, None]:
    if isinstance(body, list):
        for piece in body:
            yield piece
    else:
        async with contextlib.aclosing(body):
            async for piece in body:
                yield piece

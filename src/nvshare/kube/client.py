"""A small client of the Kubernetes API: one JSON request, or one endless stream of JSON lines.

The scheduler needs three calls (list pods, watch pods, create an event), runs on every GPU node and must stay small. So
it speaks HTTP/1.1 through h11 over asyncio's TLS and does not use a general client. Kubelet rotates the token of the
service account on disk, so it is read again for every connection."""

import asyncio
import contextlib
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from urllib.parse import urlencode

import h11

from nvshare.record import Record

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_READ_BYTES = 65536
_MAX_LINE_BYTES = 16 << 20
"""An object in etcd is at most 1.5 MiB; a line beyond this is not from an API server."""
_CONNECT_S = 10.0
_REPLY_S = 30.0
_LONGEST_RETRY_AFTER_S = 60


class ApiError(Exception):
    """The API server answered with an error."""

    def __init__(self, status: int, message: str, retry_after_s: int = 0) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.retry_after_s = retry_after_s
        """How long the server wants to be left alone; 0 if it does not say."""


class Server(Record, frozen=True):
    """The address of the API server and the credentials for it."""

    host: str
    port: int
    token_path: Path | None
    tls: bool
    ca_path: Path | None = None


def in_cluster(environment: Mapping[str, str] = os.environ, account: Path = SERVICE_ACCOUNT) -> Server | None:
    """The API server of the cluster this process runs in; None outside a cluster."""
    host = environment.get("KUBERNETES_SERVICE_HOST")
    port = environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (account / "token").exists():
        return None
    return Server(host=host, port=int(port), token_path=account / "token", tls=True, ca_path=account / "ca.crt")


class Api:
    """Calls to one API server. Each call has a connection of its own: they are rare, and a stream blocks its own."""

    def __init__(self, server: Server, agent: str = "nvshare-scheduler") -> None:
        self._server = server
        self._agent = agent

    async def request(self, method: str, path: str, query: Mapping[str, str], body: object = None) -> bytes:
        """The body of the answer; ApiError unless it is a success, OSError when there is no answer."""
        async with asyncio.timeout(_CONNECT_S + _REPLY_S), self._open(method, path, query, body) as exchange:
            return await exchange.whole_body()

    @contextlib.asynccontextmanager
    async def lines(self, path: str, query: Mapping[str, str], silence_s: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of a streamed answer, until the server ends it. Silence longer than `silence_s` is an OSError."""
        async with self._open("GET", path, query, None) as exchange:
            yield exchange.body_lines(silence_s)

    @contextlib.asynccontextmanager
    async def _open(self, method: str, path: str, query: Mapping[str, str], body: object) -> AsyncIterator["_Exchange"]:
        target = f"{path}?{urlencode(query)}" if query else path
        payload = b"" if body is None else json.dumps(body).encode()
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await self._connect()
        try:
            exchange = _Exchange(reader, writer)
            async with asyncio.timeout(_REPLY_S):
                await exchange.send(method, target, self._headers(payload), payload)
                await exchange.expect_success()
            yield exchange
        except h11.RemoteProtocolError as error:
            raise ConnectionError(f"the answer of the API server is incomplete: {error}") from error
        finally:
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await writer.wait_closed()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context = None
        if self._server.tls:
            context = ssl.create_default_context(cafile=self._server.ca_path)
        reader, writer = await asyncio.open_connection(self._server.host, self._server.port, ssl=context)
        raw = writer.get_extra_info("socket")
        if raw is not None:
            # A watch is silent for minutes; keep-alive finds a lost route before the stream's own timeout.
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
        return reader, writer

    def _headers(self, payload: bytes) -> list[tuple[str, str]]:
        host = f"[{self._server.host}]" if ":" in self._server.host else self._server.host
        headers = [
            ("Host", f"{host}:{self._server.port}"),
            ("User-Agent", self._agent),
            ("Accept", "application/json"),
            ("Connection", "close"),
        ]
        if self._server.token_path is not None:
            headers.append(("Authorization", f"Bearer {self._server.token_path.read_text().strip()}"))
        if payload:
            headers += [("Content-Type", "application/json"), ("Content-Length", str(len(payload)))]
        return headers


class _Exchange:
    """One request and its answer on one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)

    async def send(self, method: str, target: str, headers: list[tuple[str, str]], payload: bytes) -> None:
        data = self._http.send(h11.Request(method=method, target=target, headers=headers)) or b""
        if payload:
            data += self._http.send(h11.Data(data=payload)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        self._writer.write(data)
        await self._writer.drain()

    async def expect_success(self) -> None:
        event = await self._next()
        if not isinstance(event, h11.Response):
            raise ConnectionError(f"the API server did not answer: {event!r}")
        if not 200 <= event.status_code < 300:
            message = _message(await self.whole_body())
            raise ApiError(event.status_code, message, _retry_after_s(event))

    async def whole_body(self) -> bytes:
        return b"".join([data async for data in self._chunks(None)])

    async def body_lines(self, silence_s: float) -> AsyncIterator[bytes]:
        rest = b""
        async for data in self._chunks(silence_s):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > _MAX_LINE_BYTES:
                raise ConnectionError("the API server sent a line that is too long")
            for line in lines:
                if line.strip():
                    yield line

    async def _chunks(self, silence_s: float | None) -> AsyncIterator[bytes]:
        while True:
            async with asyncio.timeout(silence_s):
                event = await self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise ConnectionError(f"the answer of the API server is incomplete: {event!r}")

    async def _next(self) -> object:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_READ_BYTES))
            elif not isinstance(event, h11.InformationalResponse):
                return event


def _message(body: bytes) -> str:
    """The message of the server's Status object, or the body."""
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(body).get("message", ""))
    return body[:200].decode(errors="replace").strip()


def _retry_after_s(answer: h11.Response) -> int:
    """The API server's header is in seconds."""
    text = next((value for name, value in answer.headers if name == b"retry-after"), b"")
    return min(int(text), _LONGEST_RETRY_AFTER_S) if text.isdigit() else 0

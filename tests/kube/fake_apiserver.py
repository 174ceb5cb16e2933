"""A fake API server with the semantics that trip clients up, over real HTTP on a loopback port.

It keeps pods and a history of changes with versions. A watch from a version too old answers 200 and then an ERROR event
with code 410; streams end cleanly when told; no bookmarks come unless asked for by the test; connections can be cut and
the whole server stopped and started again on the same port. A list that asks for a version that is not there yet is
refused with 504. Every request is kept for the test to look at."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import h11

from nvshare.kube.client import Server


def pod(
    name: str, *, annotations: dict[str, str] | None = None, env: Any = None, namespace: str = "default"
) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "annotations": annotations or {}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "env": env or []}]},
    }


class FakeApiServer:
    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.oldest = 0
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.events: list[dict[str, Any]] = []
        self.refuse: tuple[int, str] | None = None
        """Status and message of every answer. Of 429 as a real server sends it: text, and with Retry-After."""
        self._changed = asyncio.Condition()
        self._end_streams = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def address(self) -> Server:
        return Server(host="127.0.0.1", port=self.port, token_path=None, tls=False)

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await self._server.wait_closed()

    # What happens in the cluster.

    async def put(self, item: dict[str, Any]) -> None:
        kind = "MODIFIED" if item["metadata"]["uid"] in self.pods else "ADDED"
        await self._record(kind, item)
        self.pods[item["metadata"]["uid"]] = item

    async def delete(self, name: str) -> None:
        await self._record("DELETED", self.pods.pop(f"uid-{name}"))

    async def bookmark(self) -> None:
        await self._record("BOOKMARK", {"metadata": {}})

    async def _record(self, kind: str, item: dict[str, Any]) -> None:
        async with self._changed:
            self.version += 1
            item["metadata"]["resourceVersion"] = str(self.version)
            self.history.append((self.version, kind, json.loads(json.dumps(item))))
            self._changed.notify_all()

    async def forget_history(self) -> None:
        """Versions up to now are too old for a watch."""
        async with self._changed:
            self.version += 1
            self.oldest = self.version
            self.history.clear()

    async def end_streams(self) -> None:
        """End every watch cleanly, as a server does at timeoutSeconds."""
        async with self._changed:
            self._end_streams += 1
            self._changed.notify_all()

    def cut_connections(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def until_watched(self, times: int) -> None:
        await self.until(lambda: self.count(watch=True) == times)

    async def until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        """Wait for something the requests cause."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(condition)

    def count(self, *, watch: bool) -> int:
        return sum(1 for method, _, query in self.requests if method == "GET" and ("watch" in query) == watch)

    # HTTP.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        http = h11.Connection(h11.SERVER)
        try:
            request, body = None, b""
            while not isinstance(event := http.next_event(), h11.EndOfMessage):
                if event is h11.NEED_DATA:
                    http.receive_data(await reader.read(65536))
                elif isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    body += event.data
                else:
                    return
            assert request is not None
            await self._answer(http, writer, request, body)
        except (ConnectionError, h11.RemoteProtocolError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, http: Any, writer: asyncio.StreamWriter, request: Any, body: bytes) -> None:
        target = urlsplit(request.target.decode())
        query = {key: values[0] for key, values in parse_qs(target.query).items()}
        async with self._changed:
            self.requests.append((request.method.decode(), target.path, query))
            self._changed.notify_all()
        if self.refuse is not None:
            await self._refuse(http, writer, *self.refuse)
        elif request.method == b"POST":
            async with self._changed:
                self.events.append(json.loads(body))
                self._changed.notify_all()
            await self._send(http, writer, 201, self.events[-1])
        elif "watch" in query:
            await self._watch(http, writer, int(query["resourceVersion"]))
        elif int(query.get("resourceVersion", 0)) > self.version:
            await self._send(http, writer, 504, {"kind": "Status", "message": "Too large resource version"})
        else:
            metadata = {"resourceVersion": str(self.version)}
            await self._send(http, writer, 200, {"metadata": metadata, "items": list(self.pods.values())})

    async def _refuse(self, http: Any, writer: asyncio.StreamWriter, status: int, message: str) -> None:
        if status == 429:
            await self._send_text(http, writer, status, f"{message}\n", [("Retry-After", "1")])
        else:
            await self._send(http, writer, status, {"kind": "Status", "message": message})

    async def _send(self, http: Any, writer: asyncio.StreamWriter, status: int, body: object) -> None:
        await self._send_text(http, writer, status, json.dumps(body), [("Content-Type", "application/json")])

    async def _send_text(
        self, http: Any, writer: asyncio.StreamWriter, status: int, text: str, headers: list[tuple[str, str]]
    ) -> None:
        data = text.encode()
        length = ("Content-Length", str(len(data)))
        writer.write(http.send(h11.Response(status_code=status, headers=[length, *headers])))
        writer.write(http.send(h11.Data(data=data)) + http.send(h11.EndOfMessage()))
        await writer.drain()

    async def _watch(self, http: Any, writer: asyncio.StreamWriter, version: int) -> None:
        writer.write(http.send(h11.Response(status_code=200, headers=[("Transfer-Encoding", "chunked")])))

        async def line(kind: str, item: object) -> None:
            data = json.dumps({"type": kind, "object": item}).encode() + b"\n"
            # In two pieces, so that a client that takes a chunk for a line is found out.
            writer.write(http.send(h11.Data(data=data[:7])) + http.send(h11.Data(data=data[7:])))
            await writer.drain()

        if version < self.oldest:
            await line("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
        else:
            await self._stream(line, version)
        writer.write(http.send(h11.EndOfMessage()))
        await writer.drain()

    async def _stream(self, line: Any, version: int) -> None:
        sent, ending = version, self._end_streams
        while self._end_streams == ending:
            async with self._changed:
                await self._changed.wait_for(lambda: self.version > sent or self._end_streams != ending)  # noqa: B023
                fresh = [change for change in self.history if change[0] > sent]
                sent = self.version
            for _, kind, item in fresh:
                await line(kind, item)

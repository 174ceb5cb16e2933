"""The operator's side: requests from nvsharectl become events, or are answered from what is known."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable
from typing import cast

from nvshare import __version__, admin
from nvshare.core import events as ev
from nvshare.core.actions import Refuse
from nvshare.core.model import SECOND
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.journal import Journal
from nvshare.scheduler.log import log
from nvshare.scheduler.step import Step, client_name, clients_of, describe
from nvshare.scheduler.story import summary_of
from nvshare.wire.messages import MAX_BYTES

MOST_OPERATORS = 64
MOST_BEHIND = 1 << 20
"""A follower of events that is this many bytes behind is cut off."""


class Control:
    """Serves the operator's socket."""

    def __init__(self, engine: Engine, journal: Journal) -> None:
        self._engine = engine
        self._journal = journal
        self._started = engine.wall(engine.now())
        self._open = 0
        self._answers: dict[type[admin.Request], Callable[..., admin.Answer]] = {
            admin.GetStatus: self._status,
            admin.SetQuantum: self._set_quantum,
            admin.SetMode: self._set_mode,
            admin.SetScheduling: self._set_scheduling,
            admin.SetLimit: self._set_limit,
            admin.GetStory: self._story,
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One operator's connection, request by request."""
        self._open += 1
        try:
            if self._open > MOST_OPERATORS:
                writer.write(admin.encode(admin.Failed("too many operators at once; try again")))
                return
            if not _is_allowed(cast("socket.socket", writer.get_extra_info("socket"))):
                writer.write(admin.encode(admin.Failed("only root and the scheduler's own user may give orders")))
                return
            while line := await reader.readline():
                await self._answer(line, reader, writer)
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.LimitOverrunError):
            pass  # An operator who went away, or whose line never ended.
        finally:
            self._open -= 1
            with contextlib.suppress(ConnectionError):
                writer.close()
                await writer.wait_closed()

    async def _answer(self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = admin.decode_request(line)
        except admin.AdminError as error:
            writer.write(admin.encode(admin.Failed(str(error))))
            return
        if isinstance(request, admin.GetEvents):
            await self._events(request, reader, writer)
        else:
            writer.write(admin.encode(self._answers[type(request)](request)))

    def _status(self, request: admin.GetStatus) -> admin.Answer:
        now = self._engine.now()
        return admin.Status(__version__, self._started, self._engine.wall(now), self._engine.snapshot())

    def _set_quantum(self, request: admin.SetQuantum) -> admin.Answer:
        if not 1 <= request.seconds <= 86_400:
            return admin.Failed("the quantum must be between 1 and 86400 seconds")
        return self._post(ev.QuantumSet(request.seconds * SECOND, request.gpu))

    def _set_mode(self, request: admin.SetMode) -> admin.Answer:
        return self._post(ev.ModeSet(request.mode, request.gpu))

    def _set_scheduling(self, request: admin.SetScheduling) -> admin.Answer:
        return self._post(ev.SchedulingSwitched(request.on))

    def _set_limit(self, request: admin.SetLimit) -> admin.Answer:
        if request.limit is not None and not 0 <= request.limit <= MAX_BYTES:
            return admin.Failed(f"a limit must be between 0 and {MAX_BYTES} bytes")
        groups = self._groups_named(request.target)
        if len(groups) != 1:
            found = "no client, pod, container or run is" if not groups else f"{len(groups)} groups are"
            return admin.Failed(f"{found} called {request.target!r}; `nvsharectl status` lists them")
        return self._post(ev.LimitSet(groups[0], request.limit))

    def _groups_named(self, target: str) -> list[str]:
        """The groups that an operator can mean by a client's id or name, a label, its last part, or a key."""
        node = self._engine.node
        exact = {g.key for g in node.groups.values() if target in (g.key, g.key.partition("/")[2], g.label)}
        short = {
            g.key for g in node.groups.values() if target in (g.label.rpartition("/")[2], g.label.rpartition(" ")[2])
        }
        named = exact or short or {client.group.key for client in node.clients.values() if client.name == target}
        # A pod may be called cafe, and so may a client: then neither is meant without a doubt.
        client = node.clients.get(_client_id(target))
        return list(named | {client.group.key} if client else named)

    def _story(self, request: admin.GetStory) -> admin.Answer:
        named = [client.id for client in self._engine.node.clients.values() if client.name == request.client]
        client = named[0] if len(named) == 1 else _client_id(request.client)
        steps = self._journal.story(client)
        if client not in self._engine.node.clients and not steps:
            return admin.Failed(f"no client {request.client!r}; `nvsharectl status` lists them")
        summary = summary_of(self._engine.snapshot(), client)
        return admin.Story(summary, tuple(line for step in steps for line in _lines(step)))

    def _post(self, event: ev.Event) -> admin.Answer:
        step = self._engine.post(event)
        for action in step.actions:
            if isinstance(action, Refuse):
                return admin.Failed(action.reason)
        return admin.Done()

    async def _events(
        self, request: admin.GetEvents, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """The last steps, then, if asked, each new one until the operator goes away."""
        for step in self._journal.last(max(0, request.last)):
            _write_lines(step, writer)
        if not request.follow:
            writer.write(admin.encode(admin.Done()))
            return

        def tell(step: Step) -> None:
            if writer.transport.get_write_buffer_size() > MOST_BEHIND:
                log.warning("Closing a follower of events that does not read")
                writer.transport.abort()
            else:
                _write_lines(step, writer)

        stop = self._journal.follow(tell)
        try:
            while await reader.read(1024):
                pass
        finally:
            stop()


def _write_lines(step: Step, writer: asyncio.StreamWriter) -> None:
    for line in _lines(step):
        writer.write(admin.encode(line))


def _lines(step: Step) -> list[admin.StepLine]:
    clients = tuple(client_name(client) for client in sorted(clients_of(step)))
    return [admin.StepLine(step.time, text, clients) for text in describe(step)]


def _client_id(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return 0


def _is_allowed(connection: socket.socket) -> bool:
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid in (0, os.geteuid())

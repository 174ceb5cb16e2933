"""The socket for reading: every user of the machine may ask what the scheduler knows, and give no orders.

One user's questions must not delay the clients of others. The time that they take is charged to the user
(connection_admission.Account), and a user who owes time waits for the answer."""

import asyncio
import contextlib
import socket
import time
from pathlib import Path
from typing import cast

from msgspec.structs import replace

from nvshare import admin
from nvshare.config import DEFAULT_READER_SOCKET, ConfigError
from nvshare.scheduler.clients.connection_admission import Account
from nvshare.scheduler.listening_socket import ListeningSocket
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.operator.control import Control
from nvshare.scheduler.passed_descriptors import guarded_from_descriptors
from nvshare.scheduler.pieces import Owner
from nvshare.scheduler.viewer_connection import ConnectionLimit, guarded, send, write
from nvshare.unix_socket import peer_credentials

MAX_READERS = 32
MAX_MADE = 2
"""Answers that are made at the same time, for different users. The status of 16,384 pairs of a client and a GPU takes
15 MB while it is made."""
MAX_UNREAD_ANSWERS = 2
"""Big answers that are not read yet; one has 10 MB. One more closes the oldest of the user that has the most."""
SMALL_ANSWER = 1 << 18
"""Answers up to this size, about 400 pairs of a client and a GPU, are not counted: with MAX_READERS 8 MiB."""
READINGS = (admin.GetStatus, admin.GetStory, admin.GetLimits, admin.GetReport)
NO_ORDERS = "every user may look, but only root and the scheduler's own user may change something; try sudo"
LINE_NS = 10_000
"""Charged for each line, because reading it takes time that is not measured."""
MAX_LINES = 1000
"""A reader gets no more past events at once, and no more lines of a story."""


async def listen(path: Path, control: Control) -> tuple[ListeningSocket | None, asyncio.AbstractServer | None]:
    """Serve readers at this path. The default path is left out if it cannot be used, because it was not asked for."""
    try:
        listening = ListeningSocket(path, mode=0o666)
    except ConfigError as error:
        if str(path) != DEFAULT_READER_SOCKET:
            raise
        log.warning(f"{error}. Only operators can read the status")
        return None, None
    serve = guarded(Readers(control).serve, "reader's")

    def connection() -> asyncio.StreamReaderProtocol:
        return asyncio.StreamReaderProtocol(asyncio.StreamReader(limit=admin.MAX_LINE), serve)

    make = connection if listening.refuses_descriptors else guarded_from_descriptors(connection)
    return listening, await asyncio.get_running_loop().create_unix_server(make, sock=listening.socket)


class User:
    """The connections of one user wait for each other, and not those of other users for them."""

    def __init__(self, uid: int) -> None:
        self.account = Account(f"uid/{uid}")
        self.owner = Owner(self.account.name, self.account)
        self.reads = asyncio.Lock()

    async def pay(self) -> None:
        """Wait until the user owes nothing."""
        await asyncio.sleep(self.account.delay_ns(time.monotonic_ns()) / 1e9)


class Readers:
    """Serves the socket for reading."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._connections = ConnectionLimit(MAX_READERS, closes_oldest=True)
        self._users: dict[int, User] = {}
        self._making = asyncio.Semaphore(MAX_MADE)
        self._unread = ConnectionLimit(MAX_UNREAD_ANSWERS, closes_oldest=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One reader's connection, request by request."""
        user = self._user(peer_credentials(cast("socket.socket", writer.get_extra_info("socket"))).uid)
        with self._connections.hold(writer):
            try:
                while line := await reader.readline():
                    await user.pay()
                    await self._answer(line, reader, writer, user)
            except (ValueError, asyncio.LimitOverrunError):
                pass  # A line that is too long.

    async def _answer(
        self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, user: User
    ) -> None:
        began = time.monotonic_ns()
        request = self._control.request_of(line)
        if not isinstance(request, (admin.GetEvents, *READINGS)):
            write(writer, admin.encode(request if isinstance(request, admin.Failed) else admin.Failed(NO_ORDERS)))
        user.account.charge(began - LINE_NS, time.monotonic_ns())
        if isinstance(request, admin.GetEvents):
            bounded = replace(request, last=min(request.last, MAX_LINES))
            await self._control.send_events(bounded, reader, writer, user.owner, user.reads)
        elif isinstance(request, READINGS):
            answer = await self._read(_bounded(request), writer, user)
            if answer:
                with contextlib.nullcontext() if len(answer) <= SMALL_ANSWER else self._unread.hold(writer):
                    await send(writer, answer)
        else:
            await send(writer, b"")

    async def _read(self, request: admin.Request, writer: asyncio.StreamWriter, user: User) -> bytes:
        """The answer; empty if the connection was closed while it waited: others of the same user were before it."""
        async with user.reads, self._making:
            return b"" if writer.is_closing() else await self._control.answer_to(request, user.owner)

    def _user(self, uid: int) -> User:
        """Users who owe nothing are forgotten when there are many."""
        if len(self._users) > MAX_READERS:
            now = time.monotonic_ns()
            self._users = {one: user for one, user in self._users.items() if user.account.delay_ns(now)}
        return self._users.setdefault(uid, User(uid))


def _bounded(request: admin.Request) -> admin.Request:
    if isinstance(request, admin.GetStory):
        return replace(request, last=MAX_LINES if request.last is None else min(request.last, MAX_LINES))
    return request

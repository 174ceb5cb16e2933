"""Today's scheduler in this process. It waits for answers to recalls as long as a busy machine may need: how long the
daemon waits is not what is tested here."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nvshare.core.events import LimitSet, SchedulingSwitched
from nvshare.core.model import SECOND, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.scheduler.clients.connection import ClientConnection
from nvshare.scheduler.clients.connection_admission import ConnectionAdmission
from nvshare.scheduler.engine import Engine
from upgrade.record import LONG_WAIT_S

SETTINGS = Settings(
    quantum=QuantumRule("fixed", fixed_ns=SECOND), settle_ns=0, recall_ns=60 * SECOND, long_wait_ns=LONG_WAIT_S * SECOND
)


class TodaysScheduler:
    """Serves clients at a path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.is_ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self._is_over: asyncio.Event | None = None
        self._connections: list[ClientConnection] = []
        self._limits: list[LimitSet] = []

    async def serve(self) -> None:
        self._loop, self._is_over = asyncio.get_running_loop(), asyncio.Event()
        self._engine = Engine(Node(SETTINGS, epoch=1), self._loop)
        await self._loop.create_unix_server(self._connection, self.path)
        self.is_ready.set()
        await self._is_over.wait()

    def _connection(self) -> ClientConnection:
        assert self._engine is not None
        admission = ConnectionAdmission(max_connections=100, max_per_account=100)
        self._connections.append(ClientConnection(self._engine, admission, grace_ms=10_000, timeout_s=60))
        return self._connections[-1]

    def restart(self) -> None:
        """All connections end. The next scheduler knows what the clients claim, and the operator's limits."""
        assert self._loop is not None
        done = threading.Event()
        self._loop.call_soon_threadsafe(self._begin_again)
        self._loop.call_soon_threadsafe(done.set)
        assert done.wait(60)

    def _begin_again(self) -> None:
        assert self._loop is not None
        now = time.monotonic_ns()
        for connection in self._connections:
            connection.fail(ConnectionError("the scheduler is killed"))
        self._connections.clear()
        self._engine = Engine(Node(SETTINGS, epoch=2, settles_at=now + SECOND), self._loop)
        for limit in self._limits:
            self._engine.post(limit)

    def set_limit(self, group: str, limit: int) -> None:
        """As the operator does."""
        assert self._loop is not None
        assert self._engine is not None
        self._limits.append(LimitSet(group, limit))
        self._loop.call_soon_threadsafe(self._engine.post, self._limits[-1])

    def switch(self, *, on: bool) -> None:
        """As the operator does: scheduling on or off."""
        assert self._loop is not None
        assert self._engine is not None
        self._loop.call_soon_threadsafe(self._engine.post, SchedulingSwitched(on))

    def end(self) -> None:
        assert self._loop is not None
        assert self._is_over is not None
        self._loop.call_soon_threadsafe(self._is_over.set)


@contextmanager
def todays_scheduler(path: str) -> Iterator[TodaysScheduler]:
    scheduler = TodaysScheduler(path)
    thread = threading.Thread(target=lambda: asyncio.run(scheduler.serve()))
    thread.start()
    assert scheduler.is_ready.wait(60)
    try:
        yield scheduler
    finally:
        scheduler.end()
        thread.join(60)

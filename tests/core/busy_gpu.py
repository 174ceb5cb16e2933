"""Clients that use one GPU side by side, in steps of some milliseconds: those with work get equal parts of the time.

The clients are scripted: when they ask, pause, release and report is written here again, for a client that always
answers at once and reports at fixed times. The shipped client machine (core.driven_clients, schedsim/worlds) looks at
the GPU a thousand times a second; these tests play up to an hour, in which a share can be told from an error."""

from collections.abc import Callable

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MILLISECOND, Claim, Memory, Settings
from nvshare.core.node import Node

TICK_MS = 5
REPORT_MS = 250


class BusyClient:
    """Always has work, unless `wants` says otherwise; a drain takes `queued_ms` of the GPU's time. Its work waits for
    `move_ms` at the beginning of each turn: its memory moves in. It submits its first work `wake_ms` after it got the
    lock."""

    def __init__(self, client: int, queued_ms: int, need: int, wants: Callable[[int], bool]) -> None:
        self.id, self.need, self.wants = client, need, wants
        self.move_ms = self.wake_ms = self.missing_ms = self.asleep_ms = 0
        self.lock, self.is_dropping, self.is_idle_told = 0, False, False
        self.queued_ms = queued_ms
        self.left_ms = self.used_ms = 0.0
        self.busy = 0
        """The looks of the present report at which it was busy."""


class BusyGpu:
    """`used` is the truth, by client; the node knows what it is told."""

    def __init__(self, settings: Settings | None = None, *, reports: bool = True, tick_ms: int = TICK_MS) -> None:
        self.tick_ms = tick_ms
        self.node = Node(settings or Settings(), epoch=1, is_paranoid=True)
        self.now_ms = 0
        self.clients: dict[int, BusyClient] = {}
        self.reports = reports
        self.actions: list[ac.Action] = []
        self.handle(ev.GpuFound("g0", 16 * GIB))

    def add(
        self,
        *,
        weight: int = 100,
        limit: int | None = None,
        queued_ms: int = 200,
        need: int = 0,
        priority: int = 0,
        move_ms: int = 0,
        wake_ms: int = 0,
        wants: Callable[[int], bool] = lambda ms: True,
    ) -> int:
        number = len(self.clients) + 1
        self.clients[number] = BusyClient(number, queued_ms, need, wants)
        self.clients[number].move_ms, self.clients[number].wake_ms = move_ms, wake_ms
        claims = (Claim("g0", 16 * GIB),)
        self.handle(ev.ClientRegistered(number, f"run/{number}", "x", "x", claims, weight=weight, priority=priority))
        if limit is not None:
            self.handle(ev.CoreLimitSet(f"run/{number}", limit))
        return number

    def handle(self, event: ev.Event) -> None:
        for action in self.node.handle(self.now_ms * MILLISECOND, event):
            self.actions.append(action)
            if isinstance(action, ac.GiveLock):
                client = self.clients[action.client]
                client.lock, client.is_idle_told = action.lock, False
                client.missing_ms, client.asleep_ms = client.move_ms, client.wake_ms
            elif isinstance(action, ac.DropLock):
                self.clients[action.client].is_dropping = True

    def run(self, ms: int) -> list[float]:
        """The percentage of the time that each client has had."""
        before = [client.used_ms for client in self.clients.values()]
        for _ in range(ms // self.tick_ms):
            self._tick()
        return [100 * (one.used_ms - was) / ms for one, was in zip(self.clients.values(), before, strict=True)]

    def _tick(self) -> None:
        self.now_ms += self.tick_ms
        while (deadline := self.node.next_deadline()) is not None and deadline <= self.now_ms * MILLISECOND:
            self.handle(ev.AlarmRang())
        for client in self.clients.values():
            self._submit(client)
        busy = [client for client in self.clients.values() if client.left_ms > 0]
        working = [client for client in busy if not client.missing_ms]
        for client in working:
            client.used_ms += self.tick_ms / len(working)
            client.left_ms -= self.tick_ms / len(working)
        for client in busy:
            client.busy |= ((1 << self.tick_ms) - 1) << (self.now_ms - self.tick_ms) % REPORT_MS
            self._move(client)
        if self.now_ms % REPORT_MS == 0:
            self._report()
        for client in self.clients.values():
            if client.is_dropping and client.left_ms <= 0:
                lock, client.lock, client.is_dropping = client.lock, 0, False
                self.handle(ev.LockReleased(client.id, "g0", lock, client.wants(self.now_ms)))

    def _move(self, client: BusyClient) -> None:
        if client.missing_ms:
            client.missing_ms -= self.tick_ms
            if not client.missing_ms:
                self.handle(ev.MemoryMoved(client.id, "g0", False, client.need, client.move_ms * MILLISECOND))

    def _submit(self, client: BusyClient) -> None:
        wants = client.wants(self.now_ms)
        if not client.lock:
            if wants:
                self.handle(ev.LockRequested(client.id, "g0", Memory(client.need)))
            return
        client.asleep_ms = max(0, client.asleep_ms - self.tick_ms)
        if wants and not client.is_dropping and not client.asleep_ms:
            client.left_ms = client.queued_ms
        is_idle = client.left_ms <= 0
        if self.node.gpus["g0"].turns.is_contended and is_idle != client.is_idle_told and not client.is_dropping:
            client.is_idle_told = is_idle
            self.handle(ev.WorkFinished(client.id, "g0") if is_idle else ev.WorkResumed(client.id, "g0"))

    def _report(self) -> None:
        for client in self.clients.values():
            if self.reports:
                self.handle(ev.GpuTimeReported(client.id, "g0", self.now_ms - REPORT_MS, REPORT_MS, client.busy))
            client.busy = 0

    def drops(self) -> list[tuple[int, ac.DropCause]]:
        """The clients that were told to drop its lock since the last call, and why."""
        drops = [(one.client, one.cause) for one in self.actions if isinstance(one, ac.DropLock)]
        self.actions.clear()
        return drops

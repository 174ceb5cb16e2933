"""The one place where the core meets the world: events in, actions performed, one alarm.

`post` is called from the event loop only. It never waits: what goes to a client is put into that client's buffer, and a
client that does not read is cut off rather than awaited. Observers (journal, log, metrics) see each step afterwards."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from nvshare.core import actions as ac
from nvshare.core.events import AlarmRang, Event
from nvshare.core.node import Node
from nvshare.core.snapshot import ClientSnapshot, Snapshot, client_snapshot, gpu_snapshot, snapshot
from nvshare.scheduler.step import Step
from nvshare.scheduler.translation import FRAMES, Receiver


class Peer(Receiver, Protocol):
    """Who can be sent an action: a client's connection."""

    def put(self, frame: bytes) -> None:
        """Keep a frame until the step is over."""

    def flush(self) -> None:
        """Send what the step put there."""


class Engine:
    """Runs one core.Node. Connections enter themselves in `peers` under their client's id."""

    def __init__(
        self, node: Node, loop: asyncio.AbstractEventLoop, *, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.node = node
        self.peers: dict[int, Peer] = {}
        self.observers: list[Callable[[Step], None]] = []
        self.steps = 0
        self._loop = loop
        self._clock = clock
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0
        self._wall_offset = time.time() - clock() / 1e9

    def post(self, event: Event) -> Step:
        """Hand one event to the core and do what it says."""
        now = self._clock()
        actions = self.node.handle(now, event)
        self.perform(actions)
        self._set_alarm(now)
        self.steps += 1
        step = Step(now, self.wall(now), event, tuple(actions))
        for observe in self.observers:
            observe(step)
        return step

    def perform(self, actions: list[ac.Action]) -> None:
        """Pass each action to its client's connection; what is for a client that has gone needs nothing done."""
        touched: dict[int, Peer] = {}
        for action in actions:
            frame_of = FRAMES.get(type(action))
            if frame_of is not None:
                client: int = action.client  # type: ignore[attr-defined]
                peer = self.peers.get(client)
                if peer is not None:
                    peer.put(frame_of(action, peer))
                    touched[client] = peer
        for peer in touched.values():
            peer.flush()

    def now(self) -> int:
        """The core's time."""
        return self._clock()

    def snapshot(self) -> Snapshot:
        """The state now."""
        return snapshot(self.node, self._clock())

    def outline(self) -> Snapshot:
        """The state now without its clients: what costs the same however many there are."""
        node, now = self.node, self._clock()
        gpus = tuple(gpu_snapshot(gpu, now) for gpu in node.gpus.values())
        return Snapshot(node.is_scheduling, node.is_settling, node.settings.policy, gpus, ())

    def clients(self) -> Iterator[ClientSnapshot]:
        """The clients of now, each as it is when it is looked at; one that has gone by then is left out."""
        for client in list(self.node.clients.values()):
            if client.id in self.node.clients:
                yield client_snapshot(self.node, client, self._clock())

    def wall(self, now: int) -> float:
        """A monotonic time as seconds since 1970."""
        return self._wall_offset + now / 1e9

    def _set_alarm(self, now: int) -> None:
        """One alarm, never later than the core's deadline. An alarm that is too early only looks again."""
        deadline = self.node.next_deadline()
        if deadline is None or (self._alarm is not None and self._alarm_at <= deadline):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = deadline
        self._alarm = self._loop.call_later(max(0, deadline - now) / 1e9, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = self._clock()
        deadline = self.node.next_deadline()
        if deadline is not None and deadline <= now:
            self.post(AlarmRang())
        else:
            self._set_alarm(now)

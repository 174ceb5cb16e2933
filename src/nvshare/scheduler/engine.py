"""Runs the core: events go in, actions are performed, one alarm wakes it.

`post` is called from the event loop only. It never waits: what goes to a client is put into the buffer of its
connection, and a client that does not read is disconnected. Observers (journal, log, metrics) see each step, except
those of FREQUENT events from which nothing followed, which only the journal file sees.

Failures. An exception of the core ends the daemon: its state may be wrong for all clients. If the frame of an action
cannot be built or sent, its client is disconnected. An observer that fails misses the step; the others see it. The core
gets an event even if the code that is called before it fails."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Protocol

from nvshare.core import actions as ac
from nvshare.core.events import AlarmRang, Event, GpuTimeAsked, GpuTimeReported, UtilizationMeasured
from nvshare.core.model import MILLISECOND, NEVER, SECOND
from nvshare.core.node import Node
from nvshare.core.snapshots.claim_snapshot import claims
from nvshare.core.snapshots.snapshot import ClientSnapshot, Snapshot, client_snapshot, gpu_snapshot, outlook
from nvshare.journal import Step
from nvshare.scheduler.observe.log import log
from nvshare.translation import FRAMES, Receiver

COMPLAIN_NS = 60 * SECOND
LATE_NS = 20 * MILLISECOND
READ_FIRST_S = 0.001
"""An alarm that is this late rings again after this time: this process did not run, and answers that arrived before
the deadline are still to be read."""
ALARM_PAUSE = 3
"""After an alarm that took a time, the next one rings after at least so many times that time: what follows from the
passing of time is charged to no account, and takes at most a quarter of the scheduler's time."""
LEAST_PAUSED_NS = MILLISECOND // 5
"""Shorter alarms are followed by no pause."""
FREQUENT = (GpuTimeAsked, GpuTimeReported, UtilizationMeasured)
"""Events that only ask for or report figures. Each running client reports its GPU time five times a second."""


class Outgoing(Receiver, Protocol):
    """The sending side of a client's connection."""

    out: list[bytes]
    """The frames of the present step."""
    sends_ping: bool
    """Its client speaks a version of the protocol that has PING."""
    unheard_sweeps: int
    """How often the connection has been looked at since data came, and in `untold_sweeps` since data went."""
    untold_sweeps: int

    def flush(self) -> None:
        """Send the frames of the step and empty the list."""

    def fail(self, error: Exception) -> None:
        """Disconnect; not from within a step."""


class Engine:
    """Runs one core.Node. Each connection adds itself to `connections` under its client's id."""

    def __init__(
        self,
        node: Node,
        loop: asyncio.AbstractEventLoop,
        *,
        clock: Callable[[], int] = time.monotonic_ns,
        work_clock: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        self.node = node
        self.connections: dict[int, Outgoing] = {}
        self.observers: list[Callable[[Step], None]] = []
        """They see every step, except those of FREQUENT events without actions."""
        self.observers_of_figures: list[Callable[[Step], None]] = []
        """They see the steps of FREQUENT events without actions."""
        self.observers_of: defaultdict[type[Event], list[Callable[[Step], None]]] = defaultdict(list)
        """They see the steps of one kind of event."""
        self.before: Callable[[int, Event], None] | None = None
        """Called with the time and the event before the core gets it; it may post other events first."""
        self.steps = 0
        self.on_failure: Callable[[Exception], None] = lambda error: None
        """Called with an exception of the core before it is raised to the caller that posted the event."""
        self.failure: Exception | None = None
        """The last exception of the core."""
        self._complained_at: dict[Callable[..., None], int] = {}
        self._loop = loop
        self._clock = clock
        self._work_clock = work_clock
        """The processor time of this thread: a busy machine makes no alarm long."""
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = NEVER
        self._pauses_until = 0
        """No alarm rings before."""
        self._is_reading_first = False
        self.follow_clock()
        deadline = node.next_deadline()
        if deadline is not None:
            self._set_alarm(clock(), deadline)

    def post(self, event: Event) -> Step:
        """Give one event to the core and perform its actions. A failure is reported, whatever posted the event."""
        now = self._clock()
        if self.before is not None:
            try:
                self.before(now, event)
            except Exception as error:
                self._outsider_failed(self.before, error)
        try:
            actions = self.node.handle(now, event)
            self.perform(actions)
            deadline = self.node.next_deadline()
            if deadline is not None and deadline < self._alarm_at:
                self._set_alarm(now, deadline)
        except Exception as error:
            self._core_failed(error)
            raise
        self.steps += 1
        step = Step(now, self._wall_offset + now / 1e9, event, tuple(actions))
        kind = type(event)
        observers = self.observers if kind not in FREQUENT or actions else self.observers_of_figures
        if kind in self.observers_of:
            observers = observers + self.observers_of[kind]
        for observe in observers:
            try:
                observe(step)
            except Exception as error:
                self._outsider_failed(observe, error)
        return step

    def _core_failed(self, error: Exception) -> None:
        self.failure = error
        self.on_failure(error)

    def _outsider_failed(self, called: Callable[..., None], error: Exception) -> None:
        """Log it, at most once in COMPLAIN_NS for each of them, unless it posted an event and the core failed."""
        if error is self.failure:
            raise error
        now = self._clock()
        if now - self._complained_at.get(called, -COMPLAIN_NS) >= COMPLAIN_NS:
            self._complained_at[called] = now
            log.bug("observer", f"kept {getattr(called, '__qualname__', called)} from a step", error)

    def perform(self, actions: list[ac.Action]) -> None:
        """Put the frame of each action into its client's connection; a client that has left is skipped."""
        connections = self.connections
        touched: list[Outgoing] = []
        for action in actions:
            kind = type(action)
            if kind in FRAMES:
                connection = connections.get(action.client)  # type: ignore[attr-defined]
                if connection is not None:
                    out = connection.out
                    if not out:
                        touched.append(connection)
                    try:
                        out.append(FRAMES[kind](action, connection))
                    except Exception as error:
                        self._loop.call_soon(connection.fail, error)
        for connection in touched:
            try:
                connection.flush()
            except Exception as error:
                self._loop.call_soon(connection.fail, error)

    def count_gpu_time(self) -> None:
        """Brings `seat.gpu_ns` up to date. Not for observers: the journal would have the steps in another order."""
        if self.failure is None:
            self.post(GpuTimeAsked())

    def now(self) -> int:
        """The core's time."""
        return self._clock()

    def outline(self) -> Snapshot:
        """The state now without its clients."""
        self.count_gpu_time()
        node, now = self.node, self._clock()
        gpus = tuple(gpu_snapshot(gpu, now) for gpu in node.gpus.values())
        return Snapshot(node.is_scheduling, node.is_settling, node.orders.policy, gpus, (), claims(node))

    def clients(self) -> Iterator[ClientSnapshot]:
        """The clients, each as it is when it is read; one that has left by then is skipped. Call `outline` first."""
        gpus = outlook(self.node, self._clock())
        for client in list(self.node.clients.values()):
            if self.node.clients.get(client.id) is client:  # A new client may have its number.
                yield client_snapshot(self.node, client, self._clock(), gpus)

    def follow_clock(self) -> None:
        """The machine's clock may have been set, or the machine may have slept, since this was last called."""
        self._wall_offset = time.time() - self._clock() / 1e9

    def wall(self, now: int) -> float:
        """A monotonic time as seconds since 1970."""
        return self._wall_offset + now / 1e9

    def _set_alarm(self, now: int, deadline: int) -> None:
        """One alarm, at the core's deadline or at the end of the pause. One that is too early only sets the next."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = deadline
        self._alarm = self._loop.call_later(max(0, deadline - now, self._pauses_until - now) / 1e9, self._ring)

    def _ring(self) -> None:
        self._alarm, self._alarm_at = None, NEVER
        now = self._clock()
        try:
            deadline = self.node.next_deadline()
        except Exception as error:
            self._core_failed(error)
            raise
        if deadline is None:
            return
        if deadline > now:
            self._set_alarm(now, deadline)
        elif now - deadline > LATE_NS and not self._is_reading_first:
            self._is_reading_first = True
            self._alarm_at = deadline
            self._alarm = self._loop.call_later(READ_FIRST_S, self._ring)
        else:
            self._is_reading_first = False
            began = self._work_clock()
            self._pauses_until = 0
            self.post(AlarmRang())
            took = self._work_clock() - began
            if took > LEAST_PAUSED_NS:
                self._pause(took)

    def _pause(self, took_ns: int) -> None:
        """The last alarm took so long. It has set the next one already."""
        now = self._clock()
        self._pauses_until = now + ALARM_PAUSE * took_ns
        if self._alarm is not None and self._alarm_at < self._pauses_until:
            self._set_alarm(now, self._alarm_at)

"""The scheduler of a world: the core, its alarm and its connections. It may die, start again, or hang."""

import zlib
from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec

from nvshare.client_machine.library import Absence, Config
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import MILLISECOND, SECOND, Settings
from nvshare.core.node import Node
from nvshare.schedsim.scheduler_end import PONG, Message, SchedulerEnd
from nvshare.schedsim.worlds import laws
from nvshare.schedsim.worlds.chance import Chance
from nvshare.schedsim.worlds.connection import Connection, Pipe
from nvshare.schedsim.worlds.process import Process
from nvshare.schedsim.worlds.share_laws import ShareLaws
from nvshare.schedsim.worlds.timeline import Alarm, Timeline
from nvshare.schedsim.worlds.waiting_laws import WaitingLaws
from nvshare.translation import Registrant

MAX_RINGS = 20
"""Alarms at one moment: one may make the next due, but not for ever."""

SURELY_HUNG_NS = Config().silence_ns + 10 * SECOND
"""By then a waiting client takes a scheduler that says nothing for hung; messages under way take up to 3 s."""
SURELY_AWAY_NS = Config().orphan_ns + SECOND
"""By then nobody waits for a scheduler that is not there."""

_ENCODER = msgspec.json.Encoder()


def _named(record: ev.Event | ac.Action) -> tuple[str, ev.Event | ac.Action]:
    return type(record).__name__, record


class Daemon:
    """`tell` is one step. All laws that concern the scheduler are checked here."""

    def __init__(
        self,
        timeline: Timeline,
        chance: Chance,
        settings: Settings,
        *,
        cards: dict[str, int],
        cluster: tuple[ev.Event, ...],
        processes: dict[int, Process],
        is_paranoid: bool,
    ) -> None:
        """`processes` are all of the world, connected or not; `cluster` is what Kubernetes says, if there is one."""
        self.settings = settings
        self.node: Node | None = None
        """The core; None while the scheduler is away."""
        self.steps = 0
        """Without reports of GPU time."""
        self.digest = 0
        self.journal: deque[tuple[int, ev.Event, tuple[ac.Action, ...]]] = deque(maxlen=60)
        self.given: set[int] = set()
        """The numbers of all locks."""
        self.clock_error = 0
        """By how much its clock is behind."""
        self._timeline = timeline
        self._chance = chance
        self._cards = cards
        self._cluster = cluster
        self._processes = processes
        self._is_paranoid = is_paranoid
        self._epoch = 0
        self._last_client = 0
        self._share_laws = ShareLaws(0, settings.grace_ns)
        self._waiting_laws = WaitingLaws(0, settings.grace_ns)
        self._by_client: dict[int | None, Process] = {}
        self._alarm = Alarm(timeline, self._ring)
        self._rang_at = 0
        self._rings = 0
        self._hung_since: int | None = None
        self._away_since = timeline.now
        self._backlog: list[Callable[[], None]] = []

    def start(self) -> None:
        if self.node is not None:
            return
        now = self._timeline.now
        laws.check_nobody_waits_for_the_absent(list(self._processes.values()), self._away_since, now - SURELY_AWAY_NS)
        settles_at = self._now + self.settings.settle_ns if self._epoch else None
        self._epoch += 1
        self._alarm.clear()
        self._share_laws = ShareLaws(self._now, self.settings.grace_ns)
        self._waiting_laws = WaitingLaws(self._now, self.settings.grace_ns)
        self.node = Node(
            self.settings,
            epoch=self._epoch,
            settles_at=settles_at,
            expects_pods=bool(self._cluster),
            is_paranoid=self._is_paranoid,
        )
        for gpu, card in self._cards.items():
            self.tell(ev.GpuFound(gpu, card))
        late = self._chance.choice([0, 5 * SECOND]) if self._cluster and self._epoch > 1 else 0
        for event in self._cluster:  # The API server may be away for a while.
            if late:
                self._timeline.at(late, partial(self.tell, event))
            else:
                self.tell(event)

    def kill(self) -> None:
        self.node = None
        self._away_since = self._timeline.now
        self._hung_since = None
        self._backlog.clear()
        for process in list(self._processes.values()):
            self.cut(process)

    def hang(self) -> None:
        """SIGSTOP: it keeps its connections, and takes in what came meanwhile when it goes on."""
        if self.node is not None and self._hung_since is None:
            self._hung_since = self._timeline.now

    @property
    def is_hung(self) -> bool:
        """The scheduler is there, but does nothing."""
        return self._hung_since is not None

    def go_on(self) -> None:
        """It hangs no longer."""
        if self._hung_since is None:
            return
        if self._timeline.now - self._hung_since >= SURELY_HUNG_NS:
            laws.check_nobody_waits_for_the_hung(list(self._processes.values()), self._hung_since)
        self._hung_since = None
        backlog, self._backlog = self._backlog, []
        for what in backlog:
            what()

    def slept(self) -> None:
        """The machine slept: nobody could notice anything in that time."""
        self._away_since = self._timeline.now
        if self._hung_since is not None:
            self._hung_since = self._timeline.now

    @property
    def _now(self) -> int:
        """Of the machine's clock, which counts from its start and is never negative."""
        return max(0, self._timeline.now - self.clock_error)

    def tell(self, event: ev.Event) -> None:
        """One step of the core: what follows from it is sent, and the laws are checked."""
        if self.node is None:
            return
        if self._hung_since is not None:
            self._backlog.append(lambda: self.tell(event))
            return
        if isinstance(event, ev.ClientLeft) and event.client not in self.node.clients:
            return
        self.steps += not isinstance(event, ev.GpuTimeReported)
        now = self._now
        self._share_laws.before(now, event, self.node)
        actions = self.node.handle(now, event)
        self._share_laws.after(self.node)
        self._waiting_laws.check(now, event, actions, self.node)
        self.journal.append((now, event, tuple(actions)))
        self.digest = zlib.crc32(_ENCODER.encode((now, _named(event), list(map(_named, actions)))), self.digest)
        if actions:
            laws.check_numbers(self.given, actions)
            laws.check_budgets(self.node, actions)
            laws.check_claims(self.node, self._cards)
            laws.check_moves(self.node, actions)
            laws.check_gangs(self.node, actions)
        for part in (event, *actions):
            process = self._by_client.get(getattr(part, "client", None))
            if process is not None:
                assert process.connection is not None
                frame = process.connection.scheduler.frame_of(part)
                if frame is not None:
                    self._send(process, process.connection, frame)
                laws.check_process(self.node, process)
        self._alarm.set(self.node.next_deadline(), self._until)

    def _until(self, deadline: int) -> int:
        late = self._chance.alarm_lateness()
        return max(0, deadline - self._now) + late

    def _ring(self) -> None:
        self._rings = self._rings + 1 if self._rang_at == self._timeline.now else 0
        self._rang_at = self._timeline.now
        assert self._rings < MAX_RINGS, "the alarm never stops ringing"
        self.tell(ev.AlarmRang())

    # Its connections.

    def accept(self, process: Process) -> None:
        """A process tries to connect."""
        if self.node is None:
            process.machine.not_connected(self._timeline.now, Absence.AWAY)
            return
        assert process.connection is None, f"p{process.pid} has a connection already"
        self._last_client += 1
        who = Registrant(self._last_client, process.pid, process.group, process.group, "")
        end = SchedulerEnd(who, list(process.uses), self.settings.grace_ns // MILLISECOND)
        up, down = (Pipe(self._timeline, self._chance) for _ in range(2))
        process.connection = Connection(self._epoch, end, up, down)
        self._by_client[self._last_client] = process
        process.machine.connected()

    def cut(self, process: Process) -> None:
        """A connection ends; each side notices when it does."""
        connection = process.connection
        if connection is None or not connection.is_open:
            return
        connection.is_open = False
        self._by_client.pop(connection.client, None)
        process.do(process.lose)
        self.tell(ev.ClientLeft(connection.client))

    def process_died(self, process: Process) -> None:
        """A process was killed; its connection ends with it."""
        connection, process.connection = process.connection, None
        if connection is not None:
            connection.is_open = False
            self._by_client.pop(connection.client, None)
            self.tell(ev.ClientLeft(connection.client, "killed"))

    def say(self, process: Process, frames: bytes) -> None:
        """A process says something to the scheduler."""
        connection = process.connection
        assert connection is not None
        for message in connection.scheduler.feed(frames):
            is_early = not process.machine.is_registered and connection.scheduler.is_of_a_turn(message)
            assert not is_early, f"p{process.pid} has not been answered yet: {message}"
            connection.up.carry(lambda m=message: self._hear(process, connection, m))  # type: ignore[misc]

    def _hear(self, process: Process, connection: Connection, message: Message) -> None:
        if not connection.is_open or connection.epoch != self._epoch or self.node is None:
            return
        if self._hung_since is not None:
            self._backlog.append(lambda: self._hear(process, connection, message))
            return
        event = connection.scheduler.event_of(message)
        if event is None:
            self._send(process, connection, PONG)
            if connection.client in self.node.unheard:
                self.tell(ev.ClientHeard(connection.client))
        else:
            self.tell(event)

    def _send(self, process: Process, connection: Connection, frame: bytes) -> None:
        def take() -> None:
            if connection.is_open:
                process.hear(frame)

        connection.down.carry(lambda: process.do(take))

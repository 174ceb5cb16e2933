"""Answers the requests of nvsharectl: they become events, or are answered from the state and the journal."""

import asyncio
import socket
import time
from collections.abc import Callable
from itertools import islice
from typing import cast

import msgspec
from msgspec.structs import replace

from nvshare import __version__, admin
from nvshare.admin import client_name
from nvshare.config import MAX_QUANTUM_S
from nvshare.core import events as ev
from nvshare.core.actions import Refuse
from nvshare.core.model import SECOND
from nvshare.core.queue.policies import MAX_PRIORITY, MIN_PRIORITY
from nvshare.core.snapshots.limit_snapshot import limits
from nvshare.core.snapshots.snapshot import ClientSnapshot
from nvshare.journal import Step
from nvshare.kube.annotations import MAX_WEIGHT
from nvshare.percentage import MAX_PERCENT, MIN_PERCENT
from nvshare.quantity import MAX_BYTES
from nvshare.scheduler.clients.connection_admission import Account
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.names import Names
from nvshare.scheduler.observe.step_text import clients_of, describe
from nvshare.scheduler.observe.story import summary_of
from nvshare.scheduler.observe.usage import Usage
from nvshare.scheduler.operator.effects import effect_of
from nvshare.scheduler.operator.targets import TargetError, client_named, gpu_named, group_named
from nvshare.scheduler.viewer_connection import ConnectionLimit, FullError, send, write
from nvshare.unix_socket import is_operator, peer_credentials

MAX_OPERATORS = 32
MAX_FOLLOWERS = 16
"""Of these, how many may follow events."""
STEPS_PER_PIECE = 100
"""How many steps are put into words before clients are served again."""
PIECE_NS = 5_000_000
"""For how long the status is made before clients are served again; a client of 64 GPUs takes a millisecond."""
MAX_BEHIND = 1 << 20
"""A follower of events that has this many unread bytes is disconnected."""


class Control:
    """Serves the operator's socket."""

    def __init__(self, engine: Engine, journal: Journal, host: str = "", usage: Usage | None = None) -> None:
        self._engine = engine
        self._journal = journal
        self._host = host
        self._usage = usage or Usage(engine.node.clients)
        self._started_ns = engine.now()
        self._names = Names(journal.programs, engine.node.gpus, engine.node.groups)
        self._operators = ConnectionLimit(MAX_OPERATORS)
        self._followers = ConnectionLimit(MAX_FOLLOWERS)
        self._answers: dict[type[admin.Request], Callable[..., admin.Answer]] = {
            admin.SetQuantum: self._set_quantum,
            admin.SetMode: lambda request: self._post(ev.ModeSet(request.mode, self._gpu(request.gpu))),
            admin.SetScheduling: lambda request: self._post(ev.SchedulingSwitched(request.on)),
            admin.SetLimit: self._set_limit,
            admin.SetPolicy: lambda request: self._post(ev.PolicySet(request.policy)),
            admin.SetWeight: self._set_weight,
            admin.SetPriority: self._set_priority,
            admin.SetCoreLimit: self._set_core_limit,
            admin.SetPause: self._set_pause,
            admin.YieldTurn: self._yield_turn,
            admin.GetLimits: lambda request: admin.Limits(limits(self._engine.node)),
            admin.GetReport: self._report,
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One operator's connection."""
        try:
            with self._operators.hold(writer):
                await self._serve(reader, writer)
        except FullError:
            await send(writer, admin.encode(admin.Failed("too many operators at once; try again")))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Request by request."""
        if not _is_allowed(cast("socket.socket", writer.get_extra_info("socket"))):
            await send(
                writer,
                admin.encode(admin.Failed("only root and the scheduler's own user may use this socket; try sudo")),
            )
            return
        try:
            while line := await reader.readline():
                await self._answer(line, reader, writer)
        except (ValueError, asyncio.LimitOverrunError):
            pass  # A line that is too long.

    async def _answer(self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = self.request_of(line)
        if isinstance(request, admin.GetEvents):
            await self.send_events(request, reader, writer)
        else:
            answer = request if isinstance(request, admin.Failed) else await self.answer_to(request)
            await send(writer, admin.encode(answer))

    def request_of(self, line: bytes) -> admin.AnyRequest | admin.Failed:
        """The request in a line; Failed if there is none."""
        try:
            return admin.decode_request(line)
        except admin.AdminError as error:
            return admin.Failed(str(error))

    async def answer_to(self, request: admin.Request, account: Account | None = None) -> admin.Answer:
        """The answer to every request but GetEvents. What shows all clients is made in pieces, between which the
        scheduler does other work. The time is charged to `account`."""
        began = time.monotonic_ns()
        try:
            match request:
                case admin.GetStatus():
                    return await self._status(account)
                case admin.GetStory():
                    return await self._story(request, account)
                case _:
                    answer = self._answers[type(request)](request)
                    _charge(account, began)
                    return answer
        except TargetError as error:
            return admin.Failed(str(error))

    async def _status(self, account: Account | None) -> admin.Status:
        began = time.monotonic_ns()
        now, outline = self._engine.now(), self._engine.outline()
        clients: list[ClientSnapshot] = []
        for client in self._engine.clients():
            clients.append(client)
            if time.monotonic_ns() - began > PIECE_NS:
                _charge(account, began)
                await asyncio.sleep(0)
                began = time.monotonic_ns()
        _charge(account, began)
        shown = replace(outline, clients=tuple(clients))
        started = self._engine.wall(self._started_ns)
        return admin.Status(__version__, started, self._engine.wall(now), shown, self._host)

    def _set_quantum(self, request: admin.SetQuantum) -> admin.Answer:
        if not 1 <= request.seconds <= MAX_QUANTUM_S:
            return admin.Failed(f"the quantum must be between 1 and {MAX_QUANTUM_S} seconds")
        return self._post(ev.QuantumSet(request.seconds * SECOND, self._gpu(request.gpu)))

    def _set_limit(self, request: admin.SetLimit) -> admin.Answer:
        if request.limit is not None and not 0 <= request.limit <= MAX_BYTES:
            return admin.Failed(f"a limit must be between 0 and {MAX_BYTES} bytes")
        return self._post(ev.LimitSet(group_named(self._engine.node, request.target), request.limit))

    def _set_weight(self, request: admin.SetWeight) -> admin.Answer:
        if request.weight is not None and not 1 <= request.weight <= MAX_WEIGHT:
            return admin.Failed(f"a weight must be between 1 and {MAX_WEIGHT}")
        return self._post(ev.WeightSet(group_named(self._engine.node, request.target), request.weight))

    def _set_priority(self, request: admin.SetPriority) -> admin.Answer:
        if request.priority is not None and not MIN_PRIORITY <= request.priority <= MAX_PRIORITY:
            return admin.Failed(f"a priority must be between {MIN_PRIORITY} and {MAX_PRIORITY}")
        return self._post(ev.PrioritySet(group_named(self._engine.node, request.target), request.priority))

    def _set_core_limit(self, request: admin.SetCoreLimit) -> admin.Answer:
        if request.percent is not None and not MIN_PERCENT <= request.percent <= MAX_PERCENT:
            return admin.Failed(f"a core limit must be between {MIN_PERCENT} and {MAX_PERCENT} percent")
        return self._post(ev.CoreLimitSet(group_named(self._engine.node, request.target), request.percent))

    def _set_pause(self, request: admin.SetPause) -> admin.Answer:
        if (request.target is None) == (request.gpu is None):
            return admin.Failed("name a client or pod, or a GPU")
        group = None if request.target is None else group_named(self._engine.node, request.target)
        return self._post(ev.PauseSet(request.on, group, self._gpu(request.gpu)))

    def _yield_turn(self, request: admin.YieldTurn) -> admin.Answer:
        if (request.client is None) == (request.gpu is None):
            return admin.Failed("name a client or pod, or a GPU")
        client = None if request.client is None else client_named(self._engine.node, {}, request.client)
        return self._post(ev.YieldAsked(client, self._gpu(request.gpu)))

    def _report(self, request: admin.GetReport) -> admin.Answer:
        now = self._engine.now()
        end = self._engine.wall(now)
        self._engine.count_gpu_time()
        self._usage.collect(now, end)
        begin, sums = self._usage.report(end - request.since_s, request.by)
        label = self._names.gpu if request.by == "gpu" else str
        rows = tuple(
            admin.ReportRow(
                key, label(key), **msgspec.structs.asdict(use), gpu_percent=_percent(use.gpu_seconds, end - begin)
            )
            for key, use in sums
        )
        return admin.Report(begin, end, request.by, rows)

    async def _story(self, request: admin.GetStory, account: Account | None) -> admin.Story:
        client = client_named(self._engine.node, self._journal.programs, request.client)
        node = (await self._status(account)).node
        lines = [line for step in self._journal.story(client) for line in self._lines(step)]
        summary = summary_of(node, client, self._journal.programs.get(client, ""))
        return admin.Story(summary, tuple(lines if request.last is None else _newest(lines, request.last)))

    def _gpu(self, target: str | None) -> str | None:
        return None if target is None else gpu_named(self._engine.node.gpus, target)

    def _post(self, event: ev.Event) -> admin.Answer:
        step = self._engine.post(event)
        for action in step.actions:
            if isinstance(action, Refuse):
                return admin.Failed(action.reason)
        return admin.Done(effect_of(self._engine.node, step, self._names))

    async def send_events(
        self,
        request: admin.GetEvents,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        account: Account | None = None,
    ) -> None:
        """The last lines; with `follow` also each new one until the peer disconnects. The time that past lines take is
        charged to the account."""
        try:
            wanted = self._filter_of(request)
        except TargetError as error:
            await send(writer, admin.encode(admin.Failed(str(error))))
            return
        for line in await self._last_lines(request.last, wanted, account):
            await send(writer, admin.encode(line))
        if not request.follow:
            await send(writer, admin.encode(admin.Done()))
            return
        try:
            with self._followers.hold(writer):
                await self._follow(reader, writer, wanted)
        except FullError:
            await send(writer, admin.encode(admin.Failed("too many follow events already; end one, or leave out -f")))

    def _filter_of(self, request: admin.GetEvents) -> Callable[[Step], bool]:
        oldest = 0.0 if request.since_s is None else self._engine.wall(self._engine.now()) - request.since_s
        if request.client is None:
            return lambda step: step.time >= oldest
        client = client_named(self._engine.node, self._journal.programs, request.client)
        return lambda step: step.time >= oldest and client in clients_of(step)

    async def _last_lines(
        self, count: int, wanted: Callable[[Step], bool], account: Account | None
    ) -> list[admin.StepLine]:
        """The newest lines, oldest first. Many steps give no line, so steps are read until there are enough lines;
        clients are served in between."""
        newest_first: list[admin.StepLine] = []
        steps = reversed(self._journal.all())
        while len(newest_first) < count and (piece := list(islice(steps, STEPS_PER_PIECE))):
            began = time.monotonic_ns()
            newest_first += [line for step in piece if wanted(step) for line in reversed(self._lines(step))]
            if account is not None:
                account.charge(began, time.monotonic_ns())
            await asyncio.sleep(0)
        return newest_first[: max(0, count)][::-1]

    def _lines(self, step: Step) -> list[admin.StepLine]:
        clients = tuple(client_name(client) for client in sorted(clients_of(step)))
        return [admin.StepLine(step.time, text, clients) for text in describe(step, self._names)]

    async def _follow(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wanted: Callable[[Step], bool]
    ) -> None:
        def tell(step: Step) -> None:
            if writer.is_closing() or not wanted(step):
                return
            if writer.transport.get_write_buffer_size() > MAX_BEHIND:
                log.warning("Closing a follower of events that does not read")
                writer.transport.abort()
            else:
                write(writer, b"".join(map(admin.encode, self._lines(step))))

        stop = self._journal.follow(tell)
        try:
            if await reader.read(1):
                raise ConnectionAbortedError("a follower of events has nothing more to say")
        finally:
            stop()


def _percent(part: float, whole: float) -> float:
    return 100 * part / whole if whole > 0 else 0.0


def _newest(lines: list[admin.StepLine], count: int) -> list[admin.StepLine]:
    return lines[-count:] if count > 0 else []


def _is_allowed(connection: socket.socket) -> bool:
    return is_operator(peer_credentials(connection).uid)


def _charge(account: Account | None, began_ns: int) -> None:
    if account is not None:
        account.charge(began_ns, time.monotonic_ns())

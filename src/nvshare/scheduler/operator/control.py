"""Answers the requests of nvsharectl: they become events, or are answered from the state and the journal."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import cast

import msgspec
from msgspec.structs import replace

from nvshare import __version__, admin
from nvshare.config import MAX_QUANTUM_S
from nvshare.core import events as ev
from nvshare.core.actions import Refuse
from nvshare.core.model import SECOND
from nvshare.core.queue.policies import MAX_PRIORITY, MIN_PRIORITY
from nvshare.core.snapshots.limit_snapshot import limits
from nvshare.kube.annotations import MAX_WEIGHT
from nvshare.percentage import MAX_PERCENT, MIN_PERCENT
from nvshare.quantity import MAX_BYTES
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.names import Names
from nvshare.scheduler.observe.story import summary_of
from nvshare.scheduler.observe.usage import Usage
from nvshare.scheduler.observe.usage_report import UsageReport
from nvshare.scheduler.operator.effects import effect_of, in_force
from nvshare.scheduler.operator.past_events import Follower, StepLines, Wanted
from nvshare.scheduler.operator.targets import TargetError, client_named, gpu_named, group_named
from nvshare.scheduler.pieces import Owner, Pieces
from nvshare.scheduler.viewer_connection import ConnectionLimit, FullError, send, write
from nvshare.unix_socket import is_operator, peer_credentials

MAX_OPERATORS = 32
MAX_FOLLOWERS = 16
"""Of these, how many may follow events."""
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
        self.pieces = Pieces()
        """Also of those who read by other ways than this socket."""
        self._lines = StepLines(journal, self._names, self.pieces)
        self._operators = ConnectionLimit(MAX_OPERATORS)
        self._followers = ConnectionLimit(MAX_FOLLOWERS)
        self._orders: dict[type[admin.Request], Callable[..., admin.Answer]] = {
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
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One operator's connection."""
        try:
            with self._operators.hold(writer) as user:
                await self._serve(reader, writer, Owner(f"operator {user}"))
        except FullError:
            await send(writer, admin.encode(admin.Failed("too many operators at once; try again")))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, owner: Owner) -> None:
        """Request by request."""
        if not _is_allowed(cast("socket.socket", writer.get_extra_info("socket"))):
            await send(
                writer,
                admin.encode(admin.Failed("only root and the scheduler's own user may use this socket; try sudo")),
            )
            return
        try:
            while line := await reader.readline():
                await self._answer(line, reader, writer, owner)
        except (ValueError, asyncio.LimitOverrunError):
            pass  # A line that is too long.

    async def _answer(
        self, line: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, owner: Owner
    ) -> None:
        request = self.request_of(line)
        if isinstance(request, admin.GetEvents):
            await self.send_events(request, reader, writer, owner)
        elif isinstance(request, admin.Failed):
            await send(writer, admin.encode(request))
        else:
            await send(writer, await self.answer_to(request, owner))

    def request_of(self, line: bytes) -> admin.AnyRequest | admin.Failed:
        """The request in a line; Failed if there is none."""
        try:
            return admin.decode_request(line)
        except admin.AdminError as error:
            return admin.Failed(str(error))

    async def answer_to(self, request: admin.Request, owner: Owner) -> bytes:
        """The answer to every request but GetEvents, encoded. Only orders are performed at once; what is read is made
        in pieces (scheduler.pieces), and the time is charged to the owner's account."""
        try:
            if type(request) in self._orders:
                return admin.encode(self._orders[type(request)](request))
            answer = await self._reading(request, owner)
        except TargetError as error:
            answer = admin.Failed(str(error))
        async with self.pieces.turn(owner):
            return admin.encode(answer)

    async def _reading(self, request: admin.Request, owner: Owner) -> admin.Answer:
        match request:
            case admin.GetStatus():
                return await self._status(owner)
            case admin.GetStory():
                return await self._story(request, owner)
            case admin.GetReport():
                return await self._report(request, owner)
            case _:
                return admin.Limits(tuple(await self.pieces.all_of(limits(self._engine.node), owner)))

    async def _status(self, owner: Owner) -> admin.Status:
        async with self.pieces.turn(owner):
            now, outline = self._engine.now(), self._engine.outline()
        clients = await self.pieces.all_of(self._engine.clients(), owner)
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

    async def _report(self, request: admin.GetReport, owner: Owner) -> admin.Report:
        async with self.pieces.turn(owner):
            now = self._engine.now()
            end = self._engine.wall(now)
            self._engine.count_gpu_time()
            self._usage.collect(now, end)
            since = end - request.since_s
            report = UsageReport(self._usage.periods_since(since), since, request.by)
        rows = await self.pieces.all_of(self._report_rows(report, end), owner)
        return admin.Report(report.begin, end, request.by, tuple(filter(None, rows)), report.left_out)

    def _report_rows(self, report: UsageReport, end: float) -> Iterator[admin.ReportRow | None]:
        """Its rows; before them None, again and again."""
        yield from report.make()
        label, seconds = self._names.gpu if report.by == "gpu" else str, end - report.begin
        for key, use in report.rows:
            percent = 100 * use.gpu_seconds / seconds if seconds > 0 else 0.0
            yield admin.ReportRow(key, label(key), **msgspec.structs.asdict(use), gpu_percent=percent)

    async def _story(self, request: admin.GetStory, owner: Owner) -> admin.Story:
        async with self.pieces.turn(owner):
            client = client_named(self._engine.node, self._journal.programs, request.client)
        node = (await self._status(owner)).node
        lines = await self._lines.last(request.last, Wanted(client), owner)
        async with self.pieces.turn(owner):
            summary = summary_of(node, client, self._journal.programs.get(client, ""))
        return admin.Story(summary, tuple(lines))

    def _gpu(self, target: str | None) -> str | None:
        return None if target is None else gpu_named(self._engine.node.gpus, target)

    def _post(self, event: ev.Event) -> admin.Answer:
        before = in_force(self._engine.node, event)
        step = self._engine.post(event)
        for action in step.actions:
            if isinstance(action, Refuse):
                return admin.Failed(action.reason)
        is_new = in_force(self._engine.node, event) != before
        return admin.Done(effect_of(self._engine.node, step, self._names, is_new=is_new))

    async def send_events(
        self,
        request: admin.GetEvents,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        owner: Owner,
        reads: contextlib.AbstractAsyncContextManager[object] = contextlib.nullcontext(),  # noqa: B008 - has no state
    ) -> None:
        """The past lines; with `follow` also each new one until the peer disconnects. `reads` is held while the past
        lines are made. The time is charged to the owner's account."""
        try:
            with self._followers.hold(writer) if request.follow else contextlib.nullcontext():
                await self._send_events(request, reader, writer, owner, reads)
        except FullError:
            await send(writer, admin.encode(admin.Failed("too many follow events already; end one, or leave out -f")))
        except TargetError as error:
            await send(writer, admin.encode(admin.Failed(str(error))))

    async def _send_events(
        self,
        request: admin.GetEvents,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        owner: Owner,
        reads: contextlib.AbstractAsyncContextManager[object],
    ) -> None:
        follower = None
        try:
            async with reads:
                if writer.is_closing():
                    return
                async with self.pieces.turn(owner):
                    wanted = self._wanted(request)
                follower = self._follower(wanted, writer) if request.follow else None
                past = await self._lines.last(request.last, wanted, owner, follower)
            await self._send_text(map(admin.encode, past), writer, owner)
            if follower is None:
                await send(writer, admin.encode(admin.Done()))
                return
            while follower.has_more():
                await self._send_text(follower.kept(), writer, owner)
            if await reader.read(1):
                raise ConnectionAbortedError("a follower of events has nothing more to say")
        finally:
            if follower is not None:
                follower.stop()

    async def _send_text(self, parts: Iterator[bytes], writer: asyncio.StreamWriter, owner: Owner) -> None:
        async with contextlib.aclosing(self.pieces.text_of(parts, owner)) as texts:
            async for text in texts:
                await send(writer, text)

    def _wanted(self, request: admin.GetEvents) -> Wanted:
        oldest = 0.0 if request.since_s is None else self._engine.wall(self._engine.now()) - request.since_s
        if request.client is None:
            return Wanted(None, oldest)
        return Wanted(client_named(self._engine.node, self._journal.programs, request.client), oldest)

    def _follower(self, wanted: Wanted, writer: asyncio.StreamWriter) -> Follower:
        def give_up() -> None:
            log.warning("Closing a follower of events that is too far behind")
            writer.transport.abort()

        def tell(text: bytes) -> None:
            if writer.is_closing():
                return
            if writer.transport.get_write_buffer_size() > MAX_BEHIND:
                give_up()
            else:
                write(writer, text)

        return Follower(self._lines, wanted, tell, give_up)


def _is_allowed(connection: socket.socket) -> bool:
    return is_operator(peer_credentials(connection).uid)

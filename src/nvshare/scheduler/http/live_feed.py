"""The events of the live page: server-sent events, made from the steps of the journal and snapshots of the core.

    event: status   the whole state, as /api/v1/status has it, at once, and then once a second while anything changes
    event: steps    what happened, oldest first: lines of text and changes of state; the remembered past at once, then
                    the present ten times a second
    : alive         a comment, so that a closed page is detected

The documents are those of nvshare.status_document.

A page must not delay clients: text and JSON are made in pieces (scheduler.pieces). A page that is read slowly must not
take much memory: the next piece is made from the present state, and from the steps that the journal still has. Steps
that are left out are counted (`lost`), and the next status corrects the page."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Iterator
from itertools import islice

import msgspec

from nvshare import __version__, admin
from nvshare.core.snapshots.at_gpu import clients_at, count_use
from nvshare.core.snapshots.claim_snapshot import claims
from nvshare.core.snapshots.group_use import Together
from nvshare.core.snapshots.snapshot import GpuSnapshot, gpu_snapshot
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.observe.names import Names
from nvshare.scheduler.observe.step_text import lines_of
from nvshare.scheduler.pieces import Owner, Pieces
from nvshare.status_document import (
    Change,
    Steps,
    changes_of,
    claim_document,
    client_document,
    event_document,
    gpu_document,
    head_of,
    steps_document,
)

MAX_STEPS = 200
"""Of the present that are made into messages at once; of more, the last ones."""
PAST_STEPS = 2000
LINES_PER_MESSAGE = 400
"""Lines and changes of state; those of one step are in one message."""
TICK_S = 0.1
STATUS_EVERY = 10
"""Ticks between two statuses."""
MANY_CLIENTS = 200
"""With more, statuses come less often."""
CLIENTS_PER_PIECE = 25
ALIVE_EVERY = 150
"""Ticks without a message after which `: alive` is sent."""


class Feed:
    """Makes the streams of all pages."""

    def __init__(self, engine: Engine, journal: Journal, host: str = "", pieces: Pieces | None = None) -> None:
        self._engine = engine
        self._journal = journal
        self._host = host
        self._pieces = pieces or Pieces()
        self._names = Names(journal.programs, engine.node.gpus, engine.node.groups)
        self._started_ns = engine.now()

    def document_pieces(self) -> Iterator[bytes]:
        """The state as other programs read it (status_document), in pieces that are each made quickly. Each part is as
        it is when it is made; between two pieces, only the ids of the clients of one GPU and their use are kept."""
        node, now = self._engine.node, self._engine.now
        yield self._head()
        separator = b""
        for uuid in list(node.gpus):
            had = Together()
            for _ in count_use(node, uuid, now, had):
                yield b""
            if uuid in node.gpus:
                yield separator
                yield from self._gpu_pieces(gpu_snapshot(node.gpus[uuid], now()), had)
                separator = b","
        yield b'],"claims":' + msgspec.json.encode([claim_document(claim) for claim in claims(node)]) + b"}"

    def _head(self) -> bytes:
        started, now = self._engine.wall(self._started_ns), self._engine.wall(self._engine.now())
        status = admin.Status(__version__, started, now, self._engine.outline(), self._host)
        return msgspec.json.encode(head_of(status))[:-1] + b',"gpus":['

    def _gpu_pieces(self, gpu: GpuSnapshot, had: Together) -> Iterator[bytes]:
        engine, now = self._engine, self._engine.wall(self._engine.now())
        head, _, _ = msgspec.json.encode(gpu_document(gpu, (), now, had)).rpartition(b"]}")
        yield head
        separator = b""
        clients = clients_at(engine.node, gpu.uuid, engine.now)
        while piece := list(islice(clients, CLIENTS_PER_PIECE)):
            now = engine.wall(engine.now())
            encoded = (msgspec.json.encode(client_document(client, client.seats[0], now, had)) for client in piece)
            yield separator + b",".join(encoded)
            separator = b","
        yield b"]}"

    async def stream(self, owner: Owner) -> AsyncGenerator[bytes, None]:
        """The events of one page of this owner, until it disconnects."""
        end = self._journal.count
        past = self._steps(max(self._journal.first, end - PAST_STEPS), end, is_past=True)
        async for text in self._pieces.text_of(past, owner):
            yield text
        # Counted before the status is made: a step meanwhile causes another status.
        steps_at_status = self._engine.steps
        async for text in self._pieces.text_of(self._status_message(), owner):
            yield text
        async with contextlib.aclosing(self._present(end, steps_at_status, owner)) as present:
            async for message in present:
                yield message

    async def _present(self, sent: int, steps_at_status: int, owner: Owner) -> AsyncGenerator[bytes, None]:
        """`sent`: the number of the first step that is not told yet."""
        silent_ticks = since_status = 0
        while True:
            await asyncio.sleep(TICK_S)
            silent_ticks, since_status = silent_ticks + 1, since_status + 1
            if (end := self._journal.count) > sent:
                begin = max(sent, end - MAX_STEPS)
                async for text in self._pieces.text_of(self._steps(begin, end, lost=begin - sent), owner):
                    yield text
                sent, silent_ticks = end, 0
            if since_status >= self._status_every() and self._engine.steps != steps_at_status:
                steps_at_status, since_status = self._engine.steps, 0
                async for text in self._pieces.text_of(self._status_message(), owner):
                    yield text
                silent_ticks = 0
            if silent_ticks >= ALIVE_EVERY:
                yield b": alive\n\n"
                silent_ticks = 0

    def _steps(self, begin: int, end: int, *, lost: int = 0, is_past: bool = False) -> Iterator[bytes]:
        """The steps with these numbers: one message at least; empty pieces come in between. `is_past` is in the first
        one. `lost`: so many before these, and those that the journal no longer has."""
        events: list[admin.StepLine] = []
        changes: list[Change] = []
        for number in range(begin, end):
            if len(events) + len(changes) >= LINES_PER_MESSAGE:
                yield from _steps_message(Steps(events, changes, lost, is_past))
                events, changes, lost, is_past = [], [], 0, False
            step = self._journal.step(number)
            if step is None:
                lost += 1
            else:
                events += lines_of(step, self._names)
                changes += changes_of(step.time, step.event, step.actions)
            yield b""
        yield from _steps_message(Steps(events, changes, lost, is_past))

    def _status_message(self) -> Iterator[bytes]:
        yield b"event: status\ndata: "
        yield from self.document_pieces()
        yield b"\n\n"

    def _status_every(self) -> float:
        """Ticks between two statuses; more if there are many clients."""
        return STATUS_EVERY * max(1.0, len(self._engine.node.clients) / MANY_CLIENTS)


def _steps_message(steps: Steps) -> Iterator[bytes]:
    """In pieces: a step about all clients can have a line for each of them."""
    # JSON as msgspec writes it has no line breaks, which would end the field.
    empty = steps_document(Steps([], [], steps.lost, steps.is_past))
    head, middle, tail = msgspec.json.encode(empty).split(b"[]")
    yield b"event: steps\ndata: " + head
    yield from _list_of(map(event_document, steps.events))
    yield middle
    yield from _list_of(steps.changes)
    yield tail + b"\n\n"


def _list_of(values: Iterable[object]) -> Iterator[bytes]:
    separator = b"["
    for value in values:
        yield separator + msgspec.json.encode(value)
        separator = b","
    yield b"]" if separator == b"," else b"[]"

"""The events of the live page: server-sent events, made from the steps of the journal and snapshots of the core.

    event: status   the whole state, as /api/v1/status has it, at once, and then once a second while anything changes
    event: steps    what happened, oldest first: lines of text and changes of state; the remembered past at once, then
                    the present ten times a second
    : alive         a comment, so that a closed page is detected

The documents are those of nvshare.status_document.

A page must not delay clients. A step is only put into a bounded queue; text and JSON are made later, in pieces
(scheduler.pieces). Steps that did not fit into the queue are counted (`lost`), and the next status corrects the
page."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import islice

import msgspec

from nvshare import __version__, admin
from nvshare.core.snapshots.group_use import Together
from nvshare.core.snapshots.snapshot import ClientSnapshot, GpuSnapshot
from nvshare.journal import Step
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.observe.names import Names
from nvshare.scheduler.observe.step_text import clients_of, describe
from nvshare.scheduler.pieces import Owner, Pieces
from nvshare.status_document import (
    Change,
    Steps,
    changes_of,
    claim_document,
    client_document,
    gpu_document,
    head_of,
    steps_document,
)

MAX_STEPS = 200
"""Waiting to be made into messages."""
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
        """The state as other programs read it (status_document), in pieces that are each made quickly."""
        started, now = self._engine.wall(self._started_ns), self._engine.wall(self._engine.now())
        status = admin.Status(__version__, started, now, self._engine.outline(), self._host)
        clients: list[ClientSnapshot] = []
        for client in self._engine.clients():
            clients.append(client)
            yield b""
        had = Together(clients)
        yield msgspec.json.encode(head_of(status))[:-1] + b',"gpus":['
        for number, gpu in enumerate(status.node.gpus):
            yield (b"," if number else b"")
            yield from _gpu_pieces(gpu, clients, now, had)
        claims = [claim_document(claim) for claim in status.node.claims]
        yield b'],"claims":' + msgspec.json.encode(claims) + b"}"

    async def stream(self, owner: Owner) -> AsyncGenerator[bytes, None]:
        """The events of one page of this owner, until it disconnects."""
        pending: deque[Step] = deque(maxlen=MAX_STEPS)
        seen = 0

        def keep(step: Step) -> None:
            nonlocal seen
            seen += 1
            pending.append(step)

        stop = self._journal.follow(keep)
        try:
            past = self._journal.last(PAST_STEPS)
            async for text in self._pieces.text_of(self._steps(past, is_past=True), owner):
                yield text
            # Counted before the status is made: a step meanwhile causes another status.
            steps_at_status = self._engine.steps
            async for text in self._pieces.text_of(self._status_message(), owner):
                yield text
            async with contextlib.aclosing(self._present(pending, lambda: seen, steps_at_status, owner)) as present:
                async for message in present:
                    yield message
        finally:
            stop()

    async def _present(
        self, pending: deque[Step], seen: Callable[[], int], steps_at_status: int, owner: Owner
    ) -> AsyncGenerator[bytes, None]:
        sent = silent_ticks = since_status = 0
        while True:
            await asyncio.sleep(TICK_S)
            silent_ticks, since_status = silent_ticks + 1, since_status + 1
            if pending:
                batch, lost = list(pending), seen() - sent - len(pending)
                sent = seen()
                pending.clear()
                async for text in self._pieces.text_of(self._steps(batch, lost=lost), owner):
                    yield text
                silent_ticks = 0
            if since_status >= self._status_every() and self._engine.steps != steps_at_status:
                steps_at_status, since_status = self._engine.steps, 0
                async for text in self._pieces.text_of(self._status_message(), owner):
                    yield text
                silent_ticks = 0
            if silent_ticks >= ALIVE_EVERY:
                yield b": alive\n\n"
                silent_ticks = 0

    def _steps(self, steps: list[Step], *, lost: int = 0, is_past: bool = False) -> Iterator[bytes]:
        """One message at least; empty pieces come in between. `lost` and `is_past` are in the first one."""
        events: list[admin.StepLine] = []
        changes: list[Change] = []
        for step in steps:
            if len(events) + len(changes) >= LINES_PER_MESSAGE:
                yield _message("steps", msgspec.json.encode(steps_document(Steps(events, changes, lost, is_past))))
                events, changes, lost, is_past = [], [], 0, False
            texts = describe(step, self._names)
            ids = _ids(step) if texts else ()
            events += [admin.StepLine(step.time, text, ids) for text in texts]
            changes += changes_of(step.time, step.event, step.actions)
            yield b""
        yield _message("steps", msgspec.json.encode(steps_document(Steps(events, changes, lost, is_past))))

    def _status_message(self) -> Iterator[bytes]:
        yield b"event: status\ndata: "
        yield from self.document_pieces()
        yield b"\n\n"

    def _status_every(self) -> float:
        """Ticks between two statuses; more if there are many clients."""
        return STATUS_EVERY * max(1.0, len(self._engine.node.clients) / MANY_CLIENTS)


def _gpu_pieces(gpu: GpuSnapshot, clients: list[ClientSnapshot], now: float, had: Together) -> Iterator[bytes]:
    head, _, _ = msgspec.json.encode(gpu_document(gpu, (), now, had)).rpartition(b"]}")
    yield head
    separator = b""
    seats = ((client, seat) for client in clients for seat in client.seats if seat.gpu == gpu.uuid)
    while piece := list(islice(seats, CLIENTS_PER_PIECE)):
        encoded = (msgspec.json.encode(client_document(client, seat, now, had)) for client, seat in piece)
        yield separator + b",".join(encoded)
        separator = b","
    yield b"]}"


def _message(kind: str, data: bytes) -> bytes:
    # JSON as msgspec writes it has no line breaks, which would end the field.
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)


def _ids(step: Step) -> tuple[str, ...]:
    return tuple(admin.client_name(client) for client in sorted(clients_of(step)))

"""What the live page is fed with: server-sent events, made from the journal's steps and the node's snapshot.

    event: status   the whole state (admin.Status), at once, and then once a second while anything changes
    event: steps    a list of what happened: {"time", "text", "event", "actions"}, oldest first; the remembered
                    past at once, then the present ten times a second
    : alive         a comment, so that a peer that has gone is noticed

A page must never cost a GPU anything. A step is only put into a bounded box here; words and JSON are made later, for
at most MOST_STEPS at a time, which takes a millisecond or two. What a box could not hold is counted and told (`lost`),
and the next status sets the page right."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from itertools import islice

import msgspec

from nvshare import __version__, admin
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.journal import Journal
from nvshare.scheduler.step import Step, describe

MOST_STEPS = 200
PAST_STEPS = 2000
BEAT_S = 0.1
STATUS_EVERY = 10
"""Beats between two statuses."""
MANY_CLIENTS = 200
"""With more, statuses come less often."""
CLIENTS_A_PIECE = 25
ALIVE_EVERY = 150
"""Beats of silence after which the peer is sent a sign of life."""

_NO_CLIENTS = b"]}}"
_SHOWN_EVENTS = (ev.ClientRegistered, ev.ClientLeft)
_SHOWN_ACTIONS = (ac.GiveLock, ac.DropLock, ac.QueueClient, ac.EndTurn, ac.ReportLimit)


class StepView(msgspec.Struct, frozen=True):
    """A step as the page gets it; kinds are named as in the journal file."""

    time: float
    text: list[str]
    event: dict[str, ev.Event]
    actions: list[dict[str, ac.Action]]


class Steps(msgspec.Struct, frozen=True):
    steps: list[StepView]
    lost: int = 0
    is_past: bool = False
    """The remembered ones begin here: start anew."""


class Feed:
    """Makes the streams of all pages."""

    def __init__(self, engine: Engine, journal: Journal) -> None:
        self._engine = engine
        self._journal = journal
        self._started = engine.wall(engine.now())

    def status_pieces(self) -> Iterator[bytes]:
        """The state as JSON (admin.Status), in pieces that are each made quickly."""
        now = self._engine.wall(self._engine.now())
        whole = msgspec.json.encode(admin.Status(__version__, self._started, now, self._engine.outline()))
        head = whole.removesuffix(_NO_CLIENTS)
        assert head != whole
        yield head
        separator = b""
        clients = self._engine.clients()
        while piece := b",".join(msgspec.json.encode(client) for client in islice(clients, CLIENTS_A_PIECE)):
            yield separator + piece
            separator = b","
        yield _NO_CLIENTS

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """One page's events, for as long as it listens."""
        box: deque[Step] = deque(maxlen=MOST_STEPS)
        seen = 0

        def keep(step: Step) -> None:
            nonlocal seen
            seen += 1
            box.append(step)

        stop = self._journal.follow(keep)
        try:
            past = self._journal.last(PAST_STEPS)
            for start in range(0, max(1, len(past)), MOST_STEPS):
                yield _message("steps", _steps(past[start : start + MOST_STEPS], is_past=start == 0))
                await asyncio.sleep(0)  # The clients' turn.
            told = self._engine.steps  # Before the status is made: a step during that calls for another one.
            for piece in self._status_message():
                yield piece
                await asyncio.sleep(0)
            async with contextlib.aclosing(self._present(box, lambda: seen, told)) as present:
                async for message in present:
                    yield message
        finally:
            stop()

    async def _present(
        self, box: deque[Step], seen: Callable[[], int], steps_at_status: int
    ) -> AsyncGenerator[bytes, None]:
        told = silence = since_status = 0
        while True:
            await asyncio.sleep(BEAT_S)
            silence, since_status = silence + 1, since_status + 1
            if box:
                batch, lost = list(box), seen() - told - len(box)
                told = seen()
                box.clear()
                yield _message("steps", _steps(batch, lost=lost))
                silence = 0
            if since_status >= self._status_every() and self._engine.steps != steps_at_status:
                steps_at_status, since_status = self._engine.steps, 0
                for piece in self._status_message():
                    yield piece
                    await asyncio.sleep(0)
                silence = 0
            if silence >= ALIVE_EVERY:
                yield b": alive\n\n"
                silence = 0

    def _status_message(self) -> Iterator[bytes]:
        yield b"event: status\ndata: "
        yield from self.status_pieces()
        yield b"\n\n"

    def _status_every(self) -> float:
        """Beats between two statuses: more where there is much to tell."""
        return STATUS_EVERY * max(1.0, len(self._engine.node.clients) / MANY_CLIENTS)


def _message(kind: str, data: bytes) -> bytes:
    # JSON as msgspec writes it has no line breaks, which would end the field.
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), data)


def _steps(steps: list[Step], *, lost: int = 0, is_past: bool = False) -> bytes:
    return msgspec.json.encode(Steps([view for step in steps if (view := _view(step))], lost, is_past))


def _view(step: Step) -> StepView | None:
    """What a page can show of a step; None if that is nothing."""
    text = describe(step)
    actions: list[dict[str, ac.Action]] = [
        {type(action).__name__: action} for action in step.actions if isinstance(action, _SHOWN_ACTIONS)
    ]
    event: dict[str, ev.Event] = (
        {type(step.event).__name__: step.event} if isinstance(step.event, _SHOWN_EVENTS) else {}
    )
    return StepView(step.time, text, event, actions) if text or actions else None

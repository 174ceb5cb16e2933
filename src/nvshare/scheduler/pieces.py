"""Long answers to viewers (readers, operators, HTTP) are made in pieces, between which the scheduler serves clients.

    a piece ends after PIECE_NS of processor time, or with PIECE_BYTES of text
    in each iteration of the event loop, one piece is made, for one viewer

The size of a piece cannot be counted in steps or clients: a step can be about a thousand clients, and a client can use
64 GPUs. Whose piece is next:

    owners get pieces in turn: hosts (their scrapes apart from their pages and streams), users who read, operators
    the viewers of one owner get them in the order in which they asked

So a viewer waits for at most one piece of each other owner, however many connections that has, and for one piece of
each viewer of its own owner. If the time is charged to an account, the viewer first waits until it owes nothing."""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from nvshare.scheduler.clients.connection_admission import Account

PIECE_NS = 5_000_000
PIECE_BYTES = 1 << 18
T = TypeVar("T")


class Owner(NamedTuple):
    """Viewers whose owners have the same name share its turns."""

    name: str
    account: Account | None = None
    """The time is charged to it."""


class Pieces:
    """One for all viewers of a scheduler."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By owner; the first of the first is next. No queue is empty."""

    @contextlib.asynccontextmanager
    async def turn(self, owner: Owner) -> AsyncIterator[None]:
        """What is done in the block is one piece. It must not wait for anything."""
        account = owner.account
        if account is not None:
            await asyncio.sleep(account.delay_ns(time.monotonic_ns()) / 1e9)
        await self._take(owner.name)
        try:
            began = time.monotonic_ns()
            try:
                yield
            finally:
                if account is not None:
                    account.charge(began, time.monotonic_ns())
                await asyncio.sleep(0)  # The next piece is made in the next iteration, for any viewer.
        finally:
            self._pass_on(owner.name)

    async def _take(self, name: str) -> None:
        """Wait for a turn of this owner."""
        if not self._is_taken:
            self._is_taken = True
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._stop_waiting(name, turn)
            else:  # It got the turn in the same iteration.
                self._pass_on(name)
            raise

    def _pass_on(self, name: str) -> None:
        """The turn of this owner is over: its other viewers wait behind those of all others."""
        if own := self._waiting.pop(name, None):
            self._waiting[name] = own
        while self._waiting:
            first, turns = next(iter(self._waiting.items()))
            turn = turns[0]
            self._stop_waiting(first, turn)
            if not turn.done():  # Otherwise its viewer has gone in this iteration.
                turn.set_result(None)
                return
        self._is_taken = False

    def _stop_waiting(self, name: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(name, deque())
        if turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[name]

    async def of(
        self, work: Iterable[T], owner: Owner, size: Callable[[T], int] = lambda item: 0
    ) -> AsyncGenerator[list[T], None]:
        """What `work` gives, piece by piece. A piece ends only between two items, so each must be made quickly; `size`
        is how many bytes one has."""
        items, is_over = iter(work), False
        while not is_over:
            async with self.turn(owner):
                made, is_over = _piece(items, size)
            yield made

    async def all_of(self, work: Iterable[T], owner: Owner) -> list[T]:
        """What `work` gives, in one list that was made in pieces."""
        async with contextlib.aclosing(self.of(work, owner)) as pieces:
            return [item async for piece in pieces for item in piece]

    async def text_of(self, work: Iterable[bytes], owner: Owner) -> AsyncGenerator[bytes, None]:
        """A long text in pieces, without empty ones."""
        async with contextlib.aclosing(self.of(work, owner, len)) as pieces:
            async for piece in pieces:
                if text := b"".join(piece):
                    yield text


def _piece(items: Iterator[T], size: Callable[[T], int]) -> tuple[list[T], bool]:
    """The next items, and whether they are the last."""
    made: list[T] = []
    ends, left = time.thread_time_ns() + PIECE_NS, PIECE_BYTES
    for item in items:
        made.append(item)
        left -= size(item)
        if left <= 0 or time.thread_time_ns() >= ends:
            return made, False
    return made, True

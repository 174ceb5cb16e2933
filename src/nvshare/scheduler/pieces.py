"""Long answers to viewers (readers, operators, HTTP) are made in pieces, between which the scheduler serves clients.

    a piece ends after PIECE_NS of processor time, or with PIECE_BYTES of text
    in each iteration of the event loop, one piece is made, for one viewer

The size of a piece cannot be counted in steps or clients: a step can be about a thousand clients, and a client can use
64 GPUs. Viewers that wait for their next piece get it in the order in which they asked. If the time is charged to an
account, the viewer waits before each piece until the account owes nothing."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from typing import TypeVar

from nvshare.scheduler.clients.connection_admission import Account

PIECE_NS = 5_000_000
PIECE_BYTES = 1 << 18
T = TypeVar("T")


class Pieces:
    """One for all viewers of a scheduler."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def turn(self, account: Account | None = None) -> AsyncIterator[None]:
        """What is done in the block is one piece. It must not wait for anything."""
        if account is not None:
            await asyncio.sleep(account.delay_ns(time.monotonic_ns()) / 1e9)
        async with self._turn:
            began = time.monotonic_ns()
            try:
                yield
            finally:
                if account is not None:
                    account.charge(began, time.monotonic_ns())
                await asyncio.sleep(0)  # The next piece is made in the next iteration, whoever makes it.

    async def of(
        self, work: Iterable[T], account: Account | None = None, size: Callable[[T], int] = lambda item: 0
    ) -> AsyncGenerator[list[T], None]:
        """What `work` gives, piece by piece. A piece ends only between two items, so each must be made quickly; `size`
        is how many bytes one has."""
        items, is_over = iter(work), False
        while not is_over:
            async with self.turn(account):
                made, is_over = _piece(items, size)
            yield made

    async def all_of(self, work: Iterable[T], account: Account | None = None) -> list[T]:
        """What `work` gives, in one list that was made in pieces."""
        async with contextlib.aclosing(self.of(work, account)) as pieces:
            return [item async for piece in pieces for item in piece]

    async def text_of(self, work: Iterable[bytes], account: Account | None = None) -> AsyncGenerator[bytes, None]:
        """A long text in pieces, without empty ones."""
        async with contextlib.aclosing(self.of(work, account, len)) as pieces:
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

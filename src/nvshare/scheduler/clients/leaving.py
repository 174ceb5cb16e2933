"""The end of a client and of its connection: each part is done, even if another part fails. A client that stayed in the
core would keep its lock without end.

A process that ends may have had a thousand connections. They end a few at a time, so that others are served between
them (Departures)."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log

MOST_NS = 2_000_000
"""Time spent on the ends of connections in each iteration of the event loop; the last one may take longer."""


class Departures:
    """Ends of connections. Each is done at once, unless others have used the time of this iteration."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._spent_ns = 0
        self._is_counting = False

    def do(self, end: Callable[[], None]) -> None:
        if not self._is_counting:
            self._restart_count()
        if self._waiting or self._spent_ns > MOST_NS:
            self._waiting.append(end)
        else:
            self._do(end)

    def _do(self, end: Callable[[], None]) -> None:
        began = time.monotonic_ns()
        try:
            end()
        finally:
            self._spent_ns += time.monotonic_ns() - began

    def _restart_count(self) -> None:
        self._spent_ns = 0
        self._is_counting = True
        asyncio.get_running_loop().call_soon(self._next_iteration)

    def _next_iteration(self) -> None:
        self._is_counting = False
        if self._waiting:
            self._restart_count()
        while self._waiting and self._spent_ns <= MOST_NS:
            self._do(self._waiting.popleft())


def do_all(engine: Engine, *parts: tuple[Any, ...]) -> None:
    """Call all of them, each a function and its arguments. Raises only what the core has raised."""
    for call, *words in parts:
        try:
            call(*words)
        except Exception as error:
            if error is engine.failure:
                raise
            log.bug("client", "kept a part of a connection's end from being done", error)

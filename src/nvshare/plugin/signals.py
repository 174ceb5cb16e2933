"""Runs the tasks of a program until it is told to end.

The loop's own signal handlers are not used: when it takes them away, a further signal would kill the program while it
ends. A signal writes a byte to a socket that the loop reads; after the first one, signals are ignored for good."""

import asyncio
import signal
import socket
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def until_signalled(*work: Coroutine[Any, Any, None]) -> None:
    """Until SIGTERM or SIGINT, or until one of the tasks ends; its error is raised."""
    with _signalled() as stop:
        tasks = [asyncio.ensure_future(job) for job in [*work, stop.wait()]]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def _signalled() -> Iterator[asyncio.Event]:
    """An event that a signal sets."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    hears, says = socket.socketpair()
    with hears, says:
        says.setblocking(False)
        signal.set_wakeup_fd(says.fileno())

        def note() -> None:
            hears.recv(100)
            stop.set()

        loop.add_reader(hears, note)
        for number in SIGNALS:
            signal.signal(number, lambda number, frame: None)
        try:
            yield stop
        finally:
            loop.remove_reader(hears)
            signal.set_wakeup_fd(-1)

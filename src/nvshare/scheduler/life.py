"""How long the scheduler lives, and how it ends: told to, in trouble, or because nobody needs it any more."""

import asyncio
import os
import signal
import socket

from nvshare.core.events import ClientLeft, ClientRegistered
from nvshare.scheduler.clients import Clients
from nvshare.scheduler.listener import Lease
from nvshare.scheduler.log import log
from nvshare.scheduler.step import Step

EXIT_BUG = 70


class Life:
    """Ends with a signal, with `end` or `fail`, or with a task that should never have ended."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ending = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._has_failed = False
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.end)
        loop.set_exception_handler(self._bug)

    @property
    def is_ending(self) -> bool:
        return self._ending.is_set()

    async def wait(self) -> int:
        """Until it ends; the exit code."""
        await self._ending.wait()
        return EXIT_BUG if self._has_failed else 0

    def end(self) -> None:
        self._ending.set()

    def fail(self, text: str) -> None:
        """End with an error."""
        log.error(text)
        self._has_failed = True
        self.end()

    def look_after(self, task: asyncio.Task[None]) -> None:
        """A task that should never end and does is a mistake of ours, not something to go on without."""
        self._tasks.append(task)
        task.add_done_callback(self._task_ended)

    async def end_tasks(self) -> None:
        """Those that it looks after."""
        self.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and not self.is_ending:
            error = task.exception()
            self.fail(f"internal error, ending: {task.get_name()} ended with {error!r}; please report it")
            if error is not None:
                self._loop.default_exception_handler({"message": "a task has ended", "exception": error})

    def _bug(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """A mistake of ours: say so and end. Programs go on without us and join our successor, whose state is sound."""
        error = context.get("exception")
        if isinstance(error, asyncio.CancelledError):
            return  # An operator who was connected when we were told to end.
        if isinstance(error, OSError):
            log.warning(f"{context.get('message')}: {error}")
            return
        loop.default_exception_handler(context)
        self.fail(f"internal error, ending: {error!r}; please report it with the lines above")


class Unused:
    """A scheduler that somebody started for a few programs ends some time after the last of them."""

    def __init__(self, life: Life, clients: Clients, lease: Lease, after_s: float) -> None:
        self._life = life
        self._clients = clients
        self._lease = lease
        self._after_s = after_s
        self._timer: asyncio.TimerHandle | None = None
        self._look()

    def observe(self, step: Step) -> None:
        if isinstance(step.event, (ClientRegistered, ClientLeft)):
            self._look()

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._clients.registered:
            self._wait()

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._end_unless_wanted)

    def _end_unless_wanted(self) -> None:
        if self._lease.is_wanted():
            self._wait()
        else:
            self._life.end()


def notify(state: str) -> None:
    """Tell systemd, if it started us."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            try:
                sender.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
            except OSError as error:
                log.warning(f"systemd cannot be told {state}: {error.strerror}")

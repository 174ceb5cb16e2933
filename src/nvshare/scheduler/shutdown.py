"""When and why the daemon ends: a signal, an exception of the core, or no clients for some time.

An exception outside of the core affects only the part in which it occurs: a task or a callback that must continue is
tried again (`keep_running`, `retried`), a connection is closed. Each is logged and counted (Log.bug)."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from typing import Any, cast

from nvshare.journal import Step
from nvshare.scheduler.back_off import BackOff
from nvshare.scheduler.clients.connection_admission import ConnectionAdmission
from nvshare.scheduler.instance_lock import InstanceLock
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.passed_descriptors import GuardedProtocol

EXIT_INTERNAL_ERROR = 70
SIGNALS = (signal.SIGTERM, signal.SIGINT)
STEADY_S = 60.0
"""A task that ran for this long works: its next failure is a first one."""


class Shutdown:
    """Requested by a signal, by `request` or by `fail`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._requested = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._has_failed = False
        self._reported: Exception | None = None
        for number in SIGNALS:
            loop.add_signal_handler(number, self.request)
        loop.set_exception_handler(self._unhandled)

    @property
    def is_requested(self) -> bool:
        return self._requested.is_set()

    async def wait(self) -> int:
        """Until it is requested; the exit code. Further signals are ignored from then on: the loop takes its handlers
        away when it closes, and a second SIGTERM, or a SIGHUP, would kill the process in the middle of a clean end.
        The signals are blocked meanwhile: between the two calls their default action counts."""
        await self._requested.wait()
        ignored = (*SIGNALS, signal.SIGHUP)
        signal.pthread_sigmask(signal.SIG_BLOCK, ignored)
        for number in ignored:
            self._loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)
        return EXIT_INTERNAL_ERROR if self._has_failed else 0

    def request(self) -> None:
        self._requested.set()

    def fail(self, text: str) -> None:
        """End with an error."""
        log.error(text)
        self._has_failed = True
        self.request()

    def step_failed(self, error: Exception) -> None:
        """End. Programs continue without the scheduler and register with the next one, whose state is sound."""
        self._reported = error
        self._loop.default_exception_handler({"message": "a step failed", "exception": error})
        self.fail(f"internal error, ending: {error!r}; please report it with the lines above")

    def keep_running(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run it as long as the daemon runs. If it fails, the daemon continues without it, and it starts again."""
        self._tasks.append(self._loop.create_task(self._repeat(run)))

    async def _repeat(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        back_off = BackOff()
        while True:
            began = self._loop.time()
            try:
                await run()
                raise AssertionError("it ended by itself")
            except Exception as error:
                if self._loop.time() - began >= STEADY_S:
                    back_off.worked()
                wait_s = back_off.failed()
                if not self._is_tried_again(run, wait_s, error):
                    return
                await asyncio.sleep(wait_s)

    def retried(self, call: Callable[[], None]) -> Callable[[], None]:
        """For the event loop: calls it, and if it fails, again after a while."""
        back_off = BackOff()

        def try_it() -> None:
            try:
                call()
                back_off.worked()
            except Exception as error:
                wait_s = back_off.failed()
                if self._is_tried_again(call, wait_s, error):
                    self._loop.call_later(wait_s, try_it)

        return try_it

    def _is_tried_again(self, call: Callable[..., object], wait_s: float, error: Exception) -> bool:
        """Log that it failed, and begins again after this time; not if the core has failed."""
        if error is self._reported:
            return False
        name = getattr(call, "__qualname__", call)
        log.bug("task", f"ended {name}, which starts again in {wait_s:g} s", error)
        return True

    async def cancel_tasks(self) -> None:
        """Those that are kept running; wait until they have ended."""
        self.request()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """An unhandled exception. The engine has reported those of the core. Any other has ended the callback or the
        task that it was in; a connection that it was in is closed."""
        error = cast("BaseException | None", context.get("exception"))
        if error is self._reported and error is not None:
            return
        if isinstance(error, asyncio.CancelledError):
            return  # An operator was connected when the shutdown was requested.
        protocol = context.get("protocol")
        if isinstance(protocol, GuardedProtocol) and protocol.is_refused:
            return
        if isinstance(error, OSError):
            log.warning(f"{context.get('message')}: {error}")
            return
        transport = context.get("transport")
        if isinstance(transport, asyncio.WriteTransport):
            transport.abort()
        log.bug("event loop", f"ended a callback ({context.get('message')})", error)


class ExitWhenUnused:
    """Requests a shutdown when there have been no clients for `after_s`: a private scheduler serves a few programs."""

    def __init__(self, shutdown: Shutdown, admission: ConnectionAdmission, lock: InstanceLock, after_s: float) -> None:
        self._shutdown = shutdown
        self._admission = admission
        self._lock = lock
        self._after_s = after_s
        self._timer: asyncio.TimerHandle | None = None
        self._update()

    def observe(self, step: Step) -> None:
        """A client came or left."""
        self._update()

    def _update(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._admission.registered:
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._after_s, self._shutdown.retried(self._end_if_unused))

    def _end_if_unused(self) -> None:
        if self._lock.has_users():
            self._start_timer()
        else:
            self._shutdown.request()


def notify_systemd(state: str) -> None:
    """Tell systemd, or the program that set NOTIFY_SOCKET, that the daemon is ready or stopping."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError as error:
            log.warning(f"cannot report {state} to systemd: {error.strerror}; check NOTIFY_SOCKET={address}")

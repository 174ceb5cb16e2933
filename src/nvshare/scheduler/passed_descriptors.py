"""Prevents that descriptors which a peer passes (SCM_RIGHTS) stop the scheduler, on kernels before 6.16. Later kernels
refuse them (listening_socket).

The kernel closes a passed descriptor in the thread that removes it from the queue of a connection, if no other process
has it open. This close can wait: for the time of SO_LINGER, or until the memory of a large file is freed. Two calls
remove it: a read that does not ask for it, and the close of a connection with unread bytes.

- Before each read, the scheduler looks at the bytes without removing them (MSG_PEEK). If a descriptor comes with them
  (MSG_CTRUNC), the connection ends and they are never read.
- Bytes that arrive between the look and the read are not checked. An alarm interrupts a read that waits.
- Another thread closes each connection. If a close waits, it is interrupted, so that the thread does not fall behind.
"""

import asyncio
import contextlib
import functools
import os
import signal
import socket
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import cast

from nvshare.scheduler.observe.log import log
from nvshare.unix_socket import peer_credentials

MAX_WAIT_S = 0.002
"""After this time a read or a close that waits is interrupted, at the latest."""
PEEK = socket.MSG_PEEK | socket.MSG_DONTWAIT
_Buffered = tuple[Callable[[int], memoryview], Callable[[int], None]]


class PassedDescriptorError(Exception):
    """The bytes that would be read next come with a descriptor."""


class Alarm:
    """Interrupts the event loop every MAX_WAIT_S from when it is set until the loop runs again and notices. One alarm
    serves all reads of that time, because setting it costs as much as a look."""

    def __init__(self) -> None:
        self._is_set = False
        asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, self._went_off)

    def keep_set(self) -> None:
        if not self._is_set:
            self._is_set = True
            signal.setitimer(signal.ITIMER_REAL, MAX_WAIT_S, MAX_WAIT_S)

    def _went_off(self) -> None:
        self._is_set = False
        signal.setitimer(signal.ITIMER_REAL, 0)


class Closer:
    """A thread that closes descriptors."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._descriptors: SimpleQueue[int] = SimpleQueue()
        self._given = self._closed = self._closed_before = 0
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self, descriptor: int) -> None:
        """Close it soon, in the thread."""
        self._given += 1
        self._descriptors.put(descriptor)
        if self._timer is None:
            self._timer = self._loop.call_later(MAX_WAIT_S, self._check)

    def _run(self) -> None:
        # The main thread blocks these while their handlers are taken away: no other thread may get them then.
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        while True:
            with contextlib.suppress(OSError):
                os.close(self._descriptors.get())
            self._closed += 1

    def _check(self) -> None:
        """Interrupt the thread if it has closed nothing since the last check. Any signal does this."""
        self._timer = None
        if self._closed < self._given:
            if self._closed == self._closed_before:
                signal.pthread_kill(cast("int", self._thread.ident), signal.SIGALRM)
            self._timer = self._loop.call_later(MAX_WAIT_S, self._check)
        self._closed_before = self._closed


class GuardedProtocol(asyncio.BufferedProtocol):
    """Stands between the event loop and a protocol, which gets only bytes that come without descriptors."""

    def __init__(self, protocol: asyncio.Protocol | asyncio.BufferedProtocol, closer: Closer, alarm: Alarm) -> None:
        self._protocol = protocol
        self._closer = closer
        self._alarm = alarm
        self.is_refused = False
        """Whether the peer has passed a descriptor."""
        if isinstance(protocol, asyncio.BufferedProtocol):
            get_buffer, buffer_updated = cast("_Buffered", (protocol.get_buffer, protocol.buffer_updated))
        else:
            get_buffer, buffer_updated = _buffered(protocol)
        self._get_buffer = get_buffer
        self.buffer_updated = buffer_updated  # type: ignore[assignment, method-assign]
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = socket.socket(fileno=transport.get_extra_info("socket").fileno())
        self._protocol.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called immediately before each read. The event loop ends the connection if this raises."""
        buffer = self._get_buffer(sizehint)
        try:
            _, _, flags, _ = self._socket.recvmsg_into((buffer,), 0, PEEK)
        except OSError:
            flags = 0  # The read reports it.
        if flags & socket.MSG_CTRUNC:
            self.is_refused = True
            log.complain(f"Closing a connection of pid {peer_credentials(self._socket).pid}: it passes descriptors")
            raise PassedDescriptorError
        self._alarm.keep_set()
        return buffer

    def connection_lost(self, exc: Exception | None) -> None:
        """The event loop closes the socket when this returns; a copy of it is closed later, by the thread."""
        self._protocol.connection_lost(ConnectionAbortedError() if self.is_refused else exc)
        descriptor = self._socket.detach()
        with contextlib.suppress(OSError):  # No descriptor is left for a copy.
            asyncio.get_running_loop().call_soon(self._closer.close, os.dup(descriptor))


def _buffered(protocol: asyncio.Protocol) -> _Buffered:
    """`get_buffer` and `buffer_updated` for a protocol that has only `data_received`."""
    buffer = memoryview(bytearray(1 << 12))
    return lambda sizehint: buffer, lambda nbytes: protocol.data_received(bytes(buffer[:nbytes]))


def guarded_from_descriptors(
    make: Callable[[], asyncio.Protocol | asyncio.BufferedProtocol],
) -> Callable[[], GuardedProtocol]:
    """Makes protocols like `make`, each behind a guard."""
    closer, alarm = _guards()
    return lambda: GuardedProtocol(make(), closer, alarm)


@functools.cache
def _guards() -> tuple[Closer, Alarm]:
    """The only ones of this process. From now on it survives an alarm."""
    return Closer(), Alarm()

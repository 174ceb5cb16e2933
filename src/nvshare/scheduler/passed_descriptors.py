"""Keeps descriptors that a peer passes (SCM_RIGHTS) from stopping the scheduler, on kernels before 6.16. Later ones
refuse them for us (listening_socket).

The kernel closes a passed descriptor in the thread that takes it off the queue of a connection, and nobody else may
have it then. That close can wait: for as long as SO_LINGER says, or until the memory of a large file is freed. Two
calls take it off: a read that does not ask for it, and the close of a connection with unread bytes.

- Before each read the bytes are looked at (MSG_PEEK). If a descriptor comes with them (MSG_CTRUNC), the connection ends
  and they are never read.
- Bytes that arrive between the look and the read are not looked at. An alarm interrupts a read that waits.
- Another thread closes each connection. If it waits, it is interrupted, so that it does not fall behind.
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
"""After this time a read or a close that waits is interrupted."""


class PassedDescriptorError(Exception):
    """The bytes that would be read next come with a descriptor."""


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

    def __init__(self, protocol: asyncio.Protocol | asyncio.BufferedProtocol, closer: Closer) -> None:
        self._protocol = protocol
        self._closer = closer
        self._own_buffer = bytearray(0 if isinstance(protocol, asyncio.BufferedProtocol) else 1 << 12)
        self.is_refused = False
        """Whether the peer has passed a descriptor."""
        self.pause_writing = protocol.pause_writing  # type: ignore[method-assign]
        self.resume_writing = protocol.resume_writing  # type: ignore[method-assign]
        self.eof_received = protocol.eof_received  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = socket.socket(fileno=transport.get_extra_info("socket").fileno())
        self._protocol.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called immediately before each read. The event loop ends the connection if this raises."""
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            buffer = cast("memoryview", self._protocol.get_buffer(sizehint))
        else:
            buffer = memoryview(self._own_buffer)
        with contextlib.suppress(OSError):  # The read reports it.
            _, _, flags, _ = self._socket.recvmsg_into([buffer], 0, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            self.is_refused = bool(flags & socket.MSG_CTRUNC)
        if self.is_refused:
            log.complain(f"Closing a connection of pid {peer_credentials(self._socket).pid}: it passes descriptors")
            raise PassedDescriptorError
        signal.setitimer(signal.ITIMER_REAL, MAX_WAIT_S)
        return buffer

    def buffer_updated(self, nbytes: int) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            self._protocol.buffer_updated(nbytes)
        else:
            self._protocol.data_received(bytes(self._own_buffer[:nbytes]))

    def connection_lost(self, exc: Exception | None) -> None:
        """The event loop closes the socket when this returns; a copy of it is closed later, by the thread."""
        self._protocol.connection_lost(ConnectionAbortedError() if self.is_refused else exc)
        descriptor = self._socket.detach()
        with contextlib.suppress(OSError):  # No descriptor is left for a copy.
            asyncio.get_running_loop().call_soon(self._closer.close, os.dup(descriptor))


def guarded_from_descriptors(
    make: Callable[[], asyncio.Protocol | asyncio.BufferedProtocol],
) -> Callable[[], GuardedProtocol]:
    """Makes protocols like `make`, each behind a guard."""
    closer = _closer()
    return lambda: GuardedProtocol(make(), closer)


@functools.cache
def _closer() -> Closer:
    """The only one of this process, which from now on survives an alarm."""
    asyncio.get_running_loop().add_signal_handler(signal.SIGALRM, lambda: None)
    return Closer()

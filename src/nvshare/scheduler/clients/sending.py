"""What a client is sent and does not read. It is bounded in the kernel and here, because both count as the scheduler's
memory (its memory cgroup).

The kernel charges each write as one buffer: 960 bytes for a frame of 4. The event loop's transport needs about 700
bytes for each write that waits, whatever its length. So the transport gets nothing while one of its writes waits; what
is to be sent meanwhile is collected in one piece, which takes as many bytes as it has."""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

SEND_BUFFER = 8192
"""Asked of the kernel, which doubles it: 16 KiB, or 17 writes. Its default is 208 KiB."""
MAX_UNREAD = 1 << 14
"""A peer with more unread bytes than this does not read. A client that is stopped (SIGSTOP) gets no locks after 28 s;
then it is told what its operators change, and its capacity: 24 bytes for each GPU whenever other memory there has
changed, at most every 2 s. So it is closed after 23 minutes at the earliest with one GPU, and after 3 with eight."""


class Sending:
    """Writes to a transport. `give_up` is called, later, when the peer has too much unread."""

    def __init__(self, transport: asyncio.Transport, give_up: Callable[[], None]) -> None:
        self._transport = transport
        self._give_up = give_up
        self._is_waiting = self._has_given_up = False
        self._unsent = bytearray()
        transport.set_write_buffer_limits(high=0)
        connection = cast("socket.socket", transport.get_extra_info("socket"))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)

    def send(self, data: bytes) -> None:
        if not self._is_waiting:
            self._transport.write(data)
        elif not self._has_given_up:
            self._unsent += data
            if len(self._unsent) + self._transport.get_write_buffer_size() > MAX_UNREAD:
                self._has_given_up = True
                # Later: this is called from within a step that sends to other clients too.
                asyncio.get_running_loop().call_soon(self._give_up)

    def pause(self) -> None:
        """A write waits, because the kernel's buffer is full."""
        self._is_waiting = True

    def resume(self) -> None:
        """No write waits any more."""
        self._is_waiting = False
        if self._unsent:
            unsent, self._unsent = self._unsent, bytearray()
            self._transport.write(unsent)

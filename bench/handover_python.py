"""The floor of a hand-over in Python: answers the frames of the load with no logic, through the daemon's event loop.

    python -m bench.handover_python SOCKET

What the daemon takes above it is its own code; what this takes above the C floor is CPython and uvloop."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable

import uvloop

from nvshare.wire import messages as wire
from nvshare.wire.codec import encode

REGISTER, REQUEST, RELEASE = (kind.number for kind in (wire.Register, wire.ReqLock, wire.LockReleased))
WELCOME = encode(wire.SchedOn(0, wire.PROTOCOL_VERSION, 1))
WAIT = encode(wire.WaitForMem(0, 0))
GRANT = encode(wire.MemAvailable(0)) + encode(wire.LockOk(0, True, 0))[:8]
"""Without the number of the lock, which ends it."""

_buffer = bytearray(8192)
_view = memoryview(_buffer)


class Floor:
    """The clients that wait, in order, and the number of the last lock."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[bytes], None]] = deque()
        self._is_held = False
        self._lock = 0

    def request(self, write: Callable[[bytes], None]) -> None:
        self._waiting.append(write)
        if self._is_held:
            write(WAIT)
        else:
            self.hand_over()

    def hand_over(self) -> None:
        self._is_held = bool(self._waiting)
        if self._is_held:
            self._lock += 1
            try:
                self._waiting.popleft()(GRANT + self._lock.to_bytes(8, "little"))
            except RuntimeError:  # It has closed its connection: the load is ending.
                self.hand_over()


class Connection(asyncio.BufferedProtocol):
    def __init__(self, floor: Floor) -> None:
        self._floor = floor

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._write = transport.write  # type: ignore[attr-defined]

    def get_buffer(self, sizehint: int) -> memoryview:
        return _view

    def buffer_updated(self, nbytes: int) -> None:
        """The load sends whole frames: two bytes of length, then the type."""
        at = 0
        while at < nbytes:
            kind = _buffer[at + 2]
            if kind == RELEASE:
                self._floor.hand_over()
                self._floor.request(self._write)
            elif kind == REQUEST:
                self._floor.request(self._write)
            elif kind == REGISTER:
                self._write(WELCOME)
            at += _buffer[at] | _buffer[at + 1] << 8


async def serve(path: str) -> None:
    floor = Floor()
    server = await asyncio.get_running_loop().create_unix_server(lambda: Connection(floor), path, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1]))

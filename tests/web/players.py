"""Clients that take turns as libnvshare would, without a GPU: for tests of what people see."""

import contextlib
import secrets
import socket
import threading
from types import TracebackType
from typing import Self
from uuid import UUID

from nvshare.wire import messages as wire
from nvshare.wire.codec import ENTRY_LAYOUT, Decoder, encode

GIB = 1 << 30
CARDS = (UUID("11111111-2222-3333-4444-555555555555"), UUID("66666666-7777-8888-9999-aaaaaaaaaaaa"))


class Player:
    """One client on one card. It gives its lock back when told to and wants it again; a thread answers for it."""

    def __init__(self, path: str, name: str, *, gib: float, card: int = 0, size_gib: int = 16, limit: int = 0) -> None:
        self.memory = int(gib * GIB)
        self.runs = threading.Event()
        self.waits = threading.Event()
        self.limit = -1
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(60)
        self._socket.connect(path)
        entry = wire.GpuEntry(
            CARDS[card].bytes, wire.GpuKind.GPU, wire.ClaimState.IDLE, 1, size_gib * GIB, 0, 0, 0, 0, wire.UNLIMITED
        )
        self._send(
            wire.Register(
                gpu=0,
                version=wire.PROTOCOL_VERSION,
                priority=0,
                own_limit=limit,
                run=secrets.token_bytes(16),
                name=name.encode()[: wire.NAME_BYTES],
                weight=0,
                entry_count=1,
                entry_size=ENTRY_LAYOUT.struct().size,
                entries=(entry,),
            )
        )
        self._decoder = Decoder(wire.FROM_SCHEDULER)
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.leave()

    def ask(self) -> None:
        self._send(wire.ReqLock(0, 1, self.memory, 0))

    def report_move(self, gib: float, seconds: float, *, to_host: bool) -> None:
        self._send(wire.Moved(0, to_host, int(gib * GIB), int(seconds * 1e9)))

    def leave(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(60)
        self._socket.close()

    def _send(self, message: wire.Message) -> None:
        self._socket.sendall(encode(message))

    def _play(self) -> None:
        while data := self._receive():
            for message in self._decoder.feed(data):
                self._take(message)

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except OSError:
            return b""

    def _take(self, message: wire.Message) -> None:
        match message:
            case wire.LockOk():
                self.waits.clear()
                self.runs.set()
            case wire.DropLock():
                self.runs.clear()
                self._send(wire.LockReleased(0, True, message.lock))
            case wire.WaitForMem():
                self.waits.set()
            case wire.UpdateLimit():
                self.limit = message.limit

"""A scheduler that does what the test says: it accepts, reads frames, sends what it is given, well-formed or not."""

import fcntl
import socket
import struct
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

from libnvshare.programs import Program
from nvshare.wire.codec import Decoder, encode
from nvshare.wire.messages import (
    FROM_CLIENT,
    PROTOCOL_VERSION,
    BudgetRecall,
    BudgetReturn,
    Message,
    Register,
    SchedOn,
)
from support.waiting import wait_until

M = TypeVar("M", bound=Message)
MARK = 0x5E77
MAX_BYTES = 1 << 55
PATIENCE_S = 60.0  # for what must come at all


class LibraryConnection:
    """One client's connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.decoder = Decoder(FROM_CLIENT)
        self.waiting: list[Message] = []
        self.seen: list[Message] = []
        self.data = b""  # all that came, as it came

    def send(self, *messages: Message) -> None:
        self.connection.sendall(b"".join(encode(message) for message in messages))

    def next(self, timeout: float = PATIENCE_S) -> Message | None:
        """The next message, None if none came in time. EOFError if the client is gone."""
        end = time.monotonic() + timeout
        while not self.waiting:
            left = end - time.monotonic()
            if left <= 0:
                return None
            self.connection.settimeout(left)
            try:
                data = self.connection.recv(65536)
            except TimeoutError:
                return None
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError("the client closed the connection")
            self.data += data
            self.waiting += self.decoder.feed(data)
        message = self.waiting.pop(0)
        self.seen.append(message)
        return message

    def expect(self, kind: type[M], timeout: float = PATIENCE_S, *, such: Callable[[M], bool] = lambda _: True) -> M:
        """Skips to the next message of this kind; fails if it does not come."""
        end = time.monotonic() + timeout
        skipped = []
        while (message := self.next(max(0.0, end - time.monotonic()))) is not None:
            if isinstance(message, kind) and such(message):
                return message
            skipped.append(message)
        raise AssertionError(f"no {kind.__name__} within {timeout} s; came: {skipped}")

    def deliver(self, *messages: Message) -> None:
        """Sends, and comes back when the client has taken it all: a recall of nothing comes last and is answered."""
        self.send(*messages, BudgetRecall(0, MARK, MAX_BYTES))
        self.expect(BudgetReturn, such=lambda answer: answer.serial == MARK)

    def heard(self, kind: type[M]) -> list[M]:
        """All messages of this kind that the client has sent up to now."""
        self.deliver()
        return [message for message in self.seen if isinstance(message, kind)]

    def unread_bytes(self) -> int:
        """What the kernel still keeps for the client."""
        (unread,) = struct.unpack("i", fcntl.ioctl(self.connection, termios.TIOCOUTQ, bytes(4)))
        return int(unread)

    def send_bytewise(self, data: bytes) -> None:
        """Sends byte after byte, each when the client has read the one before."""
        for byte in data:
            self.connection.sendall(bytes([byte]))
            wait_until(lambda: not self.unread_bytes(), "the client reads")

    def drain(self, timeout: float = PATIENCE_S) -> None:
        """Reads on until the client is gone; EOFError then."""
        while self.next(timeout) is not None:
            pass

    def close(self) -> None:
        self.connection.close()


class FakeScheduler:
    """Listens; each accepted client is a LibraryConnection."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.peers: list[LibraryConnection] = []
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path.unlink(missing_ok=True)
        self.server.bind(str(path))
        self.server.listen(1024)

    def accept(self, timeout: float = PATIENCE_S) -> LibraryConnection:
        self.server.settimeout(timeout)
        connection, _ = self.server.accept()
        self.peers.append(LibraryConnection(connection))
        return self.peers[-1]

    def welcome(
        self, timeout: float = PATIENCE_S, client: int = 1, version: int = PROTOCOL_VERSION
    ) -> tuple[LibraryConnection, Register]:
        """Accepts a client and answers its registration with SCHED_ON."""
        peer = self.accept(timeout)
        register = peer.expect(Register, timeout)
        peer.send(SchedOn(0, version, client))
        return peer, register

    def join(self, program: Program) -> LibraryConnection:
        """Lets a program initialise CUDA, which makes it a client."""
        program.say("init 0")
        peer, _ = self.welcome()
        program.answer()
        return peer

    def die(self) -> None:
        """As a killed daemon: every connection closed, the socket file left behind."""
        self.server.close()
        for peer in self.peers:
            peer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self.path.unlink(missing_ok=True)

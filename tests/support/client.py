"""A client by script: it says exactly what a test tells it to, true or not, and shows what it hears."""

import select
import socket
import uuid
from collections import deque
from types import TracebackType
from typing import Any, Self, TypeVar

from nvshare.wire import messages as wire
from nvshare.wire.codec import ENTRY_LAYOUT, Decoder, encode

MIB = 1 << 20
GIB = 1 << 30

M = TypeVar("M", bound=wire.Message)


def gpu_bytes(number: int) -> bytes:
    """The UUID of a made-up GPU."""
    return uuid.UUID(int=number + 1).bytes


def gpu_name(number: int) -> str:
    """The same as the scheduler prints it."""
    return f"GPU-{uuid.UUID(int=number + 1)}"


def entry(number: int = 0, **fields: Any) -> wire.GpuEntry:
    """A GPU in a REGISTER: an idle client on a card of 16 GiB unless told otherwise."""
    values: dict[str, Any] = {
        "uuid": gpu_bytes(number),
        "kind": wire.GpuKind.GPU,
        "state": wire.ClaimState.IDLE,
        "contexts": 0,
        "size": 16 * GIB,
        "lock": 0,
        "swappable": 0,
        "unswappable": 0,
        "limit": 0,
        "budget": wire.UNLIMITED,
    }
    return wire.GpuEntry(**values | fields)


def registration(*entries: wire.GpuEntry, **fields: Any) -> wire.Register:
    values: dict[str, Any] = {
        "gpu": 0,
        "version": wire.MOVES_SINCE - 1,  # it is not asked to move memory
        "priority": 0,
        "own_limit": 0,
        "run": bytes(16),
        "name": b"",
        "weight": 0,
        "entry_count": len(entries),
        "entry_size": ENTRY_LAYOUT.size,
        "entries": entries,
    }
    return wire.Register(**values | fields)


class WireClient:
    """One connection to the clients' socket."""

    def __init__(self, path: str, *, timeout: float = 60) -> None:
        self.id = 0
        self._decoder = Decoder(wire.FROM_SCHEDULER)
        self._heard: deque[wire.Message] = deque()
        self.capacities: list[wire.Capacity] = []
        self._asks = 0
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()

    @property
    def name(self) -> str:
        """How the scheduler shows this client."""
        return f"{self.id:04x}"

    def close(self) -> None:
        self.socket.close()

    # Speaking.

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, *messages: wire.Message) -> None:
        self.send_bytes(b"".join(map(encode, messages)))

    def register(self, *entries: wire.GpuEntry, **fields: Any) -> Self:
        """Register (one idle GPU if none is given) and take the answer; what came before it stays to be heard."""
        self.send(registration(*(entries or (entry(),)), **fields))
        before: list[wire.Message] = []
        while not isinstance(answer := self.hear(), (wire.SchedOn, wire.SchedOff)):
            before.append(answer)
        self._heard.extendleft(reversed(before))
        self.id = answer.client
        return self

    def request(self, swappable: int = 0, *, gpu: int = 0, unswappable: int = 0, contexts: int = 0) -> None:
        self.send(wire.ReqLock(gpu, contexts, swappable, unswappable))

    def take_lock(self, swappable: int = 0, *, gpu: int = 0) -> int:
        """Ask for the lock and wait until it is there; its number."""
        self.request(swappable, gpu=gpu)
        return self.hear_until(wire.LockOk).lock

    def release(self, lock: int, *, gpu: int = 0, again: bool = False) -> None:
        self.send(wire.LockReleased(gpu, again, lock))

    # Hearing.

    def hear(self) -> wire.Message:
        """The next message, but not a CAPACITY: those are in `capacities`. ConnectionError if the scheduler closed,
        TimeoutError if nothing comes."""
        while not self._heard:
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionResetError("the scheduler closed the connection")
            messages = self._decoder.feed(data)
            self.capacities += [message for message in messages if isinstance(message, wire.Capacity)]
            self._heard.extend(message for message in messages if not isinstance(message, wire.Capacity))
        return self._heard.popleft()

    def expect(self, kind: type[M]) -> M:
        """The next message, which must be of this kind."""
        message = self.hear()
        assert isinstance(message, kind), f"{kind.__name__} expected, heard {message}"
        return message

    def hear_until(self, kind: type[M]) -> M:
        """The next message of this kind; others are passed over."""
        while not isinstance(message := self.hear(), kind):
            pass
        return message

    def hear_all(self) -> list[wire.Message]:
        """All that the scheduler had to say up to now: what comes before the answer to a question."""
        self._asks += 1
        self.send(wire.BudgetAsk(0, self._asks, 0))
        heard: list[wire.Message] = []
        while True:
            message = self.hear()
            if isinstance(message, wire.Budget) and message.ask == self._asks:
                return heard
            heard.append(message)

    def is_closed(self) -> bool:
        """The scheduler has closed this connection; what it said before may not have been heard."""
        poll = select.poll()
        poll.register(self.socket, 0)
        return bool(poll.poll(0))

    def wait_closed(self) -> None:
        """Until the scheduler closes this connection."""
        try:
            while True:
                self.hear()
        except ConnectionError:
            return

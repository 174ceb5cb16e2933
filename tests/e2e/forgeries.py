"""Runs inside a pod and speaks the protocol itself, with every lie it can tell; prints what came of it as JSON.

python - UUID < forgeries.py"""

import contextlib
import json
import socket
import sys
import uuid

from nvshare.wire import codec
from nvshare.wire import messages as m

GPU = uuid.UUID(sys.argv[1].removeprefix("GPU-")).bytes
PATH = "/var/run/nvshare/scheduler.sock"


class Forger:
    """A client that is nobody's library."""

    def __init__(self) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(60)
        self.socket.connect(PATH)
        self.decoder = codec.Decoder(m.FROM_SCHEDULER)

    def send(self, message: m.Message) -> None:
        self.socket.sendall(codec.encode(message))

    def ping(self) -> None:
        """If the scheduler still listens, it answers."""
        with contextlib.suppress(ConnectionError):
            self.send(m.Ping(gpu=0))

    def register(self, *, limit: int, budget: int, run: bytes) -> None:
        entry = m.GpuEntry(
            uuid=GPU,
            kind=0,
            state=1,
            contexts=0,
            size=16 << 30,
            lock=1,
            swappable=0,
            unswappable=0,
            limit=limit,
            budget=budget,
        )
        self.send(
            m.Register(
                gpu=0, version=m.PROTOCOL_VERSION, priority=32767, own_limit=0, run=run, name=b"victim", weight=65535,
                entry_count=1, entry_size=codec.ENTRY_LAYOUT.size, entries=(entry,),
            )
        )  # fmt: skip

    def hear_until(self, kind: type[m.Message]) -> list[m.Message] | None:
        """What the scheduler says up to the first message of a kind; None when it hangs up before."""
        heard: list[m.Message] = []
        while not any(isinstance(message, kind) for message in heard):
            try:
                data = self.socket.recv(65536)
            except ConnectionError:
                return None
            if not data:
                return None
            heard += self.decoder.feed(data)
        return heard


def lift_limit() -> dict[str, object]:
    """Claim that there is no limit, that the budget is endless, and ask for 100 GiB."""
    forger = Forger()
    forger.register(limit=0, budget=m.UNLIMITED, run=b"\1" * 16)
    heard = forger.hear_until(m.SchedOn) or []
    forger.send(m.BudgetAsk(gpu=0, ask=1, need=100 << 30))
    while not any(isinstance(message, m.Budget) and message.ask == 1 for message in heard):
        more = forger.hear_until(m.Budget)
        assert more is not None, "the question is answered"
        heard += more
    return {
        "limits": [message.limit for message in heard if isinstance(message, m.UpdateLimit)],
        # Serial 0 is a refusal: whatever figure it carries is not a grant.
        "budgets": [message.budget for message in heard if isinstance(message, m.Budget) and message.serial],
    }


def order(message: m.Message) -> bool:
    """Send what only the scheduler or the operator may; whether it hung up."""
    forger = Forger()
    forger.register(limit=0, budget=0, run=bytes(16))
    forger.hear_until(m.SchedOn)
    forger.send(message)
    forger.ping()
    return forger.hear_until(m.Pong) is None


def rubbish() -> bool:
    """Bytes that are no frame; whether it hung up."""
    forger = Forger()
    forger.socket.sendall(b"\xff" * 64)
    return forger.hear_until(m.Pong) is None


print(
    json.dumps(
        {
            "lifted": lift_limit(),
            "set_tq": order(m.SetTq(gpu=0, seconds=1)),
            "update_limit": order(m.UpdateLimit(gpu=0, limit=0)),
            "lock_ok": order(m.LockOk(gpu=0, contended=False, lock=1)),
            "rubbish": rubbish(),
        }
    )
)

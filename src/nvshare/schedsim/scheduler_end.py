"""The scheduler's end of a simulated client's connection: frames become events, actions become frames.

It does what scheduler/clients/connection.py does for a real socket, without a socket."""

from typing import Any

from nvshare import translation
from nvshare.wire import messages as wire
from nvshare.wire.codec import Decoder, encode

PONG = encode(wire.Pong(0))
Message = wire.Message


class SchedulerEnd:
    """What the scheduler knows of one client."""

    def __init__(self, who: translation.Registrant, gpus: list[str], grace_ms: int) -> None:
        self.who = who
        self.index_of = {gpu: index for index, gpu in enumerate(gpus)}
        self.grace_ms = grace_ms
        self._gpus = gpus
        self._decoder = Decoder(wire.FROM_CLIENT)

    def name_of(self, client: int) -> str:
        return f"client {client}"

    def feed(self, frames: bytes) -> list[Message]:
        return self._decoder.feed(frames)

    def is_of_a_turn(self, message: Message) -> bool:
        """True for what a client may say only once its registration is answered."""
        return isinstance(message, wire.ReqLock | wire.LockReleased)

    def event_of(self, message: Message) -> Any:
        """The core's event; None for a PING, which is answered by PONG."""
        if isinstance(message, wire.Ping):
            return None
        if isinstance(message, wire.Register):
            return translation.registration(self.who, message)
        gpu = self._gpus[message.gpu]  # type: ignore[attr-defined]
        return translation.EVENTS[type(message)](self.who.client, gpu, message)

    def frame_of(self, action: Any) -> bytes | None:
        """What the client is sent; None if the action is not for it."""
        frame_of = translation.FRAMES.get(type(action))
        return frame_of(action, self) if frame_of else None

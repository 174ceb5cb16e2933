"""How long a peer may take to register, and to finish a frame that it has begun."""

import asyncio
from collections.abc import Callable


class PeerTimeout:
    """Calls `expire` with the reason when a peer was too slow."""

    def __init__(self, after_s: float, expire: Callable[[str], None]) -> None:
        self._after_s = after_s
        self._expire = expire
        self.timer: asyncio.TimerHandle | None = None
        """None if the peer may take any time."""

    def start(self, why: str) -> None:
        self.call_after(self._after_s, self._expire, why)

    def call_after(self, after_s: float, call: Callable[..., None], *words: object) -> None:
        """Something else that comes to its end after a time."""
        self.timer = asyncio.get_running_loop().call_later(after_s, call, *words)

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def update(self, is_registered: bool, *, is_mid_frame: bool, has_heard: bool) -> None:
        """After something was read; `has_heard` says that it completed a frame."""
        if is_registered and (has_heard or not is_mid_frame):
            self.stop()
        if self.timer is None and not is_registered:
            self.start("never registered")
        elif self.timer is None and is_mid_frame:
            self.start("half a frame, then silence")

"""How long a peer may take to register, and to finish a frame that it has begun."""

import asyncio
from collections.abc import Callable


class PeerTimeout:
    """Calls `expire` with the reason when a peer was too slow."""

    def __init__(self, after_s: float, expire: Callable[[str], None]) -> None:
        self._after_s = after_s
        self._expire = expire
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def start(self, why: str) -> None:
        self.call_after(self._after_s, self._expire, why)

    def call_after(self, after_s: float, call: Callable[..., None], *words: object) -> None:
        """Something else that comes to its end after a time."""
        self._timer = asyncio.get_running_loop().call_later(after_s, call, *words)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def update(self, is_registered: bool, *, is_mid_frame: bool, has_heard: bool) -> None:
        """After something was read; `has_heard` says that it completed a frame."""
        if is_registered and (has_heard or not is_mid_frame):
            self.stop()
        if not self.is_set and not is_registered:
            self.start("never registered")
        elif not self.is_set and is_mid_frame:
            self.start("half a frame, then silence")

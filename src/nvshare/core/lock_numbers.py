"""The numbers of locks."""


class LockNumbers:
    """Lock numbers of this daemon: the epoch in the high half, never the same twice."""

    def __init__(self, epoch: int) -> None:
        self._last = epoch << 32

    def next(self) -> int:
        self._last += 1
        return self._last

"""How long to wait before something that failed is tried again."""

FIRST_S = 1.0
MOST_S = 60.0


class BackOff:
    """FIRST_S after the first failure, twice as long after each further one, at most MOST_S."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def failed(self) -> float:
        """One more failure; how long to wait now."""
        wait_s = self._next_s or FIRST_S
        self._next_s = min(2 * wait_s, MOST_S)
        return wait_s

    def worked(self) -> None:
        """The next failure is a first one."""
        self._next_s = 0.0

"""The scheduler with one rule of its core broken, as it once was. A load must find it.

python -m chaos.broken_scheduler RULE OPTIONS OF nvshare-scheduler
"""

import sys
from collections.abc import Callable

from nvshare.core.actions import Action
from nvshare.core.seat import Seat
from nvshare.core.turns import Turns
from nvshare.scheduler.main import main


def believe_late_claims() -> None:
    """Who says that it runs has the lock, also long after a restart."""
    claimed = Turns.claimed

    def believed(self: Turns, now: int, seat: Seat, lock: int, out: list[Action], *, is_settling: bool) -> None:
        claimed(self, now, seat, lock, out, is_settling=True)

    Turns.claimed = believed  # type: ignore[method-assign]


def queue_revoked_clients() -> None:
    """Who lost its lock because it did not answer is given the next one."""
    revoke = Turns.revoke

    def queued(self: Turns, now: int, seat: Seat, out: list[Action]) -> None:
        revoke(self, now, seat, out)
        self._unheard.discard(seat.client)
        self.heard(now, seat)

    Turns.revoke = queued  # type: ignore[method-assign]


RULES: dict[str, Callable[[], None]] = {
    "late-claims": believe_late_claims,
    "revoked-clients": queue_revoked_clients,
}


def run(words: list[str]) -> int:
    RULES[words[0]]()
    return main(words[1:])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

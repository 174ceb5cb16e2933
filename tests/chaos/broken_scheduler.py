"""The scheduler with one rule of its core broken, as it once was. A load must find it.

python -m chaos.broken_scheduler RULE OPTIONS OF nvshare-scheduler
"""

import sys
from collections.abc import Callable

import msgspec

from nvshare.core.actions import Action, GiveBudget
from nvshare.core.limits.budget_questions import Question
from nvshare.core.limits.limit_members import Share
from nvshare.core.limits.shared_limit import SharedLimit
from nvshare.core.model import MIB
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns
from nvshare.scheduler.main import main


def believe_late_claims() -> None:
    """A client that says that it runs has the lock, also long after a restart."""
    claimed = Turns.claimed

    def believed(self: Turns, now: int, seat: Seat, lock: int, out: list[Action], *, is_settling: bool) -> None:
        claimed(self, now, seat, lock, out, is_settling=True)

    Turns.claimed = believed  # type: ignore[method-assign]


def queue_revoked_clients() -> None:
    """A client that lost its lock because it did not answer is given the next one."""
    revoke = Turns.revoke

    def queued(self: Turns, now: int, seat: Seat, out: list[Action]) -> None:
        revoke(self, now, seat, out)
        self._unheard.discard(seat.client)
        self.heard(now, seat)

    Turns.revoke = queued  # type: ignore[method-assign]


def refuse_from_stale_bounds() -> None:
    """A question about budget is refused by the last report of the others, which may be out of date."""

    def has_proof(self: SharedLimit, question: Question, out: list[Action]) -> bool:
        self._proof_round, self._proof_spare = question.round + 1, self.limit - self.members.bound
        return True

    SharedLimit._has_proof = has_proof  # type: ignore[method-assign]


def give_too_much() -> None:
    """Each budget is larger than what was set aside for it."""
    give = SharedLimit._give

    def generous(self: SharedLimit, share: Share, budget: int, ask: int, out: list[Action]) -> None:
        give(self, share, budget, ask, out)
        last = out[-1]
        assert isinstance(last, GiveBudget)
        out[-1] = msgspec.structs.replace(last, budget=budget + 64 * MIB)

    SharedLimit._give = generous  # type: ignore[method-assign]


RULES: dict[str, Callable[[], None]] = {
    "late-claims": believe_late_claims,
    "revoked-clients": queue_revoked_clients,
    "stale-bounds": refuse_from_stale_bounds,
    "too-much-budget": give_too_much,
}


def run(words: list[str]) -> int:
    RULES[words[0]]()
    return main(words[1:])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

"""The scheduler with one rule broken, as it once was. A load must find it.

python -m chaos.broken_scheduler RULE OPTIONS OF nvshare-scheduler
"""

import os
import sys
from asyncio import StreamWriter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from nvshare.core.actions import Action, GiveBudget
from nvshare.core.limits.budget_questions import Question
from nvshare.core.limits.limit_members import Share
from nvshare.core.limits.shared_limit import SharedLimit
from nvshare.core.memory.unbacked_memory import UnbackedMemory
from nvshare.core.model import MIB, NEVER
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns
from nvshare.scheduler.clients import connection, connection_admission
from nvshare.scheduler.http.live_feed import Feed
from nvshare.scheduler.http.server import HttpServer
from nvshare.scheduler.main import main
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.operator.remembered_limits import RememberedLimits
from nvshare.scheduler.viewer_connection import ConnectionLimit


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


def raise_in_viewers() -> None:
    """A write to a viewer's closed connection raises what the event loop raises, and that ends the scheduler."""
    bug = log.bug

    def end_all(where: str, what: str, error: BaseException | None) -> None:
        if where == "viewer":
            os._exit(70)
        bug(where, what, error)

    StreamWriter.is_closing = lambda self: False  # type: ignore[method-assign]
    log.bug = end_all  # type: ignore[method-assign]


def forget_processes_that_end() -> None:
    """What a process holds counts until its connection is closed, not until the kernel has taken it back."""
    connection.is_ending = lambda peer, proc=None: False  # type: ignore[attr-defined]


def forget_limits() -> None:
    """The operator's limits end with the scheduler."""
    RememberedLimits.restore = lambda self: None  # type: ignore[method-assign]


def believe_unswappable() -> None:
    """Each account may have the whole card of memory that cannot be moved."""

    def divide(self: UnbackedMemory) -> None:
        self._bound = self._size or NEVER
        self.counted = sum(min(unbacked, self._bound) for unbacked in self._unbacked.values())

    UnbackedMemory._divide = divide  # type: ignore[method-assign]


def share_one_pool() -> None:
    """All HTTP connections have one bound, and a connection without a request counts like an answer."""

    def init(self: HttpServer, *parts: Any, **more: Any) -> None:
        make(self, *parts, **more)
        self._asking = self._page_limit = ConnectionLimit(64)
        self._limits = dict.fromkeys(self._limits, self._asking)

    make = HttpServer.__init__
    HttpServer.__init__ = init  # type: ignore[method-assign]


def believe_in_gpus() -> None:
    """An account may name any number of GPUs."""
    connection_admission.MAX_GPUS = connection_admission.MAX_GPUS_OF_ALL = 10**6


def give_any_seats() -> None:
    """Only the pairs of clients and GPUs of each account are bounded."""
    connection_admission.MAX_SEATS_OF_ALL = 10**6


def keep_the_state_for_viewers() -> None:
    """A page or a stream has a copy of the state as long as its viewer takes to read it."""
    made = Feed.document_pieces

    def keeping(self: Feed) -> Iterator[bytes]:
        state = list(self._engine.clients())
        yield from made(self)
        del state

    Feed.document_pieces = keeping  # type: ignore[method-assign]


def charge_nobody() -> None:
    """Connections are read whatever their account owes."""
    connection_admission.Account.delay_ns = lambda self, now_ns: 0  # type: ignore[method-assign]


RULES: dict[str, Callable[[], None]] = {
    "late-claims": believe_late_claims,
    "revoked-clients": queue_revoked_clients,
    "stale-bounds": refuse_from_stale_bounds,
    "too-much-budget": give_too_much,
    "viewer-raises": raise_in_viewers,
    "not-ending": forget_processes_that_end,
    "forget-limits": forget_limits,
    "believe-unswappable": believe_unswappable,
    "one-pool": share_one_pool,
    "invented-gpus": believe_in_gpus,
    "any-seats": give_any_seats,
    "state-for-viewers": keep_the_state_for_viewers,
    "no-charge": charge_nobody,
}


def run(words: list[str]) -> int:
    RULES[words[0]]()
    return main(words[1:])


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

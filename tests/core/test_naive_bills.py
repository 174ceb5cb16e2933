"""The naive account finds a core that bills or ranks wrongly with policy fair: each rule is broken on purpose."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from core.naive import Naive
from core.test_naive import found
from nvshare.core import events as ev
from nvshare.core.compute import fair_shares, turn_bills
from nvshare.core.compute.fair_shares import FairShares
from nvshare.core.compute.looks import Looks
from nvshare.core.compute.turn_bills import TurnBills
from nvshare.core.model import GIB, MILLISECOND, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.core.turns.seat import Seat


def ignore_weights(real: Callable[..., None]) -> Callable[..., None]:
    def book(self: FairShares, now: int, seat: Seat) -> None:
        seat.tag += self._bills.book(now, seat)

    return book


def save_up(real: Callable[..., None]) -> Callable[..., None]:
    """The tag of a client that comes from rest stays below the mean."""

    def wait_began(self: FairShares, now: int, seat: Seat, *, from_rest: bool) -> None:
        if from_rest:
            self._book(now, seat)
        real(self, now, seat, from_rest=False)

    return wait_began


def divide_later(real: Callable[..., int]) -> Callable[..., int]:
    """All time since looks were last divided counts as busy, as the core once did."""
    return lambda self, now: self.open_ns + self._gpu_time.undivided_ns(now)


def bill_the_start(real: Callable[..., None]) -> Callable[..., None]:
    """Only the first looks of the present turn are free, as in the core once."""

    def turn_ended(self: Looks, upto: int, since: int, end: int) -> None:
        real(self, upto, since, end)
        self.starting = 0

    return turn_ended


TWO_TURNS: list[tuple[int, ev.Event]] = [
    *((0, ev.ClientRegistered(one, f"run/{one}", "x", "x", (Claim("g0", 16 * GIB),))) for one in (1, 2)),
    *((0, ev.LockRequested(one, "g0", Memory(9 * GIB))) for one in (1, 2)),
    (200, ev.LockReleased(1, "g0", (1 << 32) + 1, True)),
    (400, ev.LockReleased(2, "g0", (1 << 32) + 2, True)),
    *((600, ev.GpuTimeReported(one, "g0", first, 250, 0)) for one in (1, 2) for first in (0, 250)),
    (900, ev.GpuTimeAsked()),
]

FAULTS: dict[str, tuple[Any, str, Callable[[Any], Any], str, int]] = {
    "turns are billed twice": (
        TurnBills, "_add", lambda real: lambda self, entry, part: real(self, entry, 2 * part),
        "a client that was busy at a look is billed an equal part of it", 2,
    ),
    "moves are billed": (
        TurnBills, "_credit", lambda real: lambda self, seat, credit: None,
        "the time of a move is billed to nobody", 2,
    ),
    "every move is believed": (
        turn_bills, "MOVE_NS_PER_GIB", lambda real: 1000 * real,
        "a move is worth half a second for each GiB, once", 2,
    ),
    "idle holders are not billed": (
        Looks, "may_idle", lambda real: lambda self, upto, looks: 0,
        "an idle holder is billed while others wait, and only then", 2,
    ),
    "weights are ignored": (FairShares, "_book", ignore_weights, "a tag grows by bill * 100 / weight", 5),
    "time is saved up": (FairShares, "wait_began", save_up, "time at rest is not saved up", 2),
    "leads have no bound": (
        fair_shares, "MAX_LEAD_NS", lambda real: 100 * real, "a handicap is within 900 s", 2,
    ),
    "looks are divided too late": (
        TurnBills, "all_unbooked_ns", divide_later, "the right tag is the mean of all tags", 6,
    ),
}  # fmt: skip
"""What is broken, how, what the account says, and with which walk it begins: few have policy fair."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_core_that_bills_wrongly_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part, name, broken, complaint, first = FAULTS[fault]
    monkeypatch.setattr(part, name, broken(getattr(part, name)))
    assert complaint in found(range(first, first + 5))


@pytest.mark.parametrize("is_broken", [False, True])
def test_a_core_that_bills_the_start_of_an_earlier_turn_is_found(
    is_broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few walks have two turns of an idle client before the looks of the first one are divided."""
    settings = Settings(policy="fair", quantum=QuantumRule(mode="fixed", fixed_ns=SECOND))
    node, naive = Node(settings, epoch=1, is_paranoid=True), Naive(settings, None)
    if is_broken:
        monkeypatch.setattr(Looks, "turn_ended", bill_the_start(Looks.turn_ended))
    with pytest.raises(AssertionError, match="an idle holder is billed") if is_broken else nullcontext():
        for at_ms, event in TWO_TURNS:
            naive.before(at_ms * MILLISECOND, event)
            naive.after(at_ms * MILLISECOND, node.handle(at_ms * MILLISECOND, event), node)

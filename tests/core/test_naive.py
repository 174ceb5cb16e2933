"""The naive account finds a core that breaks a rule: each rule is broken on purpose."""

import random
import traceback
from collections.abc import Callable

import pytest

from core.happenings import HAPPENINGS
from core.world import World
from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.card_room import CardRoom
from nvshare.core.gangs import Gangs
from nvshare.core.gpu import Gpu
from nvshare.core.modes.adaptive import Adaptive
from nvshare.core.node import Node
from nvshare.core.notices import Notices
from nvshare.core.preemption import Preemption
from nvshare.core.seat import Seat
from nvshare.core.turns import Turns


def found(seeds: range, steps: int = 600) -> str:
    """What the account says about the core as it is now."""
    for seed in seeds:
        chance = random.Random(seed)
        try:
            world = World(chance.choice)
            for what in chance.choices(list(HAPPENINGS), list(HAPPENINGS.values()), k=steps):
                getattr(world, what)(chance.choice)
            world.end()
        except AssertionError as error:
            return f"{error}; {traceback.extract_tb(error.__traceback__)[-1].line}"
    return ""


def tell_again(real: Callable[..., None]) -> Callable[..., None]:
    """A request that crossed its lock is answered with that lock again, as the core once did."""

    def note(self: Node, now: int, event: ev.LockRequested, out: list[ac.Action]) -> None:
        seat = self.clients[event.client].seats[event.gpu]
        real(self, now, event, out)
        if seat.lock:
            out.append(ac.GiveLock(event.client, event.gpu, seat.lock, self.gpus[event.gpu].turns.is_contended))

    return note


def shorten_grace(real: Callable[..., None]) -> Callable[..., None]:
    def preempt(self: Turns, now: int, seat: Seat, cause: ac.DropCause, out: list[ac.Action]) -> None:
        real(self, now, seat, cause, out)
        seat.drop_deadline -= 1

    return preempt


def wait_for_each(real: Callable[..., None]) -> Callable[..., None]:
    """Whoever is asked is waited for, however long the client has waited for others."""

    def ask(self: CardRoom, now: int, coming: Seat, out: list[ac.Action]) -> None:
        real(self, now, coming, out)
        coming.room_until = 0

    return ask


def stay_silent(real: Callable[..., int]) -> Callable[..., int]:
    """Holders are never told that the GPU is contended."""

    def tell(self: Notices, now: int, admitted: list[object], out: list[ac.Action]) -> int:
        told: list[ac.Action] = []
        due = real(self, now, admitted, told)
        out.extend(action for action in told if not isinstance(action, ac.TellContended))
        return due

    return tell


def prefer_the_last(real: Callable[..., int]) -> Callable[..., int]:
    return lambda self, seat: -real(self, seat) - 1


def lose_the_place(real: Callable[..., None]) -> Callable[..., None]:
    """A release with more work to do does not queue the client."""
    return lambda self, now, seat, lock, again, out: real(self, now, seat, lock, False, out)


@pytest.mark.parametrize(
    ("part", "name", "fault", "complaint"),
    [
        (Node, "_note_requested", tell_again, "only a client that waits, or runs without a lock, gets one"),
        (Turns, "preempt", shorten_grace, "nobody is revoked before its grace is over"),
        (Preemption, "switch", lambda real: lambda self, now, head, out: None, "the alarm never stops ringing"),
        (Preemption, "shed", lambda real: lambda self, now, out: None, "holds more than the safe limit"),
        (Notices, "tell", stay_silent, "a holder knows whether it has to report its pauses"),
        (Adaptive, "lag_ns", prefer_the_last, "a client lags by no more than its mode promises"),
        (Turns, "released", lose_the_place, "[seat.client for seat in queue] == "),
        (CardRoom, "ask", wait_for_each, "nobody waits for room for longer than the grace time"),
        (Gangs, "drop_together", lambda real: lambda self, now, out: None, "locks of a gang are dropped together"),
        (Gangs, "open", lambda real: lambda self: None, "a gang comes in as soon as there is room at all its GPUs"),
    ],
)
def test_a_core_that_breaks_a_rule_is_found(
    part: type,
    name: str,
    fault: Callable[[Callable[..., object]], object],
    complaint: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = fault(getattr(part, name))
    monkeypatch.setattr(part, name, broken)
    said = found(range(40))
    assert complaint in said


def test_a_core_that_keeps_the_rules_is_not_accused() -> None:
    assert found(range(3)) == ""


def test_a_wait_beyond_the_promised_bound_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that promises less than it keeps."""
    promise, with_gangs = Gpu.longest_wait_ns, Gpu.longest_gang_wait_ns
    monkeypatch.setattr(Gpu, "longest_wait_ns", lambda self, clients: promise(self, clients) // 20)
    monkeypatch.setattr(Gpu, "longest_gang_wait_ns", lambda self, clients: with_gangs(self, clients) // 20)
    assert "every wait ends" in found(range(40)) or "this wait has ended" in found(range(40))

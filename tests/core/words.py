"""The core's events and actions in words: what scenarios are written in."""

import re
from collections.abc import Callable
from typing import Any

from nvshare.core import actions as ac
from nvshare.core import events as ev
from nvshare.core.model import GIB, MIB, MILLISECOND, SECOND, UNLIMITED

_UNITS = {"Gi": GIB, "Mi": MIB, "": 1}
_TIMES = {"s": SECOND, "ms": MILLISECOND, "ns": 1}


def parse_size(text: str) -> int:
    if text == "unlimited":
        return UNLIMITED
    match = re.fullmatch(r"([\d.]+)(Gi|Mi|)", text)
    assert match, f"not a size: {text}"
    return int(float(match[1]) * _UNITS[match[2]])


def size(value: int) -> str:
    if value == UNLIMITED:
        return "unlimited"
    for unit, factor in _UNITS.items():
        if value and value % factor == 0:
            return f"{value // factor}{unit}"
    return str(value)


def parse_time(text: str) -> int:
    match = re.fullmatch(r"([\d.]+)(s|ms|ns)", text)
    assert match, f"not a time: {text}"
    return round(float(match[1]) * _TIMES[match[2]])


def time(value: int) -> str:
    if 0 < value < SECOND:
        return f"{value / MILLISECOND:g}ms"
    return f"{value / SECOND:.9f}".rstrip("0").rstrip(".") + "s"


def number(lock: int, epoch: int) -> str:
    """A lock of this daemon is #7, one of the daemon with epoch 3 is #3.7."""
    high, low = lock >> 32, lock & 0xFFFFFFFF
    return f"#{low}" if high == epoch else f"#{high}.{low}"


def parse_number(text: str, epoch: int) -> int:
    high, _, low = text.removeprefix("#").rpartition(".")
    return (int(high) if high else epoch) << 32 | int(low)


def order_of(what: str, group: str, value: str) -> ev.Event:
    number = None if value == "none" else int(value)
    kinds = {"weight": ev.WeightSet, "priority": ev.PrioritySet, "core limit": ev.CoreLimitSet}
    return kinds[what](group, number)


def pause_of(what: str, target: str) -> ev.Event:
    is_group = "/" in target
    return ev.PauseSet(what == "pauses", target if is_group else None, None if is_group else target)


def yield_of(ids: dict[str, int], target: str) -> ev.Event:
    return ev.YieldAsked(client=ids[target]) if target in ids else ev.YieldAsked(gpu=target)


class Teller:
    """Tells actions by the names that a story gave its clients."""

    def __init__(self, name_of: Callable[[int], str], epoch: int) -> None:
        self._name = name_of
        self._epoch = epoch

    def tell(self, action: ac.Action) -> str:
        return _TELL[type(action)](self, action)

    def who(self, action: Any) -> str:
        return self._name(action.client)

    def name(self, client: int) -> str:
        return self._name(client)

    def lock(self, lock: int) -> str:
        return number(lock, self._epoch)


def _give_lock(t: Teller, a: ac.GiveLock) -> str:
    waited = f" after {time(a.waited_ns)}" if a.waited_ns else ""
    return f"{t.who(a)} gets {a.gpu} {t.lock(a.lock)}{waited}" + (", contended" if a.contended else "")


def _long_wait(t: Teller, a: ac.ReportLongWait) -> str:
    if not a.place:
        whose = t.name(a.holder)
        return f"{t.who(a)} has waited {time(a.waited_ns)} for {a.gpu}: the host cannot take the memory of {whose}"
    if a.is_paused:
        return f"{t.who(a)} has waited {time(a.waited_ns)} for {a.gpu}: it is paused"
    if a.is_held_back:
        return f"{t.who(a)} has waited {time(a.waited_ns)} for {a.gpu}: it has used its share of GPU time"
    holder = f"{t.name(a.holder)} has held it for {time(a.held_ns)}" if a.holders else "nobody holds it"
    others = f", with {a.holders - 1} more" if a.holders > 1 else ""
    return f"{t.who(a)} has waited {time(a.waited_ns)} for {a.gpu}, place {a.place}: {holder}{others}"


def _give_budget(t: Teller, a: ac.GiveBudget) -> str:
    ask = f", ask {a.ask}" if a.ask else ""
    verb = "may have" if a.serial else "keeps what it has of"
    return f"{t.who(a)} {verb} {size(a.budget)} on {a.gpu} (serial {a.serial}{ask}; others use {size(a.others)})"


def _update_limit(t: Teller, a: ac.UpdateLimit) -> str:
    return f"{t.who(a)} has {'a limit of ' + size(a.limit) if a.limit else 'no limit'} on {a.gpu}"


def _contended(t: Teller, a: ac.TellContended) -> str:
    return f"{t.who(a)} is told that {a.gpu} is {'contended' if a.contended else 'no longer contended'}"


_TELL: dict[type[ac.Action], Callable[[Teller, Any], str]] = {
    ac.AcceptClient: lambda t, a: f"{t.who(a)} is accepted" + ("" if a.scheduling else ", scheduling is off"),
    ac.SwitchScheduling: lambda t, a: f"{t.who(a)} is told that scheduling is {'on' if a.on else 'off'}",
    ac.GiveLock: _give_lock,
    ac.DropLock: lambda t, a: f"{t.who(a)} must drop {a.gpu} {t.lock(a.lock)}: {a.cause}",
    ac.QueueClient: lambda t, a: f"{t.who(a)} waits for {a.gpu} at place {a.place}",
    ac.AnnounceRoom: lambda t, a: f"{t.who(a)} is told that there is room on {a.gpu}",
    ac.TellContended: _contended,
    ac.TellExpectedStart: lambda t, a: f"{t.who(a)} is told that it starts on {a.gpu} within {time(a.within_ns)}",
    ac.ReportLongWait: _long_wait,
    ac.UpdateLimit: _update_limit,
    ac.GiveBudget: _give_budget,
    ac.RecallBudget: lambda t, a: f"{t.who(a)} should fall back to {size(a.keep)} on {a.gpu} (serial {a.serial})",
    ac.LetOne: lambda t, a: f"{t.who(a)} should let one submission through on {a.gpu}",
    ac.MoveIn: lambda t, a: f"{t.who(a)} should bring {size(a.most)} to {a.gpu} {t.lock(a.lock)}",
    ac.MoveOut: lambda t, a: (
        f"{t.who(a)} should move {size(a.most)} out of {a.gpu} {f'after {t.lock(a.lock)}' if a.lock else 'now'}"
    ),
    ac.KeepOnHost: lambda t, a: f"{t.who(a)} should keep {size(a.keep)} of {a.gpu} on the host",
    ac.TellCapacity: lambda t, a: (
        f"{t.who(a)} may use {size(a.room)} of {a.gpu}, a context takes {size(a.context_bytes)}"
    ),
    ac.ReportBlocked: lambda t, a: (
        f"{t.who(a)} is blocked on {a.gpu}: the host cannot take {size(a.protected)} of {t.name(a.holder)}"
    ),
    ac.EndTurn: lambda t, a: f"{t.who(a)}'s turn {t.lock(a.lock)} on {a.gpu} ends after {time(a.held_ns)}: {a.end}",
    ac.ReportLimit: lambda t, a: f"limit of {a.label}: {size(a.old)} -> {size(a.new)}",
    ac.ReportForgotten: lambda t, a: (
        f"orders for {a.label} are forgotten: {'too many' if a.is_expected else 'no client is left'}"
    ),
    ac.NoteOrder: lambda t, a: f"{t.who(a)} is concerned",
    ac.Refuse: lambda t, a: f"refused: {a.reason}",
}

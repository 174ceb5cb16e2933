"""What the naive account knows of memory that is kept on the host (core.memory.live_shrink): it counts as far as the
client was asked to keep it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nvshare.core import actions as ac
from nvshare.core import events as ev

if TYPE_CHECKING:
    from core.naive import Naive


def note_event(naive: "Naive", now: int, event: ev.MemoryHeld) -> None:
    seat = naive.seat(event.client, event.gpu)
    seat.keep, seat.held = seat.keep or event.held, event.held
    naive.allow(naive.gpus[event.gpu], naive.settings.grace_ns)


def note_actions(naive: "Naive", actions: Iterable[ac.Action]) -> None:
    for action in actions:
        if isinstance(action, ac.KeepOnHost):
            naive.seat(action.client, action.gpu).keep = action.keep
            naive.allow(naive.gpus[action.gpu], naive.settings.grace_ns)

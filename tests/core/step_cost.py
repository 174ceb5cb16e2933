"""What a step of the core costs, counted in lines or calls, so that a busy machine gives the same result."""

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from nvshare.core import events as ev
from nvshare.core.model import GIB, Claim

MAX_RATIO = 2.0
GPUS = ("g0", "g1", "g2", "g3", "g4", "g5", "g6", "g7")


def registration(client: int, gpus: tuple[str, ...]) -> ev.ClientRegistered:
    claims = tuple(Claim(gpu, 16 * GIB) for gpu in gpus)
    return ev.ClientRegistered(client, "run/1", "x", "x", claims, moves_memory=True, holds_memory=True, makes_room=True)


def _count(kind: str, hook: Callable[[], Any], set_hook: Callable[[Any], None], step: Callable[[], object]) -> int:
    """How many events of this kind the interpreter reports to a hook during a step. Garbage is not collected meanwhile:
    callbacks of a collection (gc.callbacks) would be counted in whichever step it happens to come."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == kind
        return note

    before, collects = hook(), gc.isenabled()
    gc.disable()
    set_hook(note)
    try:
        step()
    finally:
        set_hook(before)
        if collects:
            gc.enable()
    return count


def lines_of(step: Callable[[], object]) -> int:
    """How many lines of Python a step executes."""
    return _count("line", sys.gettrace, sys.settrace, step)


def calls_of(step: Callable[[], object]) -> int:
    """How many Python functions a step calls."""
    return _count("call", sys.getprofile, sys.setprofile, step)

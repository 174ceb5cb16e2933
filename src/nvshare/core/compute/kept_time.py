"""Which groups with a core limit wait for a turn at one GPU: such a group keeps the time that it cannot use
(compute.core_cap), up to one longest turn."""

from collections import Counter

from nvshare.core.compute.core_cap import BURST_NS, MOST_DEBT_NS, CoreCap
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.turns.turns import Turns


def kept_ns(longest_turn_ns: int) -> int:
    """What a group that waits keeps of the time that it cannot use."""
    return max(BURST_NS, min(longest_turn_ns, MOST_DEBT_NS))


def note_waits(now: int, turns: Turns, caps: dict[str, CoreCap]) -> None:
    """At the end of a step: a client of these groups came into the queue or left it, or they have a new limit."""
    for key in turns.waits.moved & caps.keys():
        cap = caps[key]
        waits = cap.group in turns.waits.waiting
        if cap.waits != waits:
            turns.gpu_time.divide(now)
            kept = kept_ns(turns.mode.longest_quantum_ns) if waits else 0
            cap.set_kept(turns.gpu_time.upto, now // LOOK_NS + 1, kept)
    turns.waits.moved.clear()


def check_waits(turns: Turns, caps: dict[str, CoreCap]) -> None:
    """What must hold; for tests."""
    waiting = Counter(seat.group for seat in turns.queue)
    assert turns.waits.is_watched == bool(caps)
    assert turns.waits.waiting == (waiting if caps else Counter())
    assert all(cap.waits == (cap.group in waiting) for cap in caps.values())

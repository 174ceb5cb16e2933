"""By when the waiting clients of a GPU will probably start: the wait if everybody always has work.

The rounds to come are played through: when the quantum ends, clients leave in the order that the mode says until the
first in the queue fits, it comes in with all others that fit, and those who left queue up behind. Each round lasts as
long as the mode says for those who run in it.

Most clients start earlier, because programs end and pause. Programs that come later with a better rank, grow, or take
long to release the lock delay the start. docs/use.md states how often that was the case in simulations."""

from itertools import islice

from nvshare.core.memory_planner import MemoryPlanner
from nvshare.core.seat import Seat
from nvshare.core.turns import Turns

MOST = 16
"""So many clients of a queue are told; the estimate for those behind them would be of no use."""


def expected_starts(turns: Turns, memory: MemoryPlanner, now: int) -> dict[int, int]:
    """How long from now each of the first clients in the queue will wait at most, probably; empty while nothing is
    timed."""
    if turns.timer_ends is None:
        return {}
    capacity = memory.safe_limit - memory.fixed_bytes
    running = [*turns.dropping.values(), *turns.mode.leaving_order(now, turns.staying.values())]
    queue = list(islice(turns.queue, MOST))
    newcomers = {seat for seat in queue if not seat.turns}
    waiting = set(queue)
    found: dict[int, int] = {}
    at = max(0, turns.timer_ends - now)
    while waiting:
        left = _make_room(running, queue[0], capacity)
        admitted = _admit(running, queue, capacity)
        waiting.difference_update(admitted)
        newcomers.difference_update(admitted)
        for seat in admitted:
            found.setdefault(seat.client, at)
        queue += left
        at += turns.mode.quantum_ns(running, queue[0] if queue else None, len(newcomers))
    return found


def _make_room(running: list[Seat], head: Seat, capacity: int) -> list[Seat]:
    """Those who leave until there is room for the next one, or nobody is left."""
    left = []
    while running and _used(running) + head.need > capacity:
        left.append(running.pop(0))
    return left


def _admit(running: list[Seat], queue: list[Seat], capacity: int) -> list[Seat]:
    """The first in the queue comes in, and all behind it that fit beside."""
    admitted: list[Seat] = []
    for seat in list(queue):
        if not admitted or _used(running) + seat.need <= capacity:
            running.append(seat)
            queue.remove(seat)
            admitted.append(seat)
    return admitted


def _used(running: list[Seat]) -> int:
    return sum(seat.need for seat in running)

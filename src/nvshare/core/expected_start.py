"""By when the waiting clients of a GPU will probably start: the wait if everybody always has work.

The rounds to come are played through: when the quantum ends, the clients that have run longest leave until the first in
the queue fits, it comes in with all others that fit, and those who left queue up behind. Every round lasts as long as
the present quantum.

Most clients start earlier, because programs end and pause. Programs that come later with a better rank, grow, or take
long to release the lock delay the start. docs/use.md states how often that was the case in simulations."""

from itertools import islice

from nvshare.core.gpu import Gpu

MOST = 16
"""So many clients of a queue are told; the estimate for those behind them would be of no use."""


def expected_starts(gpu: Gpu, now: int) -> dict[int, int]:
    """How long from now each of the first clients in the queue will wait at most, probably; empty while nothing is
    timed."""
    turns, memory = gpu.turns, gpu.memory
    if turns.timer_ends is None:
        return {}
    capacity = memory.safe_limit - memory.fixed_bytes
    running = [(seat.client, seat.need) for seat in (*turns.dropping.values(), *turns.staying.values())]
    queue = [(seat.client, seat.need) for seat in islice(turns.queue, MOST)]
    waiting = {client for client, _ in queue}
    found: dict[int, int] = {}
    at = max(0, turns.timer_ends - now)
    while waiting:
        left = _make_room(running, queue[0][1], capacity)
        for client in _admit(running, queue, capacity):
            waiting.discard(client)
            found.setdefault(client, at)
        queue += left
        at += turns.quantum_ns
    return found


def _make_room(running: list[tuple[int, int]], need: int, capacity: int) -> list[tuple[int, int]]:
    """Those who leave until there is room for the next one, or nobody is left."""
    left = []
    while running and _used(running) + need > capacity:
        left.append(running.pop(0))
    return left


def _admit(running: list[tuple[int, int]], queue: list[tuple[int, int]], capacity: int) -> list[int]:
    """The first in the queue comes in, and all behind it that fit beside."""
    admitted: list[int] = []
    for client, size in list(queue):
        if not admitted or _used(running) + size <= capacity:
            running.append((client, size))
            queue.remove((client, size))
            admitted.append(client)
    return admitted


def _used(running: list[tuple[int, int]]) -> int:
    return sum(size for _, size in running)

"""By when the waiting clients of a GPU will probably start: from the quantum, the queue, and the length of the last
turns of the clients before them.

The coming turns are simulated. A turn lasts as long as the longest of the client's last turns, because most programs
pause or end before the quantum does. When the quantum ends, clients leave in the order of the mode until the first in
the queue fits. In both cases the first in the queue is admitted with all others that fit, and the clients that left
join the end of the queue. The quantum is the mode's for the running clients.

Most clients start earlier. Programs that come later with a better rank, grow, pause less than before, or take long to
release the lock delay the start. docs/use.md states how often that was the case in simulations."""

from itertools import islice

from nvshare.core.memory.memory_planner import MemoryPlanner
from nvshare.core.model import NEVER
from nvshare.core.turns.seat import Seat
from nvshare.core.turns.turns import Turns

MOST = 16
"""So many clients of a queue are told; the estimate for those behind them would be of no use."""


def expected_starts(turns: Turns, memory: MemoryPlanner, now: int) -> dict[int, int]:
    """How long from now each of the first clients in the queue will wait at most, probably; empty while nothing is
    timed."""
    return {} if turns.timer.ends is None else _Forecast(turns, memory, now, turns.timer.ends).starts()


class _Forecast:
    """The turns to come. All times are from now."""

    def __init__(self, turns: Turns, memory: MemoryPlanner, now: int, timer_ends: int) -> None:
        self._mode = turns.mode
        self._capacity = memory.safe_limit - memory.fixed_bytes
        staying = self._mode.leaving_order(now, turns.staying.values())
        self._running = [*turns.dropping.values(), *staying]
        self._leaves: dict[Seat, int] = dict.fromkeys(turns.dropping.values(), 0)
        self._leaves |= {seat: _rest_of_turn(seat, now - seat.held_since) for seat in staying}
        self._queue = list(islice(turns.queue, MOST))
        self._newcomers = {seat for seat in self._queue if not seat.turns}
        self._switch = max(0, timer_ends - now)

    def starts(self) -> dict[int, int]:
        waiting = set(self._queue)
        found: dict[int, int] = {}
        while waiting:
            at, admitted = self._next_change()
            found |= {seat.client: at for seat in admitted if seat in waiting}
            waiting.difference_update(admitted)
        return found

    def _next_change(self) -> tuple[int, list[Seat]]:
        """The next turn that ends, or the switch: when that is, and which clients are admitted then."""
        first = min(self._running, key=self._leaves.__getitem__)
        is_switch = self._leaves[first] >= self._switch
        at = min(self._leaves[first], self._switch)
        left = _make_room(self._running, self._queue[0], self._capacity) if is_switch else [first]
        if not is_switch:
            self._running.remove(first)
        is_restart = is_switch or not self._running
        admitted = _admit(self._running, self._queue, self._capacity, is_first_in=is_restart)
        self._queue += left
        self._newcomers.difference_update(admitted)
        self._leaves |= {seat: at + _rest_of_turn(seat, 0) for seat in admitted}
        if is_restart:
            head = self._queue[0] if self._queue else None
            self._switch = at + self._mode.quantum_ns(self._running, head, len(self._newcomers))
        return at, admitted


def _rest_of_turn(seat: Seat, held_ns: int) -> int:
    """How much longer than `held_ns` the longest of its last turns was; NEVER, so until the quantum ends, if none was
    longer."""
    longest = max(seat.last_turns, default=0)
    return longest - held_ns if longest > held_ns else NEVER


def _make_room(running: list[Seat], head: Seat, capacity: int) -> list[Seat]:
    """The clients that leave until there is room for the next one, or none is left."""
    used, count = _used(running), 0
    while count < len(running) and used + head.need > capacity:
        used -= running[count].need
        count += 1
    left = running[:count]
    del running[:count]
    return left


def _admit(running: list[Seat], queue: list[Seat], capacity: int, *, is_first_in: bool) -> list[Seat]:
    """The first in the queue is admitted, if it fits or in any case, and then all behind it that fit beside it."""
    used = _used(running)
    if not is_first_in and used + queue[0].need > capacity:
        return []
    admitted: list[Seat] = []
    passed: list[Seat] = []
    for seat in queue:
        if not admitted or used + seat.need <= capacity:
            used += seat.need
            admitted.append(seat)
        else:
            passed.append(seat)
    running += admitted
    queue[:] = passed
    return admitted


def _used(running: list[Seat]) -> int:
    return sum(seat.need for seat in running)

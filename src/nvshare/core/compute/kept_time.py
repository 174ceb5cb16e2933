"""Which groups with a core limit wait for a turn at one GPU: such a group keeps the time that it cannot use
(compute.core_cap), up to one longest turn."""

from collections import Counter

from nvshare.core.compute.core_cap import BURST_NS, MOST_DEBT_NS, CoreCap
from nvshare.core.compute.look_bits import LOOK_NS
from nvshare.core.turns.turns import Turns


def kept_ns(longest_turn_ns: int) -> int:
    """What a group that waits keeps of the time that it cannot use."""
    return max(BURST_NS, min(longest_turn_ns, MOST_DEBT_NS))


class KeptTime:
    """Of the groups with core limits at one GPU, and with clients there."""

    def __init__(self, turns: Turns, caps: dict[str, CoreCap]) -> None:
        self._turns, self._caps = turns, caps
        self._longest_ns = 0

    def note_rule(self) -> None:
        """The operator may have changed the quantum or the mode: that counts at once for the groups that wait."""
        if self._caps and self._turns.mode.longest_quantum_ns != self._longest_ns:
            self._longest_ns = self._turns.mode.longest_quantum_ns
            self._turns.waits.moved.update(self._caps)

    def note_waits(self, now: int) -> None:
        """At the end of a step: a client of these groups came into the queue or left it, or they have a new limit."""
        turns = self._turns
        for key in turns.waits.moved & self._caps.keys():
            cap = self._caps[key]
            kept = kept_ns(turns.mode.longest_quantum_ns) if cap.group in turns.waits.waiting else 0
            if cap.kept_ns != kept:
                turns.gpu_time.divide(now)
                cap.set_kept(turns.gpu_time.upto, now // LOOK_NS + 1, kept)
        turns.waits.moved.clear()

    def check(self) -> None:
        """What must hold; for tests."""
        waits, queue = self._turns.waits, self._turns.queue
        assert waits.is_watched == bool(self._caps)
        assert waits.waiting == Counter(seat.group for seat in queue if self._caps)

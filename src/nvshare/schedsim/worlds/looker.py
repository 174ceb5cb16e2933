"""The looks of a world's process at one GPU.

When a process looks, rests and reports is decided by the library's own code (native/libnvshare/client/looker.c). What
is played here is what its helper finds: whether there is work, and whether the gate is watched. Between two events of a
process nothing changes for it, so its looks are computed afterwards, each for its own time. A stopped process makes no
looks."""

from collections.abc import Callable, Sequence

from nvshare.client_machine import looks
from nvshare.client_machine.library import NEVER, TurnState
from nvshare.client_machine.looks import LookFacts, Unfinished
from nvshare.client_machine.machine import ClientMachine
from nvshare.schedsim.worlds.gpu_use import GpuUse
from nvshare.schedsim.worlds.timeline import Alarm, Timeline
from nvshare.wire.codec import Decoder
from nvshare.wire.messages import FROM_CLIENT, LOOK_NS, LOOKS_MOST, GpuTime

BATCH_NS = looks.DUE * LOOK_NS
"""Looks are computed at least this often, so a report comes at most so much later than from the library."""


class Looker:
    """Call `saw` before something changes, and `change` afterwards."""

    __slots__ = (
        "_due", "_facts", "_index", "_is_busy", "_is_counted", "_machine", "_runs_since", "_seen_until", "busy_ns",
        "looked_ns", "reported_ns", "unsure_ns",
    )  # fmt: skip

    def __init__(self, machine: ClientMachine, index: int, now: int) -> None:
        self._machine = machine
        self._index = index
        self._facts = LookFacts(can_report=True)
        self._due = NEVER
        self._is_busy = False
        self._is_counted = False
        """There is work, and a scheduler to which it should be reported."""
        self._seen_until = self._runs_since = now
        self.looked_ns = self.busy_ns = self.reported_ns = self.unsure_ns = 0
        """For how long it looked; for how long it had work; what it reported; for how long a late look may count
        although nothing was seen."""

    @property
    def is_looking(self) -> bool:
        return self._due != NEVER

    def saw(self, now: int) -> None:
        """Makes all looks that were due until now."""
        self.looked_ns += (now - self._seen_until) * self.is_looking
        self.busy_ns += (now - self._seen_until) * self._is_counted
        self._seen_until = now
        while self._due <= now:
            at = max(self._due, self._runs_since)
            seen = Unfinished.SOME if self._is_busy else Unfinished.NONE
            self._machine.looked(at, self._index, self._facts, seen)
            self._decide(at)

    def late(self, now: int) -> None:
        """It could not look until now."""
        if self.is_looking:
            self.unsure_ns += min(now - self._seen_until, LOOKS_MOST * LOOK_NS)
        self._seen_until = self._runs_since = now

    def change(self, now: int, use: GpuUse) -> None:
        has_context = bool(self._machine.seen[self._index].contexts)
        is_passed = use.is_open or use.is_letting or self._machine.state(self._index) is TurnState.DRAINING
        self._is_busy = use.has_work and is_passed and has_context
        self._is_counted = self._is_busy and self._machine.is_registered and not self._machine.is_hung
        self._facts.can_look = has_context
        self._facts.may_be_unfinished = use.is_letting
        self._decide(now)

    def _decide(self, now: int) -> None:
        """A watched gate shows at once that there is no work."""
        machine, facts = self._machine, self._facts
        facts.is_idle = not self._is_busy and (
            machine.watches(self._index) or machine.looker_wants_watch(self._index, facts)
        )
        self._due = machine.next_look(now, self._index, facts)


class Lookers:
    """The lookers of one process; none if it does not report its GPU time."""

    def __init__(
        self,
        timeline: Timeline,
        machine: ClientMachine,
        uses: Sequence[GpuUse],
        do: Callable[[Callable[[], None]], None],
    ) -> None:
        self._timeline = timeline
        self.pairs = [(use, Looker(machine, use.index, timeline.now)) for use in uses]
        self._decoder = Decoder(FROM_CLIENT)
        self._wakes_at = 0
        self._alarm = Alarm(timeline, lambda: None, do)

    def before(self) -> None:
        """Something happens to the process now."""
        for _, looker in self.pairs:
            looker.saw(self._timeline.now)

    def after(self) -> None:
        """It has happened."""
        for use, looker in self.pairs:
            looker.change(self._timeline.now, use)
        is_looking = any(looker.is_looking for _, looker in self.pairs)
        if is_looking and self._wakes_at <= self._timeline.now:
            self._wakes_at = self._timeline.now + BATCH_NS
            self._alarm.set(self._wakes_at, lambda _: BATCH_NS)

    def late(self) -> None:
        """The process could do nothing until now."""
        for _, looker in self.pairs:
            looker.late(self._timeline.now)

    def sent(self, frames: bytes) -> None:
        """To the scheduler; GPU time is a part of it."""
        for message in self._decoder.feed(frames) if self.pairs else ():
            if isinstance(message, GpuTime):
                busy = (message.busy_0, message.busy_1, message.busy_2, message.busy_3)
                self.pairs[message.gpu][1].reported_ns += sum(word.bit_count() for word in busy) * LOOK_NS

"""When a client looks at a GPU, rests, and ends: the shipped C, at times of the test."""

from client_machine.helper import MILLISECOND, SECOND, Helper
from nvshare.client_machine.library import NEVER, TurnState
from nvshare.client_machine.looks import QUIET, LookFacts, Unfinished
from nvshare.wire import messages as wire

NONE, SOME, MORE, UNKNOWN = Unfinished


class Holder(Helper):
    """A process that holds a lock. `facts` is what its helper thread knows."""

    def __init__(self, version: int = wire.PROTOCOL_VERSION) -> None:
        super().__init__(version)
        self.want()
        self.machine.seen[0].waiters = 0
        self.hear(wire.LockOk(0, False, 7))
        self.sent.clear()
        self.facts = LookFacts(can_look=True, can_report=True)

    @property
    def due(self) -> int:
        return self.machine.next_look(self.now, 0, self.facts)

    def look(self, seen: Unfinished) -> None:
        """When the next look is due."""
        self.now = self.due
        self.machine.looked(self.now, 0, self.facts, seen)

    def look_until(self, end: int, seen: Unfinished) -> int:
        """How many looks are made until then."""
        count = 0
        while self.due <= end:
            self.look(seen)
            count += 1
        return count

    @property
    def reports(self) -> list[wire.GpuTime]:
        return [message for message in self.sent if isinstance(message, wire.GpuTime)]

    @property
    def looks(self) -> list[tuple[int, bool]]:
        """All that was reported: the number of each look, and whether there was work."""
        return [(m.first + i, bool(m.busy_0 >> i & 1)) for m in self.reports for i in range(m.count)]


def test_looks_begin_with_the_next_instant_when_the_gate_is_open() -> None:
    holder = Holder()
    assert holder.now < holder.due <= holder.now + 2 * MILLISECOND
    assert holder.due == holder.due


def test_no_look_is_made_without_a_reason() -> None:
    assert Holder(wire.GPU_TIME_SINCE - 1).due == NEVER
    holder = Holder()
    holder.facts.can_look = False
    assert holder.due == NEVER
    waiting = Helper()
    waiting.want()
    assert waiting.machine.next_look(waiting.now, 0, LookFacts(can_look=True)) == NEVER


def test_looks_go_on_while_work_may_be_unfinished_and_end_with_a_report() -> None:
    holder = Holder()
    holder.look(SOME)
    holder.hear(wire.DropLock(0, wire.DropReason.QUANTUM, 1000, 7))
    assert holder.machine.state(0) is TurnState.DRAINING
    holder.look(SOME)
    holder.machine.drained(holder.now, 0, again=False)
    holder.facts.may_be_unfinished = True
    holder.look(NONE)
    assert holder.reports == []
    holder.facts.may_be_unfinished = False
    assert holder.due == NEVER
    assert [busy for _, busy in holder.looks] == [True, True, False]
    assert holder.due == NEVER
    assert len(holder.reports) == 1


def test_a_process_without_work_wants_a_watch_and_rests_when_it_finds_nothing() -> None:
    holder = Holder()
    began = holder.now
    while not holder.machine.looker_wants_watch(0, holder.facts):
        holder.look(NONE)
    assert QUIET <= (holder.now - began) // MILLISECOND < QUIET + 40
    holder.look_until(holder.now + SECOND, NONE)
    assert all(report.count for report in holder.reports), "the watch has not found that nothing was submitted"
    holder.facts.is_idle = True
    assert holder.due == NEVER
    *looked, rest = holder.reports
    assert (rest.count, rest.first) == (0, looked[-1].first + looked[-1].count)
    assert holder.machine.looker_wants_watch(0, holder.facts)
    holder.now += 100 * SECOND
    assert holder.due == NEVER
    assert holder.reports == [*looked, rest]
    holder.facts.is_idle = False
    assert holder.now < holder.due <= holder.now + 2 * MILLISECOND
    assert not holder.machine.looker_wants_watch(0, holder.facts)


def test_a_closed_gate_is_not_watched() -> None:
    holder = Holder()
    holder.look_until(holder.now + SECOND, NONE)
    holder.hear(wire.DropLock(0, wire.DropReason.QUANTUM, 1000, 7))
    assert holder.due != NEVER
    assert not holder.machine.looker_wants_watch(0, holder.facts)


def test_idleness_alone_is_no_rest() -> None:
    holder = Holder()
    holder.facts.is_idle = True
    holder.look_until(holder.now + 50 * MILLISECOND, NONE)
    assert holder.due != NEVER
    assert holder.reports == []


def test_if_a_round_of_several_looks_finds_nothing_there_was_no_work_since_its_first_look() -> None:
    holder = Holder()
    holder.look(SOME)
    holder.look(MORE)
    first = holder.now // MILLISECOND
    for _ in range(20):
        holder.look(MORE)
    holder.look(NONE)
    holder.facts.can_look = False
    assert holder.due == NEVER
    assert [look for look, busy in holder.looks if busy] == [first - 1]
    assert [look for look, busy in holder.looks if not busy] == list(range(first, first + 22))


def test_a_round_that_finds_work_says_nothing_about_its_beginning() -> None:
    holder = Holder()
    holder.look(NONE)
    for _ in range(20):
        holder.look(MORE)
    holder.look(SOME)
    holder.facts.can_look = False
    assert holder.due == NEVER
    assert sum(busy for _, busy in holder.looks) == 11, "half of the time since the last answer"


def test_looks_without_an_answer_become_rare_and_an_answer_ends_that() -> None:
    holder = Holder()
    assert holder.look_until(holder.now + 60 * MILLISECOND, UNKNOWN) >= 59
    holder.look_until(holder.now + 20 * MILLISECOND, UNKNOWN)
    assert holder.look_until(holder.now + SECOND, UNKNOWN) in (19, 20)
    holder.look(SOME)
    assert holder.due <= holder.now + 2 * MILLISECOND
    holder.facts.can_look = False
    assert holder.due == NEVER
    assert len(holder.looks) == 1


def test_nothing_is_reported_to_a_scheduler_that_does_not_read() -> None:
    holder = Holder()
    holder.facts.can_report = False
    holder.look_until(holder.now + SECOND, SOME)
    assert holder.reports == []
    holder.facts.can_report = True
    holder.look_until(holder.now + SECOND, SOME)
    assert holder.reports[0].first * MILLISECOND > holder.now - 1500 * MILLISECOND


def test_the_words_of_a_report_are_in_the_order_of_the_looks() -> None:
    holder = Holder()
    first = holder.due // MILLISECOND
    for i in range(150):
        holder.look(SOME if i % 3 else NONE)
    holder.facts.can_look = False
    assert holder.due == NEVER
    bits = sum(1 << i for i in range(150) if i % 3)
    words = [bits >> 64 * i & (1 << 64) - 1 for i in range(4)]
    assert holder.reports == [wire.GpuTime(0, 150, first, *words)]

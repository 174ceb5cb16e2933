"""The account of use: what is counted, for how long it is kept, and what a bad file does."""

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from nvshare.config import load
from nvshare.core import events as ev
from nvshare.core.model import GIB, SECOND, Claim, Memory, QuantumRule, Settings
from nvshare.core.node import Node
from nvshare.journal import Step
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.usage import DAY_S, HOUR_S, MOST_ROWS, OTHERS, Period, Usage, Use
from nvshare.scheduler.observe.usage_file import UsageFile, lines_of
from nvshare.scheduler.observe.usage_report import By, UsageReport

GPU = "GPU-1"
BEGIN = 1_763_337_600
"""Midnight, and the beginning of an hour."""


def report(usage: Usage, since: float, by: By) -> tuple[float, list[tuple[str, Use]]]:
    """From when the sums count, and its rows."""
    made = UsageReport(usage.periods_since(since), since, by)
    for _ in made.make():
        pass
    return made.begin, made.rows


class Story:
    """A core whose steps go to an account; time is seconds after BEGIN."""

    def __init__(self, settles_at_s: int | None = None) -> None:
        settles_at = None if settles_at_s is None else settles_at_s * SECOND
        self.node = Node(Settings(quantum=QuantumRule(mode="auto")), epoch=1, settles_at=settles_at)
        self.usage = Usage(self.node.clients)
        self.do(0, ev.GpuFound(GPU, 10 * GIB))

    def do(self, at_s: float, event: ev.Event) -> None:
        now = int(at_s * SECOND)
        while (due := self.node.next_deadline()) is not None and due < now:
            self._step(due, ev.AlarmRang())
        self._step(now, event)

    def _step(self, now: int, event: ev.Event) -> None:
        step = Step(now, BEGIN + now / SECOND, event, tuple(self.node.handle(now, event)))
        if type(event) in self.usage.notes:
            self.usage.notes[type(event)](step)

    def join(self, at_s: float, client: int, name: str = "train", label: str = "default/p", uid: int = 1000) -> None:
        self.do(at_s, ev.ClientRegistered(client, f"run/{client}", label, name, (Claim(GPU, 10 * GIB),), uid=uid))

    def ask(self, at_s: float, client: int, gib: int) -> None:
        self.do(at_s, ev.LockRequested(client, GPU, Memory(gib * GIB)))

    def rows(self, at_s: float, by: By = "name", since_s: float = 0) -> dict[str, Use]:
        self.usage.collect(int(at_s * SECOND), BEGIN + at_s)
        return dict(report(self.usage, BEGIN + since_s, by)[1])


def test_held_time_memory_and_waiting_of_two_programs_that_take_turns() -> None:
    story = Story()
    story.join(0, 1, "first")
    story.join(0, 2, "second")
    story.ask(0, 1, 6)
    story.ask(10, 2, 6)
    lock = story.node.clients[1].seats[GPU].lock
    story.do(40, ev.LockReleased(1, GPU, lock, False))
    story.do(50, ev.MemoryMoved(2, GPU, False, 3 * GIB, 1))
    assert story.rows(60) == {
        "first": Use(40, 60 * 6.0 * GIB, 0, 1, gpu_seconds=39.488),  # without the last 512 looks
        "second": Use(20, 50 * 6.0 * GIB, 30, 1, moved_in_bytes=3 * GIB),
    }


def test_a_program_that_has_ended_is_in_the_report() -> None:
    story = Story()
    story.join(0, 1, uid=0)
    story.ask(0, 1, 2)
    story.do(30, ev.ClientLeft(1))
    assert story.rows(100, "user") == {"0": Use(30, 30 * 2.0 * GIB, 0, 1, gpu_seconds=30)}
    assert story.rows(200, "gpu") == {GPU: Use(30, 30 * 2.0 * GIB, 0, 1, gpu_seconds=30)}


def test_a_client_without_a_user_and_one_that_is_not_known_do_no_harm() -> None:
    story = Story()
    story.do(0, ev.ClientRegistered(1, "run/1", "run 1", "train", (Claim(GPU, 10 * GIB),)))
    for event in (ev.MemoryChanged(9, GPU, Memory(1)), ev.ClientLeft(9)):
        story.usage.notes[type(event)](Step(0, BEGIN, event, ()))
    story.ask(0, 1, 1)
    assert story.rows(1, "user") == {"": Use(1, GIB, 0, 1)}


def claims(client: int, name: str, *, lock: int = 0) -> ev.ClientRegistered:
    """A client that runs already when it registers: with a lock, or (0) with none."""
    memory = Memory(6 * GIB)
    claim = Claim(GPU, 10 * GIB, lock=lock, unshared=not lock, memory=memory)
    return ev.ClientRegistered(client, f"run/{client}", "run", name, (claim,))


def test_a_lock_that_is_claimed_too_late_is_not_held() -> None:
    story = Story()
    story.join(0, 1)
    story.ask(0, 1, 6)
    story.do(0, claims(2, "late", lock=7))
    story.do(0, claims(3, "unshared"))
    used = story.rows(5)
    waited = Use(0, 5 * 6.0 * GIB, 5, 0)
    assert used == {"train": Use(5, 5 * 6.0 * GIB, 0, 1), "late": waited, "unshared": waited}


def test_a_claimed_lock_is_held_and_an_ordinary_drop_ends_nothing() -> None:
    story = Story(settles_at_s=2)
    story.do(0, claims(1, "first", lock=7))
    story.do(0, claims(2, "unshared"))
    story.join(3, 3, "waits")
    story.ask(3, 3, 6)
    used = story.rows(5)
    assert (used["first"].held_seconds, used["first"].switches) == (5, 0), "it had this lock before"
    assert (used["unshared"].held_seconds, used["unshared"].switches) == (5, 1)
    assert story.node.clients[2].seats[GPU].state == "dropping", "both did not fit"
    assert used["waits"].waiting_seconds == 2


def test_while_scheduling_is_off_nothing_is_held() -> None:
    story = Story()
    story.join(0, 1)
    story.ask(0, 1, 1)
    story.do(10, ev.SchedulingSwitched(False))
    assert story.rows(60)["train"].held_seconds == 10


def test_memory_that_was_moved_out_is_counted_and_cannot_overflow() -> None:
    story = Story()
    story.join(0, 1)
    for _ in range(2):
        story.do(1, ev.MemoryMoved(1, GPU, True, (1 << 64) - 1, 1))
    assert story.rows(1)["train"].moved_out_bytes == (1 << 63) - 1


def test_hours_become_a_day_and_days_are_forgotten() -> None:
    story = Story()
    story.join(0, 1)
    story.ask(0, 1, 1)
    story.do(1800, ev.ClientLeft(1))
    days = 3 * DAY_S
    assert story.rows(days)["train"].held_seconds == 1800
    assert [(period.seconds, period.start) for period in story.usage.periods.values() if period.rows] == [
        (DAY_S, BEGIN)
    ]
    assert story.rows(92 * DAY_S) == {}
    assert len(story.usage.periods) == 1, "only the present hour"


def test_only_periods_that_reach_into_the_time_asked_for_count() -> None:
    story = Story()
    story.join(0, 1)
    story.ask(0, 1, 1)
    story.do(60, ev.ClientLeft(1))
    assert story.rows(2 * HOUR_S, since_s=HOUR_S) == {}
    assert report(story.usage, BEGIN + 30, "name")[0] == BEGIN, "the first period counts as a whole"
    assert report(story.usage, BEGIN + 99 * DAY_S, "name") == (BEGIN + 99 * DAY_S, [])


def test_what_a_wrong_clock_counted_is_counted_now() -> None:
    story = Story()
    story.usage.restore([period_with(1, start=BEGIN + 30 * DAY_S)])
    assert story.rows(10)["train 0"].held_seconds == 1
    assert {period.start for period in story.usage.periods.values()} == {BEGIN}


def test_a_clock_that_is_not_set_makes_nothing_old_and_what_it_counted_is_counted_later() -> None:
    """A machine without a battery begins in 1970, or when its system was built, until it has reached a time server."""
    usage = Usage({})
    usage.restore([period_with(1)])
    for hour in range(3):
        usage.collect(0, hour * HOUR_S + 5)
    assert {period.start for period in usage.periods.values()} == {BEGIN, 0}
    usage.restore([period_with(1, start=0)])
    usage.collect(1, BEGIN + HOUR_S)
    assert [(period.start, len(period.rows)) for period in usage.periods.values()] == [(BEGIN, 1), (BEGIN + HOUR_S, 1)]


def test_a_period_has_a_bounded_number_of_rows() -> None:
    period = period_with(MOST_ROWS + 50)
    assert len(period.rows) == MOST_ROWS + 1
    assert period.rows[OTHERS, OTHERS, OTHERS, GPU].held_seconds == 50


def period_with(rows: int, start: int = BEGIN) -> Period:
    period = Period(start, HOUR_S)
    for number in range(rows):
        period.row(("1000", "default/p", f"train {number}", GPU)).add(Use(held_seconds=1))
    return period


# The file.


def start(place: Path) -> UsageFile:
    engine = Engine(Node(Settings(), epoch=1), asyncio.new_event_loop())
    file = UsageFile(engine, load(["--operator-socket", str(place / "control.sock")], {}))
    file.start()
    return file


def test_the_next_scheduler_goes_on_with_the_account(tmp_path: Path) -> None:
    first = start(tmp_path)
    now = first._engine.wall(first._engine.now())
    first.usage.restore([period_with(2, start=int(now) // HOUR_S * HOUR_S)])
    first.close()
    second = start(tmp_path)
    assert [name for name, _ in report(second.usage, now - HOUR_S, "name")[1]] == ["train 0", "train 1"]
    second.close()
    assert [use.held_seconds for _, use in report(start(tmp_path).usage, now - HOUR_S, "user")[1]] == [2], "once"


def test_the_hours_are_those_of_the_clock_when_it_is_set_while_the_scheduler_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = start(tmp_path)
    later = time.time() + 30 * DAY_S
    monkeypatch.setattr(time, "time", lambda: later)
    file.close()
    assert [period.start for period in file.usage.periods.values()] == [int(later) // HOUR_S * HOUR_S]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]\n{}", b"\xff\xfe", b'{"start": 1, "seconds": 3600, "rows": []}', b"[" * 100_000],
    ids=["empty", "cut off", "other", "binary", "no hour", "deep"],
)
def test_a_corrupt_file_costs_at_most_a_line_of_the_log(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)
    good = lines_of([period_with(1)])[0]
    (tmp_path / "usage.jsonl").write_bytes(content + b"\n" + good)
    usage = start(tmp_path).usage
    assert [name for name, _ in report(usage, BEGIN, "name")[1]] == ["train 0"], "what can be read is kept"
    assert len(said) == 1


def test_an_account_that_cannot_be_read_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)
    (tmp_path / "usage.jsonl").mkdir()
    assert start(tmp_path).usage.periods == {}
    (tmp_path / "usage.jsonl").rmdir()
    with (tmp_path / "usage.jsonl").open("wb") as file:
        file.truncate(1 << 30)
    assert start(tmp_path).usage.periods == {}
    assert ["too large" in line for line in said] == [False, True]


def test_a_full_disk_costs_a_line_of_the_log_in_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(log, "warning", said.append)
    file = start(tmp_path / "missing")
    file.close()
    file.close()
    assert len(said) == 1
    assert "Cannot save the account of use" in said[0]


def test_the_largest_file_is_bounded() -> None:
    row = [
        "4294967295",
        "x" * 128,
        "y" * 128,
        "GPU-" + "z" * 60,
        msgspec.to_builtins(Use(1e15, 1e27, 1e15, 1 << 62, 1 << 62, 1 << 62)),
    ]
    assert len(msgspec.json.encode(row)) * (MOST_ROWS + 1) * (49 + 91) < 20 << 20

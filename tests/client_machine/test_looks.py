"""When the library looks whether its work has finished, and what it reports: the shipped C, at times of the test."""

import random

from nvshare.client_machine.library import LIBRARY
from nvshare.client_machine.looks import DUE, QUIET, LookReport, Looks
from nvshare.wire import messages as m

MS = 1_000_000
MOST = m.LOOKS_MOST


class Watcher:
    """Looks as the helper does. `seen` is what it has reported: whether work was unfinished, by look."""

    def __init__(self) -> None:
        self.looks = Looks()
        self.reports: list[tuple[int, int, int]] = []
        self.seen: dict[int, bool] = {}

    def look(self, now: int, busy: bool) -> None:
        report = LookReport()
        if LIBRARY.nvs_looks_saw(self.looks, now, busy, report):
            self.take(report)

    def end(self) -> None:
        report = LookReport()
        if LIBRARY.nvs_looks_end(self.looks, report):
            self.take(report)

    def take(self, report: LookReport) -> None:
        assert 1 <= report.count <= MOST
        for i in range(report.count):
            assert report.first + i not in self.seen
            self.seen[report.first + i] = bool(report.looks >> i & 1)
        self.reports.append((report.first, report.count, report.looks))

    def next(self, now: int) -> int:
        return int(LIBRARY.nvs_looks_next(self.looks, now))


def busy_share(watcher: Watcher) -> float:
    return sum(watcher.seen.values()) / len(watcher.seen)


def test_each_look_has_one_instant_in_its_millisecond() -> None:
    instants = []
    now = 5_000 * MS
    for _ in range(1000):
        now = Watcher().next(now)
        instants.append(now)
    first = instants[0] // MS
    assert first in (5_000, 5_001)
    assert [instant // MS for instant in instants] == list(range(first, first + 1000))
    places = [instant % MS / MS for instant in instants]
    assert abs(sum(places) / len(places) - 0.5) < 0.05
    assert [LIBRARY.nvs_look_at(instant) for instant in instants] == [instant // MS for instant in instants]
    assert [LIBRARY.nvs_look_at(instant - 1) for instant in instants] == [instant // MS - 1 for instant in instants]


def test_work_of_half_a_millisecond_in_each_millisecond_counts_half() -> None:
    watcher, now = Watcher(), 1_000 * MS
    while now < 11_000 * MS:
        now = watcher.next(now)
        watcher.look(now, now % MS < MS // 2)
    assert abs(busy_share(watcher) - 0.5) < 0.015


def test_looks_are_fewer_while_answers_are_alike_and_all_are_reported() -> None:
    watcher, now, asked = Watcher(), 1_000 * MS, 0
    while now < 3_000 * MS:
        now = watcher.next(now)
        watcher.look(now, True)
        asked += 1
    watcher.end()
    assert 0 <= asked - (8 + 56 + (2_000 - 8 - 4 * 56) // 16) <= 2
    assert sorted(watcher.seen) == list(range(min(watcher.seen), max(watcher.seen) + 1))
    assert all(watcher.seen.values())
    assert all(count >= DUE for _, count, _ in watcher.reports[:-1])


def test_work_that_is_seldom_counts_as_much_as_it_is() -> None:
    watcher, now = Watcher(), 1_000 * MS
    while now < 101_000 * MS:
        now = watcher.next(now)
        watcher.look(now, now % (10 * MS) < MS // 2)
    assert abs(busy_share(watcher) - 0.05) < 0.005


def test_looks_that_came_late_are_half_the_old_answer_and_half_the_new() -> None:
    watcher = Watcher()
    watcher.look(1_000 * MS + MS - 1, True)
    watcher.look(1_100 * MS + MS - 1, False)
    watcher.end()
    assert sum(watcher.seen.values()) == 51
    assert len(watcher.seen) == 101


def test_looks_without_an_answer_for_too_long_are_not_reported() -> None:
    watcher = Watcher()
    watcher.look(1_000 * MS + MS - 1, True)
    watcher.look(2_000 * MS + MS - 1, True)
    watcher.end()
    assert sorted(watcher.seen) == [1_000, 2_000]


def test_a_second_answer_at_the_same_look_changes_nothing() -> None:
    watcher = Watcher()
    watcher.look(1_000 * MS + MS - 1, True)
    watcher.look(1_000 * MS + MS - 1, False)
    watcher.end()
    assert watcher.seen == {1_000: True}


def test_late_looks_at_random_are_reported_once_and_in_order() -> None:
    chance = random.Random(4)
    watcher, now, busy = Watcher(), 1_000 * MS, False
    while now < 60_000 * MS:
        now = max(now + 1, watcher.next(now)) + chance.choice([0, 0, 0, MS, 7 * MS, 90 * MS, 200 * MS])
        busy = busy != (chance.random() < 0.2)
        watcher.look(now, busy)
    watcher.end()
    assert sorted(watcher.seen) == list(range(min(watcher.seen), max(watcher.seen) + 1))


def test_it_is_quiet_after_a_while_without_work() -> None:
    watcher, now, quiet_at = Watcher(), 1_000 * MS, None
    while quiet_at is None:
        now = watcher.next(now)
        watcher.look(now, now < 1_050 * MS)
        quiet_at = now // MS if LIBRARY.nvs_looks_are_quiet(watcher.looks) else None
    assert QUIET <= quiet_at - 1_050 < QUIET + 32
    watcher.look(now + 10 * MS, True)
    assert not LIBRARY.nvs_looks_are_quiet(watcher.looks)
    watcher.end()
    assert not LIBRARY.nvs_looks_are_quiet(watcher.looks)

"""A running program survives an upgrade: every recorded version of the library talks to today's scheduler, and today's
library to every recorded scheduler. What they said is recorded (conversations/)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from libnvshare.fake_scheduler import FakeScheduler
from libnvshare.programs import NULL_DRIVER, Programs
from nvshare.wire import messages as wire
from upgrade.conversation import CONVERSATIONS, Line, assert_understood, encode, known_lengths, read
from upgrade.replay import old_libraries, old_scheduler
from upgrade.todays_scheduler import todays_scheduler

RELEASED = [1]
VERSIONS = [*RELEASED, 5, wire.PROTOCOL_VERSION]
"""Version 5 was not released. It is the last one without GPU_TIME and memory modes."""
OPERATORS = {8, 10, 11}
"""Numbers of messages that no library sends or gets."""


def recorded(version: int) -> list[Line]:
    return read(CONVERSATIONS / f"v{version}.txt")


def test_every_recorded_conversation_is_replayed() -> None:
    assert sorted(CONVERSATIONS.glob("*.txt")) == sorted(CONVERSATIONS / f"v{version}.txt" for version in VERSIONS)


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[FakeScheduler]:
    with FakeScheduler(tmp_path / "s") as fake:
        yield fake


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    environment = {"LD_LIBRARY_PATH": str(NULL_DRIVER), "NVSHARE_SOCKET": str(tmp_path / "s")}
    with Programs(tmp_path, environment) as started:
        yield started


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_library_is_served_by_todays_scheduler(tmp_path: Path, version: int) -> None:
    with todays_scheduler(str(tmp_path / "s")) as today:
        old_libraries(recorded(version), today, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_todays_library_is_served_by_an_old_scheduler(
    programs: Programs, scheduler: FakeScheduler, version: int
) -> None:
    old_scheduler(recorded(version), programs, scheduler, version)


def test_a_message_that_an_old_peer_does_not_know_is_found() -> None:
    with pytest.raises(AssertionError, match="does not know"):
        assert_understood(encode(wire.Ping(0)), 1, by_library=False)
    assert_understood(encode(wire.Pong(0)), 1, by_library=True)


def test_a_field_that_an_old_peer_misses_is_found() -> None:
    with pytest.raises(AssertionError, match="too short"):
        assert_understood(encode(wire.Contended(0, True))[:-1], 1, by_library=True)


def test_another_answer_than_the_recorded_one_is_found(tmp_path: Path) -> None:
    """The old scheduler is said to have refused what it granted."""
    lines = [
        Line(line.who, "<", encode(wire.Budget(0, 2, line.message.ask, 1, line.message.others)).hex())
        if line.sign == "<" and isinstance(line.message, wire.Budget)
        else line
        for line in recorded(1)
    ]
    with todays_scheduler(str(tmp_path / "s")) as today, pytest.raises(AssertionError, match="instead of"):
        old_libraries(lines, today, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_released_version_and_todays_has_a_conversation_with_a_restart(version: int) -> None:
    """`python tests/upgrade/record.py` records today's."""
    assert [line for line in recorded(version) if (line.who, line.text) == ("scheduler", "restart")]


@pytest.mark.parametrize("version", RELEASED)
def test_what_the_conversation_leaves_out_is_little(version: int) -> None:
    said = {line.frame[2] for line in recorded(version) if line.sign in "<>"}
    left_out = known_lengths(version).keys() - said
    little = {kind.number for kind in (wire.SchedOff, wire.Busy, wire.LongWait)}
    assert left_out - OPERATORS == little


NOT_RECORDED: dict[type[wire.Message], str] = {
    wire.SetTq: "no library gets it",
    wire.Busy: "sent only between IDLE and the DROP_LOCK that follows within milliseconds",
    wire.Ping: "sent after a silence that no story lasts for",
    wire.Pong: "the answer to PING",
    wire.Moved: "the null driver moves no memory",
    wire.RoomMade: "the null driver moves no memory",
    wire.Slowed: "the null driver moves no memory",
    wire.KeepOnHost: "sent for a limit that is lowered below what is used, and kept by moving memory",
    wire.OnHost: "the answer to KEEP_ON_HOST",
}
"""Messages that today's conversation leaves out, and why. tests/wire/golden has a frame of each."""


def test_todays_conversation_has_every_message_but_those_that_are_named() -> None:
    said = {type(line.message) for line in recorded(wire.PROTOCOL_VERSION) if line.sign in "<>"}
    assert set(wire.MESSAGES) - said == set(NOT_RECORDED)
    assert {kind.number for kind in NOT_RECORDED} <= known_lengths(wire.PROTOCOL_VERSION).keys()


def test_the_library_sends_no_bytes_that_it_did_not_set() -> None:
    """Padding is zero, as in `encode`: otherwise frames would contain earlier contents of the program's memory."""
    sent = [line for line in recorded(wire.PROTOCOL_VERSION) if line.sign == ">"]
    assert sent
    assert [encode(line.message).hex() for line in sent] == [line.text for line in sent]

"""A daemon's journal replays through the core, and a changed one does not."""

import json
from pathlib import Path

import pytest

from nvshare.core import events as ev
from nvshare.core.model import Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.journal import DaemonStart, JournalError, Step
from nvshare.schedsim.replay import replay
from nvshare.scheduler.observe.journal import JournalFile
from support.client import GIB
from support.fixtures import StartDaemon


def journal(path: Path) -> Path:
    """Of a small story, written as the daemon writes it."""
    settings = Settings()
    node = Node(settings, epoch=3)
    file = JournalFile(path, 1 << 20)
    file.observe(DaemonStart(now=0, settings=settings, epoch=3, settles_at=None, expects_pods=False))
    story: list[ev.Event] = [ev.GpuFound("g", 10 * GIB)]
    for client in (1, 2):
        story.append(ev.ClientRegistered(client, f"run/{client}", "", "", (Claim("g", 10 * GIB),)))
        story.append(ev.LockRequested(client, "g", Memory(swappable=6 * GIB)))
    story += [ev.WorkFinished(1, "g"), ev.LockReleased(1, "g", (3 << 32) + 1, False), ev.ClientLeft(2)]
    for now, event in enumerate(story, 1):
        file.observe(Step(now, 0.0, event, tuple(node.handle(now, event))))
    file.close()
    return path


def test_a_journal_gives_the_same_actions(tmp_path: Path) -> None:
    with journal(tmp_path / "journal").open("rb") as lines:
        played = replay(lines)
    assert (played.daemons, played.steps, played.difference) == (1, 8, None)


def test_the_first_difference_is_shown(tmp_path: Path) -> None:
    lines = journal(tmp_path / "journal").read_bytes().splitlines()
    changed = json.loads(lines[3])
    changed["actions"] = []
    lines[3] = json.dumps(changed).encode()
    played = replay(lines)
    assert played.difference is not None
    assert played.difference.line == 4
    assert [type(action).__name__ for action in played.difference.ours] == ["GiveLock"]


def test_steps_before_the_first_start_of_a_daemon_are_skipped(tmp_path: Path) -> None:
    lines = journal(tmp_path / "journal").read_bytes().splitlines()
    played = replay([*lines[5:], *lines])
    assert (played.daemons, played.steps, played.skipped) == (1, 8, 4)


NO_STEPS = [b"hello", b"[]", b"{}", b"7", b'{"now": 1, "time": 1.0, "event": {"Nothing": {}}, "actions": []}',
            b'{"now": "1", "time": 1.0, "event": {"AlarmRang": {}}, "actions": []}']  # fmt: skip


@pytest.mark.parametrize("line", NO_STEPS)
def test_what_is_no_journal_says_so(line: bytes) -> None:
    with pytest.raises(JournalError, match="line 1"):
        replay([line])


def test_lost_lines_are_noticed(tmp_path: Path) -> None:
    lines = journal(tmp_path / "journal").read_bytes().splitlines()
    with pytest.raises(JournalError, match="does not follow"):
        replay([*lines[:2], *lines[3:]])


def test_a_real_daemons_journal_replays(start_daemon: StartDaemon, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    daemon = start_daemon("--journal-file", str(path), "--switch-time-mode", "fixed", "--switch-time-fixed", "1")
    with daemon.client().register() as one, daemon.client().register() as two:
        lock = one.take_lock(12 * GIB)
        two.request(12 * GIB)
        daemon.log.wait_for("taken back")
        one.release(lock, again=True)
    daemon.log.wait_for("Client left", times=2)
    assert daemon.stop() == 0
    with path.open("rb") as lines:
        played = replay(lines)
    assert played.difference is None
    assert played.steps >= 6

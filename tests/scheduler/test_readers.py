"""The socket for reading: every user may look, and nobody may change anything."""

import asyncio
import contextlib
import os
import select
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.scheduler.clients.connection_admission import CHARGE_FACTOR, CREDIT_NS
from nvshare.scheduler.operator.control import Control
from nvshare.scheduler.operator.readers import MAX_UNREAD_ANSWERS, Readers
from support.client import entry
from support.daemon import Daemon, call_ctl
from support.waiting import wait_until

NOBODY = 65534
CROWD = """
import os, socket, sys
os.setuid(int(sys.argv[2]))
peers = [socket.socket(socket.AF_UNIX) for _ in range(100)]
for peer in peers:
    peer.connect(sys.argv[1])
print("there", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every user can enter."""
    with tempfile.TemporaryDirectory(prefix="r") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def read_daemon(place: Path) -> Iterator[Daemon]:
    with Daemon(place, "--reader-socket", str(place / "status" / "status.sock")) as made:
        yield made


def reader_socket(daemon: Daemon) -> str:
    return str(Path(daemon.operator_socket).parents[1] / "status" / "status.sock")


def connected(path: str) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(path)
    return peer


def is_hung_up(peer: socket.socket) -> bool:
    poll = select.poll()
    poll.register(peer, 0)
    return bool(poll.poll(0))


@pytest.mark.parametrize(
    "words", [["status"], ["limits"], ["events"], ["story", "trainer"], ["top", "-n", "1"]], ids=" ".join
)
def test_every_question_is_answered_as_by_the_operators_socket(read_daemon: Daemon, words: list[str]) -> None:
    with read_daemon.client().register(name=b"trainer") as client:
        client.take_lock()
        code, out, err = call_ctl("--socket", reader_socket(read_daemon), *words)
    assert (code, err) == (0, "")
    assert out


ORDERS = [
    ["set-tq", "5"],
    ["set-mode", "auto"],
    ["anti-thrash", "off"],
    ["limit", "trainer", "1Gi"],
    ["pause", "trainer"],
]
ORDERS += [["resume", "trainer"], ["yield", "trainer"], ["set-weight", "trainer", "2"], ["set-policy", "fair"]]


@pytest.mark.parametrize("words", ORDERS, ids=" ".join)
def test_orders_are_refused(read_daemon: Daemon, words: list[str]) -> None:
    with read_daemon.client().register(name=b"trainer"):
        before = read_daemon.status()["gpus"][0]["mode"], read_daemon.status()["scheduling"]
        code, _, err = call_ctl("--socket", reader_socket(read_daemon), *words)
        assert code == 1
        assert "only root and the scheduler's own user may change something" in err
        assert (read_daemon.status()["gpus"][0]["mode"], read_daemon.status()["scheduling"]) == before
    assert read_daemon.ctl("limits") == "No limits.\n"


def test_garbage_is_answered_and_ends_nothing(read_daemon: Daemon) -> None:
    with pytest.raises(operator_client.RefusedError, match="invalid request"):
        operator_client.ask(reader_socket(read_daemon), admin.Request())
    read_daemon.assert_alive()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_may_look(read_daemon: Daemon) -> None:
    def looks(path: str) -> int:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setuid(NOBODY)
                code = 0 if operator_client.ask_for(admin.Status, path, admin.GetStatus()).version else 1
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert looks(reader_socket(read_daemon)) == 0
    assert looks(read_daemon.operator_socket) == 1


def test_the_socket_is_open_and_gone_after_the_end(read_daemon: Daemon) -> None:
    path = Path(reader_socket(read_daemon))
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755
    assert read_daemon.stop() == 0
    assert not path.exists()


def test_many_readers_do_not_lock_out_the_next(read_daemon: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(reader_socket(read_daemon))
        assert operator_client.ask_for(admin.Status, reader_socket(read_daemon), admin.GetStatus()).version


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_connections_of_one_user_end_none_of_another(read_daemon: Daemon) -> None:
    path = reader_socket(read_daemon)
    with socket.socket(socket.AF_UNIX) as mine:
        mine.settimeout(60)
        mine.connect(path)
        mine.sendall(admin.encode(admin.GetStatus()))
        assert mine.recv(1 << 16)
        crowd = subprocess.Popen(
            [sys.executable, "-c", CROWD, path, str(NOBODY)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with crowd:
            assert crowd.stdout is not None
            assert crowd.stdout.readline() == b"there\n"
            operator_client.ask_for(admin.Status, path, admin.GetStatus())  # All of them are accepted by then.
            mine.sendall(admin.encode(admin.GetStatus()))
            assert mine.recv(1 << 16)
            assert crowd.stdin is not None
            crowd.stdin.close()


@pytest.mark.parametrize(
    "request_", [admin.Failed("garbage"), admin.SetScheduling(on=False)], ids=["garbage", "an order"]
)
def test_the_time_of_requests_that_are_refused_is_charged_too(
    request_: admin.Request | admin.Failed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five lines that take 10 ms each."""
    now = 1_000_000_000

    def slowly(line: bytes) -> admin.Request | admin.Failed:
        nonlocal now
        now += 10_000_000
        return request_

    async def serve() -> Readers:
        made = Readers(cast("Control", SimpleNamespace(request_of=slowly)))
        here, there = socket.socketpair()
        with there:
            there.sendall(b"x\n" * 5)
            there.shutdown(socket.SHUT_WR)
            await made.serve(*await asyncio.open_connection(sock=here))
        return made

    monkeypatch.setattr(time, "monotonic_ns", lambda: now)
    (user,) = asyncio.run(serve())._users.values()
    assert user.account.delay_ns(now) >= 5 * (CHARGE_FACTOR - 1) * 10_000_000 - CREDIT_NS


@pytest.mark.parametrize("which", ["reader", "operator"])
def test_a_follower_of_events_that_sends_something_is_closed(read_daemon: Daemon, which: str) -> None:
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(60)
        peer.connect(reader_socket(read_daemon) if which == "reader" else read_daemon.operator_socket)
        peer.sendall(admin.encode(admin.GetEvents(last=0, follow=True)) + b"x" * 4096)
        with contextlib.suppress(ConnectionResetError):
            while peer.recv(1 << 16):
                pass


def test_few_answers_of_readers_that_do_not_read_are_kept(read_daemon: Daemon) -> None:
    request = admin.encode(admin.GetStatus())
    with contextlib.ExitStack() as stack:
        for _ in range(32):
            stack.enter_context(read_daemon.client().register(*[entry(number) for number in range(32)]))
        peers = [stack.enter_context(connected(reader_socket(read_daemon))) for _ in range(MAX_UNREAD_ANSWERS + 2)]
        for peer in peers:
            peer.sendall(request)
        for peer in peers[:2]:  # A new answer takes the place of the oldest one.
            wait_until(lambda peer=peer: is_hung_up(peer), "it was closed")  # type: ignore[misc]
        assert not any(map(is_hung_up, peers[2:]))
        for peer in peers[2:]:
            with peer.makefile("rb") as answer:
                assert isinstance(admin.decode_answer(answer.readline()), admin.Status)

"""The operator's language: any bytes are a request or an AdminError, and the scheduler answers each."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvshare import admin
from support.client import GIB, entry
from support.daemon import Daemon

REQUESTS: list[admin.AnyRequest] = [
    admin.GetStatus(),
    admin.SetQuantum(30),
    admin.SetQuantum(30, "GPU-1"),
    admin.SetMode("auto", None),
    admin.SetScheduling(True),
    admin.SetLimit("default/p", 5),
    admin.SetLimit("default/p", None),
    admin.GetEvents(True, 5),
    admin.GetStory("6ccb"),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: type(one).__name__)
def test_a_request_is_one_line_that_reads_back(request_: admin.AnyRequest) -> None:
    line = admin.encode(request_)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert admin.decode_request(line) == request_


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes_are_a_request_or_an_error(line: bytes) -> None:
    for decode in (admin.decode_request, admin.decode_answer):
        with contextlib.suppress(admin.AdminError):
            decode(line)


def test_nesting_without_end_is_an_error() -> None:
    with pytest.raises(admin.AdminError):
        admin.decode_request(b'{"op":"status","x":' + b"[" * 100_000)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("a"), "--http", "127.0.0.1:0") as made:
        yield made


def say(daemon: Daemon, *lines: bytes) -> list[dict[str, object]]:
    with socket.socket(socket.AF_UNIX) as operator:
        operator.settimeout(60)
        operator.connect(daemon.operator_socket)
        with contextlib.suppress(BrokenPipeError):  # An answer may come before the question has gone out.
            operator.sendall(b"".join(lines))
            operator.shutdown(socket.SHUT_WR)
        with operator.makefile("rb") as answers:
            return [json.loads(line) for line in answers]


WRONG = {
    "no JSON": b"status\n",
    "an empty line": b"\n",
    "no object": b"[]\n",
    "an unknown question": b'{"op":"reboot"}\n',
    "a field too many": b'{"op":"status","now":true}\n',
    "a field of another kind": b'{"op":"set-tq","seconds":"30"}\n',
    "a quantum of nothing": b'{"op":"set-tq","seconds":0}\n',
    "a quantum beyond numbers": b'{"op":"set-tq","seconds":1' + b"0" * 30 + b"}\n",
    "a mode that is none": b'{"op":"set-mode","mode":"magic"}\n',
    "bytes that are no text": b'{"op":"story","client":"\xff"}\n',
}


@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_request_is_answered_and_the_next_one_heard(daemon: Daemon, line: bytes) -> None:
    failed, status = say(daemon, line, admin.encode(admin.GetStatus()))
    assert failed["answer"] == "failed"
    assert failed["reason"]
    assert status["answer"] == "status"


@pytest.mark.parametrize("limit", [-1, (1 << 56) + 1, 1 << 64, 10**40])
def test_a_limit_that_no_message_can_carry_is_refused(daemon: Daemon, limit: int) -> None:
    with daemon.client().register(entry(3)) as client:
        line = f'{{"op":"limit","target":"{client.name}","limit":{limit}}}\n'.encode()
        (answer,) = say(daemon, line)
        assert answer["answer"] == "failed"
        assert client.hear_all() == []
        for valid in (GIB, None):
            (answer,) = say(daemon, admin.encode(admin.SetLimit(client.name, valid)))
            assert answer["answer"] == "done"
    daemon.assert_alive()


def test_a_line_without_end_is_cut_off(daemon: Daemon) -> None:
    with socket.socket(socket.AF_UNIX) as operator:
        operator.settimeout(60)
        operator.connect(daemon.operator_socket)
        with pytest.raises(ConnectionError):
            operator.sendall(b"x" * 10_000_000)
    daemon.assert_alive()
    assert daemon.status()


def test_operators_are_bounded(daemon: Daemon) -> None:
    """Some who came before may not have gone yet, so the bound is met after 64 at most."""
    with contextlib.ExitStack() as stack:
        for _ in range(65):
            operator = stack.enter_context(socket.socket(socket.AF_UNIX))
            operator.settimeout(60)
            operator.connect(daemon.operator_socket)
            with contextlib.suppress(BrokenPipeError):  # It has been refused already.
                operator.sendall(admin.encode(admin.GetStatus()))
            answer = json.loads(operator.makefile("rb").readline())
            if answer["answer"] == "failed":
                break
        assert answer.get("reason") == "too many operators at once; try again"
    deadline = time.monotonic() + 60
    while say(daemon, admin.encode(admin.GetStatus()))[0]["answer"] != "status":
        assert time.monotonic() < deadline, "those who went still count"


def test_a_follower_that_does_not_read_is_cut_off(daemon: Daemon) -> None:
    with socket.socket(socket.AF_UNIX) as follower, daemon.client().register(entry(4)) as client:
        follower.connect(daemon.operator_socket)
        follower.sendall(admin.encode(admin.GetEvents(follow=True, last=0)))
        for _ in range(200):
            for _ in range(100):
                client.release(client.take_lock())
            if any("does not read" in line for line in daemon.log.lines):
                break
        daemon.log.wait_for("Closing a follower of events that is too far behind")
    daemon.assert_alive()

"""The HTTP side as any client sees it: pages, streams, refusals."""

import asyncio
import contextlib
import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from nvshare import admin
from nvshare.cli import operator_client
from nvshare.scheduler.http.server import SEND_BUFFER, HttpServer
from nvshare.status_document import schema, status_document
from support.json_schema import violations
from web.conftest import start
from web.players import GIB, Player

Scheduler = Any
SCHEMA = schema()


def get(scheduler: Scheduler, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", scheduler.port, timeout=60)
    connection.request(method, path, headers=headers)
    return connection.getresponse()


def _keys(value: Any) -> Any:
    """The names in a JSON document, without its values."""
    if isinstance(value, dict):
        return {name: _keys(part) for name, part in value.items()}
    return [_keys(part) for part in value] if isinstance(value, list) else None


def events(response: http.client.HTTPResponse) -> Iterator[tuple[str, Any]]:
    """The server-sent events of a response, one by one."""
    kind = ""
    while line := response.readline():
        field, _, value = line.decode().rstrip("\n").partition(": ")
        if field == "event":
            kind = value
        elif field == "data":
            yield kind, json.loads(value)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/page.js", "text/javascript; charset=utf-8"),
        ("/page.css", "text/css; charset=utf-8"),
        ("/icon.svg", "image/svg+xml"),
        ("/healthz", "text/plain"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/api/v1/status", "application/json"),
    ],
)
def test_every_page_is_served_and_may_load_nothing_from_elsewhere(scheduler: Scheduler, path: str, kind: str) -> None:
    response = get(scheduler, path)
    assert (response.status, response.headers["content-type"]) == (200, kind)
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.read()


def test_nothing_in_the_page_names_another_host(scheduler: Scheduler) -> None:
    for path in ("/", "/page.js", "/page.css", "/model.js", "/lanes.js", "/words.js"):
        text = get(scheduler, path).read().decode()
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_there_are_no_write_operations(scheduler: Scheduler, method: str) -> None:
    assert get(scheduler, "/api/v1/status", method).status == 405


def test_an_unknown_path_is_not_found(scheduler: Scheduler) -> None:
    assert get(scheduler, "/../../etc/passwd").status == 404


def test_another_machines_name_for_this_address_is_refused(scheduler: Scheduler) -> None:
    assert get(scheduler, "/api/v1/status", Host="evil.example:80").status == 403
    assert get(scheduler, "/api/v1/status", Host=f"localhost:{scheduler.port}").status == 200
    assert get(scheduler, "/api/v1/status", Host="[::1]:1").status == 200


def test_on_another_address_only_addresses_and_known_names_are_answered(tmp_path: Path) -> None:
    running = start(tmp_path, "--http-hosts", "gpu-box.lan, Other.lan", http="0.0.0.0:0")
    try:
        names = ["evil.example", "10.1.2.3:9464", "[fd00::1]", "localhost", "gpu-box.lan:80", "other.lan."]
        answers = {name: get(running, "/api/v1/status", Host=name).status for name in (*names, socket.gethostname())}
        assert answers == dict.fromkeys(answers, 200) | {"evil.example": 403}
    finally:
        running.process.terminate()
        assert running.process.wait(60) == 0


def test_status_tells_who_runs_and_who_waits(calm: Scheduler) -> None:
    scheduler = calm
    with Player(scheduler.socket, "big", gib=10) as big, Player(scheduler.socket, "bigger", gib=12) as bigger:
        big.ask()
        assert big.runs.wait(60)
        bigger.ask()
        assert bigger.waits.wait(60)
        status = json.loads(get(scheduler, "/api/v1/status").read())
        seats = {client["name"]: client for client in status["gpus"][0]["clients"]}
        assert {name: seat["state"] for name, seat in seats.items()} == {"big": "running", "bigger": "waiting"}
        assert seats["big"]["memory_allocated"] == 10 * GIB
        operator = operator_client.ask_for(admin.Status, scheduler.operator_socket, admin.GetStatus())
        assert _keys(status) == _keys(json.loads(msgspec.json.encode(status_document(operator))))


def test_the_stream_begins_with_the_past_and_goes_on_with_the_present(scheduler: Scheduler) -> None:
    with Player(scheduler.socket, "early", gib=10) as early:
        early.ask()
        assert early.runs.wait(60)
        stream = events(get(scheduler, "/api/v1/events"))
        kind, past = next(stream)
        assert kind == "steps"
        assert past["is_past"]
        assert violations(past, SCHEMA["$defs"]["steps"], SCHEMA) == []
        assert "running" in {change["change"] for change in past["changes"]}
        kind, status = next(stream)
        assert kind == "status"
        assert violations(status, SCHEMA, SCHEMA) == []
        assert [client["name"] for client in status["gpus"][0]["clients"]] == ["early"]
        with Player(scheduler.socket, "late", gib=10) as late:
            late.ask()
            words = _words_until(stream, "waits for")
            assert any("Client registered" in word for word in words)
            assert late.runs.wait(60)
            _words_until(stream, "taken back (quantum)")


def test_a_step_while_the_first_status_is_on_its_way_is_told_by_another(scheduler: Scheduler) -> None:
    with Player(scheduler.socket, "first", gib=1), contextlib.ExitStack() as others:
        stream = events(get(scheduler, "/api/v1/events"))
        assert next(stream)[0] == "steps"
        others.enter_context(Player(scheduler.socket, "second", gib=1))
        for kind, value in stream:
            if kind == "status" and sum(len(gpu["clients"]) for gpu in value["gpus"]) == 2:
                return


def test_a_status_follows_a_change(scheduler: Scheduler) -> None:
    stream = events(get(scheduler, "/api/v1/events"))
    assert [next(stream)[0], next(stream)[0]] == ["steps", "status"]
    with Player(scheduler.socket, "newcomer", gib=1):
        for kind, value in stream:
            if kind == "status" and any(gpu["clients"] for gpu in value["gpus"]):
                break


def test_a_reader_that_does_not_read_holds_nobody_up(scheduler: Scheduler) -> None:
    with socket.create_connection(("127.0.0.1", scheduler.port)) as deaf:
        deaf.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with Player(scheduler.socket, "a", gib=1) as player:
            player.ask()
            assert player.runs.wait(60)
            assert get(scheduler, "/healthz").read() == b"ok\n"


@pytest.mark.parametrize("garbage", [b"\0\1\2\3\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 40_000])
def test_garbage_is_hung_up_on(scheduler: Scheduler, garbage: bytes) -> None:
    with socket.create_connection(("127.0.0.1", scheduler.port), timeout=60) as peer:
        peer.sendall(garbage)
        try:
            while peer.recv(4096):
                pass
        except ConnectionResetError:
            pass
    assert get(scheduler, "/healthz").status == 200


def test_a_crowd_of_silent_connections_shuts_nobody_out_for_long(scheduler: Scheduler) -> None:
    silent = [socket.create_connection(("127.0.0.1", scheduler.port)) for _ in range(80)]
    with Player(scheduler.socket, "unmoved", gib=1) as player:
        player.ask()
        assert player.runs.wait(60)
    for connection in silent:
        connection.close()
    deadline = time.monotonic() + 60
    while not _is_healthy(scheduler):
        assert time.monotonic() < deadline


def _is_healthy(scheduler: Scheduler) -> bool:
    try:
        return get(scheduler, "/healthz").read() == b"ok\n"
    except (http.client.HTTPException, ConnectionError):
        return False


def test_a_port_that_is_taken_is_one_line_and_exit_2(scheduler: Scheduler, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.mktemp("second")
    command = [sys.executable, "-m", "nvshare.scheduler.main", "--http", f"127.0.0.1:{scheduler.port}"]
    command += ["--socket", str(folder / "s"), "--operator-socket", str(folder / "o" / "c")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert f"cannot serve http at 127.0.0.1:{scheduler.port}" in result.stderr
    assert "Traceback" not in result.stderr


def _words_until(stream: Iterator[tuple[str, Any]], words: str) -> list[str]:
    seen: list[str] = []
    deadline = time.monotonic() + 60
    for kind, value in stream:
        assert time.monotonic() < deadline, seen
        if kind == "steps":
            seen += [event["text"] for event in value["events"]]
            if any(words in line for line in seen):
                return seen
    raise AssertionError(f"the stream ended without {words!r}: {seen}")


def test_the_kernel_keeps_little_of_an_answer_that_is_not_read() -> None:
    async def buffers() -> list[int]:
        server = await HttpServer({}).listen("127.0.0.1:0")
        async with server:
            return [one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for one in server.sockets]

    assert asyncio.run(buffers()) == [2 * SEND_BUFFER]

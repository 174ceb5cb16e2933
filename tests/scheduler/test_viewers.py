"""Connections of viewers and operators: whatever they do, each ends only itself."""

import asyncio
import contextlib
import socket
import struct
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvloop

from nvshare import admin
from nvshare.core import events as ev
from nvshare.journal import Step
from nvshare.scheduler.clients.connection_admission import OWN_DESCRIPTORS, RESERVED_DESCRIPTORS
from nvshare.scheduler.http.server import MAX_ASKING, MAX_PAGES, MAX_RESERVED, MAX_STREAMS
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.operator.control import MAX_OPERATORS
from nvshare.scheduler.operator.readers import MAX_READERS
from nvshare.scheduler.pieces import PIECE_BYTES, PIECE_NS
from nvshare.scheduler.viewer_connection import READ_TIMEOUT_S, guarded, write
from support.client import entry
from support.daemon import Daemon
from support.fixtures import StartDaemon


@pytest.fixture
def viewed(start_daemon: StartDaemon) -> Daemon:
    """A scheduler that serves HTTP."""
    return start_daemon("--http", "127.0.0.1:0")


def ask(daemon: Daemon, path: str, host: str = "127.0.0.1") -> socket.socket:
    """A connection of this host that has sent a request and not read the answer."""
    address = urlsplit(daemon.http)
    connection = socket.create_connection((address.hostname, address.port or 0), timeout=60, source_address=(host, 0))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection


def reset(connection: socket.socket) -> None:
    """Close it so that the peer gets an error, and what was not read is thrown away."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def follow(daemon: Daemon) -> socket.socket:
    """An operator who follows events."""
    operator = socket.socket(socket.AF_UNIX)
    operator.settimeout(60)
    operator.connect(daemon.operator_socket)
    operator.sendall(admin.encode(admin.GetEvents(last=100, follow=True)))
    return operator


def make_steps(daemon: Daemon, count: int) -> None:
    for _ in range(count):
        with daemon.client().register() as client:
            client.take_lock()


def assert_unmoved(daemon: Daemon) -> None:
    make_steps(daemon, 3)
    with urllib.request.urlopen(daemon.http + "/healthz", timeout=60) as page:
        assert page.read() == b"ok\n"
    daemon.assert_alive()
    assert "internal error" not in daemon.log.text
    assert "Traceback" not in daemon.log.text


def read_messages(stream: socket.socket, event: bytes) -> None:
    """Whole messages, until one of this kind has come."""
    heard = b""
    while b"\n\n" not in heard.partition(b"event: " + event + b"\n")[2]:
        data = stream.recv(1 << 16)
        assert data, "the stream ended"
        heard += data


def test_a_live_page_that_is_closed_with_unread_data_ends_only_itself(viewed: Daemon) -> None:
    for number in range(8):
        connection = ask(viewed, "/api/v1/events")
        if number % 2:
            read_messages(connection, b"status")
        else:
            assert connection.recv(10)
        make_steps(viewed, 2)
        reset(connection)
        make_steps(viewed, 2)
    with ask(viewed, "/api/v1/events") as another:
        read_messages(another, b"status")
        make_steps(viewed, 1)
        read_messages(another, b"steps")  # a tick later: the scheduler has written to the closed ones too
    assert_unmoved(viewed)


def test_a_follower_of_events_that_is_closed_with_unread_data_ends_only_itself(viewed: Daemon) -> None:
    for _ in range(8):
        with follow(viewed) as operator:
            make_steps(viewed, 2)
            assert operator.recv(10)
        make_steps(viewed, 2)
    assert_unmoved(viewed)


@pytest.mark.parametrize("path", ["/metrics", "/api/v1/status"])
def test_aborted_scrapes_of_many_clients_end_only_themselves(viewed: Daemon, path: str) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(300):
            stack.enter_context(viewed.client().register(name=f"a client with a name of some length {number}".encode()))
        for _ in range(4):
            scrapes = [ask(viewed, path) for _ in range(8)]
            for scrape in scrapes:
                assert scrape.recv(10)
                reset(scrape)
    assert_unmoved(viewed)


def answer(connection: socket.socket) -> bytes:
    """All that comes until the connection is closed; empty if it was cut."""
    received = b""
    with connection, contextlib.suppress(ConnectionError):
        while data := connection.recv(1 << 16):
            received += data
    return received


def test_no_number_of_other_connections_keeps_a_health_check_or_a_scrape_waiting(viewed: Daemon) -> None:
    address = urlsplit(viewed.http)
    with contextlib.ExitStack() as stack:
        for number in range(200):
            stack.enter_context(viewed.client().register(name=f"a client with a long name {number}".encode()))
        for _ in range(80):
            stack.enter_context(socket.create_connection((address.hostname, address.port or 0)))
            stack.enter_context(ask(viewed, "/api/v1/events"))
            stack.enter_context(ask(viewed, "/api/v1/status"))
            stack.enter_context(ask(viewed, "/metrics"))
        for path, text in (("/healthz", b"ok"), ("/metrics", b"nvshare_gpu_running_clients")):
            assert text in answer(ask(viewed, path))  # or the socket's own time-out fails the test
    assert_unmoved(viewed)


def test_scrapes_of_one_host_without_end_abort_no_scrape_of_another(viewed: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        for number in range(300):
            stack.enter_context(viewed.client().register(name=f"a client with a long name {number}".encode()))
        for _ in range(3):
            mine = ask(viewed, "/metrics")
            assert mine.recv(12) == b"HTTP/1.1 200"
            for _ in range(3 * MAX_RESERVED):
                stack.enter_context(ask(viewed, "/metrics", host="127.0.0.2"))
            assert answer(mine).endswith(b"0\r\n\r\n"), "the last chunk"
    assert_unmoved(viewed)


def test_pages_and_streams_of_one_host_delay_a_scrape_of_another_by_one_turn_and_not_by_one_each(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("--http", "127.0.0.1:0", "--max-clients-per-group=200")

    def scrape() -> tuple[float, float]:
        """The processor time that the scheduler uses until the scrape is whole, and how many pieces it has."""
        used = daemon.processor_seconds()
        text = answer(ask(daemon, "/metrics"))
        assert b"nvshare_gpu_running_clients" in text
        return daemon.processor_seconds() - used, len(text) / PIECE_BYTES

    with contextlib.ExitStack() as stack:
        for _ in range(128):
            stack.enter_context(daemon.client().register(*map(entry, range(15))))
        alone_s, pieces = min(scrape() for _ in range(3))
        for path, most in (("/api/v1/status", MAX_PAGES), ("/api/v1/events", MAX_STREAMS)):
            for _ in range(most):
                stack.callback(reset, ask(daemon, path, host="127.0.0.2"))
        own_s, _ = scrape()
    assert own_s < alone_s + 8 * pieces * PIECE_NS / 1e9, "one turn for each connection would be 32"


def test_streams_beyond_the_most_are_told_to_come_back(viewed: Daemon) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            assert stack.enter_context(ask(viewed, "/api/v1/events")).recv(12) == b"HTTP/1.1 200"
        assert answer(ask(viewed, "/api/v1/events")).startswith(b"HTTP/1.1 503")
        for _ in range(16):
            stack.enter_context(follow(viewed))
        with follow(viewed) as one_more:
            heard = b""
            while b"too many follow events" not in heard:
                heard += one_more.recv(4096)
        viewed.ctl("status")


def test_a_bug_in_a_view_ends_only_that_view() -> None:
    async def fails(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise KeyError("a bug")

    async def main() -> bytes:
        mistakes: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: mistakes.append(context))
        server = await asyncio.start_server(guarded(fails, "HTTP"), "127.0.0.1", 0)
        reader, _ = await asyncio.open_connection(*server.sockets[0].getsockname())
        heard = await reader.read()
        server.close()
        assert mistakes == []
        return heard

    assert asyncio.run(main()) == b""


def test_what_a_slow_peer_has_not_read_is_not_kept_after_its_time() -> None:
    async def is_slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        write(writer, bytes(1 << 24))
        raise TimeoutError

    async def main() -> float:
        server = await asyncio.start_server(guarded(is_slow, "HTTP"), "127.0.0.1", 0)
        loop, (host, port) = asyncio.get_running_loop(), server.sockets[0].getsockname()
        with socket.create_connection((host, port)):
            began = loop.time()
            while asyncio.all_tasks() == {asyncio.current_task()}:  # The connection is not served yet.
                await asyncio.sleep(0)
            await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        server.close()
        return loop.time() - began

    assert asyncio.run(main()) < READ_TIMEOUT_S / 2


def test_a_write_after_a_reset_is_an_error_of_the_connection() -> None:
    """Under the scheduler's event loop, where writing to a closed transport is a RuntimeError."""

    async def main() -> None:
        raised = asyncio.get_running_loop().create_future()

        async def views(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                await reader.read()  # until the transport is closed
            try:
                write(writer, b"data: nobody reads this\n\n")
            except Exception as error:
                raised.set_result(error)
            finally:
                writer.transport.abort()

        server = await asyncio.start_server(views, "127.0.0.1", 0)
        with socket.socket() as viewer:
            await asyncio.get_running_loop().sock_connect(viewer, server.sockets[0].getsockname())
            reset(viewer)
        async with asyncio.timeout(60):
            assert isinstance(await raised, ConnectionResetError)
        server.close()

    uvloop.run(main())


def test_a_follower_that_fails_is_dropped_and_the_others_go_on() -> None:
    def fails(step: Step) -> None:
        raise KeyError("a bug")

    journal, seen = Journal(10), list[Step]()
    stop = journal.follow(fails)
    journal.follow(seen.append)
    steps = [Step(now, 0.0, ev.AlarmRang(), ()) for now in range(2)]
    for step in steps:
        journal.observe(step)
    stop()
    assert seen == steps


def test_clients_leave_enough_descriptors_for_all_viewers_and_operators(viewed: Daemon) -> None:
    http = MAX_ASKING + 2 * MAX_RESERVED + MAX_STREAMS + MAX_PAGES
    assert http + MAX_OPERATORS + MAX_READERS + OWN_DESCRIPTORS <= RESERVED_DESCRIPTORS
    assert viewed.descriptors() <= OWN_DESCRIPTORS // 2  # NVML and Kubernetes are off

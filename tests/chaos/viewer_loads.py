"""Loads of viewers: HTTP requests and followers of events."""

import contextlib
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

from chaos.loads import MAX_WAIT_S, Load, Result, Victim, judge, serving, until
from nvshare import admin
from nvshare.scheduler.pieces import PIECE_BYTES, PIECE_NS
from nvshare.wire import messages as wire
from support.client import entry
from support.daemon import Daemon

CROWD = 900
ABORTED = 32
VIEWED = ("/metrics", "/api/v1/events", "/")
HOLDERS, BIG_STEPS, BIG_READERS, BIG_STREAMS = 500, 80, 30, 16
MOST_OWN_MS = 50
BEGINNING = len(b"HTTP/1.1 200")
STATUS = b"event: status\n"
STREAMS_READ = 4
"""Of each ABORTED: streams that are read up to the end of their first status. After it, only a step makes the scheduler
write to them again."""
BURST = 400
USERS_OF_MANY, MANY_GPUS = 128, 15
LOOPED = {"/api/v1/status": 16, "/api/v1/events": 16, "/metrics": 32}
"""Connections of the host that asks again and again."""
MAX_SCRAPE_S = 10.0
"""Prometheus waits so long."""
MOST_TURNS = 8
"""For each piece of a scrape, one piece for the other host's scrapes is made, and one for its pages and streams. The
rest is for new connections. With one piece for each connection there would be 40."""


def is_healthy(daemon: Daemon) -> bool:
    """False also if the connection is closed without an answer."""
    try:
        with urllib.request.urlopen(daemon.http + "/healthz", timeout=60) as page:
            return bool(page.read() == b"ok\n")
    except ConnectionError:
        return False
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionError):  # while the request was sent
            return False
        raise


def reset(connection: socket.socket) -> None:
    """Close it so that the other end gets an error, and what was not read is thrown away."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def request(daemon: Daemon, path: str, host: str = "127.0.0.1") -> socket.socket:
    """A request of this host whose answer nobody has read yet."""
    address = urlsplit(daemon.http)
    connection = socket.create_connection((address.hostname, address.port or 0), timeout=60, source_address=(host, 0))
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return connection


def read_until(stream: socket.socket, message: bytes) -> None:
    """Up to the beginning of such a message; also a part of what comes after that."""
    last = b""
    while message not in last:
        data = stream.recv(1 << 16)
        assert data, "the stream ended"
        last = last[-len(message) :] + data


def _read_first_status(stream: socket.socket) -> None:
    """Also a part of what may come after it."""
    heard = b""
    while b"\n\n" not in heard.partition(STATUS)[2]:
        data = stream.recv(1 << 16)
        assert data, "the stream ended"
        heard += data


def aborted_requests(place: Path, seconds: float) -> Result:
    """1: scrapes, streams and pages, ABORTED at a time, whose first bytes are read and the rest is not; of some streams
    the first status is read. Steps of another client follow each reset."""
    with serving(place) as daemon, contextlib.ExitStack() as stack:
        for _ in range(CROWD):
            stack.enter_context(daemon.client().register())
        answers = dict.fromkeys(VIEWED, 0)
        with Victim(daemon) as victim:
            for _ in until(seconds):
                paths = [VIEWED[number % len(VIEWED)] for number in range(ABORTED)]
                open_ones = [request(daemon, path) for path in paths]
                for path, one in zip(paths, open_ones, strict=True):
                    answers[path] += one.recv(BEGINNING) == b"HTTP/1.1 200"
                streams = [one for path, one in zip(paths, open_ones, strict=True) if path == "/api/v1/events"]
                for stream in streams[:STREAMS_READ]:
                    _read_first_status(stream)
                for one in open_ones:
                    reset(one)
        served = ", ".join(f"{count} of {path}" for path, count in answers.items())
        return judge(
            f"aborted beside {CROWD} clients: {served}; {victim}",
            health_checks_succeed=is_healthy(daemon),
            the_other_client_waits_briefly=victim.longest_s < MAX_WAIT_S,
            all_kinds_were_served=all(answers.values()),
        )


def aborted_followers(place: Path, seconds: float) -> Result:
    """1: `nvsharectl events -f` that is closed with data unread: before its first line, or after it. A client sends so
    many messages meanwhile that steps happen in each iteration of the scheduler's event loop."""
    burst = [wire.MemUpdate(0, 1, number << 20, 0) for number in range(BURST)]
    with serving(place) as daemon, daemon.client().register() as busy, Victim(daemon) as victim:
        for count in until(seconds):
            operator = socket.socket(socket.AF_UNIX)
            operator.settimeout(60)
            operator.connect(daemon.operator_socket)
            operator.sendall(admin.encode(admin.GetEvents(last=count % 100, follow=True)))
            if count % 2:
                busy.send(burst[0])
                assert operator.recv(10)
            busy.send(*burst)
            reset(operator)
            busy.hear_all()
        return judge(
            f"{count + 1} followers aborted, {victim}",
            health_checks_succeed=is_healthy(daemon),
            the_other_client_waits_briefly=victim.longest_s < MAX_WAIT_S,
        )


def crowded_health(place: Path, seconds: float) -> Result:
    """9: 64 connections that stay open, and health checks."""
    with serving(place) as daemon, contextlib.ExitStack() as stack:
        longest, healthy = 0.0, True
        for count in until(seconds):
            for _ in range(64 if count == 0 else 1):
                address = urlsplit(daemon.http)
                open_one = socket.create_connection((address.hostname, address.port or 0), timeout=60)
                stack.callback(open_one.close)
            began = time.monotonic()
            healthy = is_healthy(daemon) and healthy
            longest = max(longest, time.monotonic() - began)
        measured = f"{count + 1} checks beside {64 + count} connections, longest {1000 * longest:.0f} ms"
        return judge(measured, health_checks_succeed=healthy and longest < MAX_WAIT_S)


def scrapes_of_a_loop(place: Path, seconds: float) -> Result:
    """9b: connections of one host that ask for the metrics, pages and streams again and again; health checks and
    scrapes of another. The clients use MANY_GPUS GPUs each: an answer has many pieces."""
    with serving(place, "--max-clients-per-group=400") as daemon, contextlib.ExitStack() as stack:
        for number in range(USERS_OF_MANY):
            gpus = [entry((number + gpu) % (2 * MANY_GPUS)) for gpu in range(MANY_GPUS)]
            stack.enter_context(daemon.client().register(*gpus, name=f"a client with a long name {number}".encode()))
        scrapes = [_scrape(daemon) for _ in range(3)]
        alone_s = min(scrape.own_s for scrape in scrapes)
        longest_s, healthy, scrapes = 0.0, True, []
        for _ in until(seconds):
            loop = [request(daemon, path, host="127.0.0.2") for path in LOOPED for _ in range(LOOPED[path])]
            began = time.monotonic()
            healthy = healthy and is_healthy(daemon)
            longest_s = max(longest_s, time.monotonic() - began)
            scrapes.append(_scrape(daemon))
            for connection in loop:
                reset(connection)
        slowest_s, own_s = max(scrape.seconds for scrape in scrapes), median(scrape.own_s for scrape in scrapes)
        times = f"checks at most {1000 * longest_s:.0f} ms, scrapes {slowest_s:.1f} s"
        own = f"the scheduler's own time for a scrape {1000 * own_s:.0f} ms, alone {1000 * alone_s:.0f} ms"
        return judge(
            f"{len(scrapes)} checks and scrapes; {times}; {own}",
            health_checks_succeed=healthy and longest_s < MAX_WAIT_S,
            scrapes_are_whole=all(scrape.is_whole for scrape in scrapes),
            scrapes_are_in_time=slowest_s < MAX_SCRAPE_S,
            scrapes_take_turns_with_the_other_host=own_s < alone_s + MOST_TURNS * scrapes[0].pieces * PIECE_NS / 1e9,
        )


class Scrape(NamedTuple):
    seconds: float
    own_s: float
    """Processor time that the scheduler used meanwhile."""
    is_whole: bool
    pieces: float


def _scrape(daemon: Daemon) -> Scrape:
    began, used = time.monotonic(), daemon.processor_seconds()
    with urllib.request.urlopen(daemon.http + "/metrics", timeout=60) as page:
        text = page.read()
    own_s, is_whole = daemon.processor_seconds() - used, b"nvshare_gpu_running_clients" in text
    return Scrape(time.monotonic() - began, own_s, is_whole, len(text) / PIECE_BYTES)


def reads_of_big_steps(place: Path, seconds: float) -> Result:
    """9c: connections of one user that read events and stories, and streams, beside steps about HOLDERS clients."""
    path = str(place / "status" / "status.sock")
    options = "--max-clients-per-group=1000", "--reader-socket", path
    with serving(place, *options) as daemon, contextlib.ExitStack() as stack:
        holders = [stack.enter_context(daemon.client().register(name=b"holder")) for _ in range(HOLDERS)]
        for one in holders:
            one.take_lock(1 << 20)
        contend(daemon)
        client = holders[0].name
        questions = [admin.GetEvents(last=1000), admin.GetEvents(last=1000, client=client), admin.GetStory(client)]
        is_over, answers = threading.Event(), Counter[str]()
        with ThreadPoolExecutor(2 * BIG_READERS) as threads, Victim(daemon) as victim:
            try:
                for number in range(BIG_READERS):
                    threads.submit(ask_again, path, questions[number % len(questions)], is_over, answers)
                for _ in range(BIG_STREAMS):
                    threads.submit(watch_again, daemon, is_over, answers)
                is_over.wait(seconds)
            finally:
                is_over.set()
        own_ms = sorted(1000 * own for own in victim.own)
        worst, p99 = own_ms[-1], own_ms[len(own_ms) * 99 // 100]
        served = ", ".join(f"{count} {what}" for what, count in sorted(answers.items()))
        return judge(
            f"{served}; {victim}; the scheduler's own time p99 {p99:.0f} ms, longest {worst:.0f} ms",
            the_scheduler_serves_the_other_client_first=worst <= MOST_OWN_MS,
            all_kinds_were_served=len(answers) == 3,
        )


def contend(daemon: Daemon) -> None:
    """All holders are told that another client waits, and that it has gone, again and again."""
    for _ in range(BIG_STEPS // 2):
        with daemon.client().register() as one:
            one.request(15 << 30)
            one.hear_all()


def ask_again(path: str, question: admin.Request, is_over: threading.Event, answers: Counter[str]) -> None:
    while not is_over.is_set():
        with socket.socket(socket.AF_UNIX) as peer, contextlib.suppress(OSError):
            peer.settimeout(60)
            peer.connect(path)
            peer.sendall(admin.encode(question))
            peer.shutdown(socket.SHUT_WR)
            while not is_over.is_set() and peer.recv(1 << 20):
                answers[type(question).__name__] += 1


def watch_again(daemon: Daemon, is_over: threading.Event, answers: Counter[str]) -> None:
    """The past of a stream, up to its status."""
    while not is_over.is_set():
        with contextlib.suppress(OSError):
            stream, text = request(daemon, "/api/v1/events"), b""
            while not is_over.is_set() and b"event: status" not in text[-(1 << 21) :]:
                text += stream.recv(1 << 20)
            answers["streams"] += 1
            reset(stream)


LOADS: dict[str, tuple[str, Load]] = {
    "1": ("HTTP requests aborted", aborted_requests),
    "1b": ("events -f aborted", aborted_followers),
    "9": ("health with 64 connections", crowded_health),
    "9b": ("scrapes without end", scrapes_of_a_loop),
    "9c": ("reads of big steps", reads_of_big_steps),
}

"""How long a scrape of /metrics, or a look at the status, holds up the event loop with 1,000 clients.

The scheduler's engine, metrics and web server run in this process; a scraper in another. A probe that runs in every
turn of the loop notes the most that was computed between two turns: what a client's message would have had to wait. It
is CPU time, so that a busy machine does not count as a busy scheduler. Want: 5 ms."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import uvloop

from nvshare import admin
from nvshare.core.events import ClientRegistered, LockRequested
from nvshare.core.model import GIB, Claim, Memory, Settings
from nvshare.core.node import Node
from nvshare.scheduler.clients.connection_admission import ConnectionAdmission
from nvshare.scheduler.engine import Engine
from nvshare.scheduler.http.live_feed import Feed
from nvshare.scheduler.http.server import HttpServer
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.observe.metrics import Metrics
from nvshare.scheduler.operator.control import Control
from nvshare.scheduler.pieces import Owner

GPU = "GPU-00000000-0000-0000-0000-000000000001"
CLIENTS = (10, 1000)
SCRAPES = 20
SCRAPER = """
import sys, urllib.request
for _ in range(int(sys.argv[2])):
    assert len(urllib.request.urlopen(sys.argv[1], timeout=60).read()) > 1000
"""


class Probe:
    """Runs in every turn of the loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last = time.thread_time_ns()
        self.longest_ns = 0
        self._handle = self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        now = time.thread_time_ns()
        self.longest_ns = max(self.longest_ns, now - self._last)
        self._last = now
        self._handle = self._loop.call_soon(self._tick)

    def stop(self) -> None:
        self._handle.cancel()


def crowd(clients: int) -> tuple[Engine, Metrics, Journal]:
    """A GPU with this many clients, ten of which run."""
    engine = Engine(Node(Settings(), epoch=1), asyncio.get_running_loop())
    metrics, journal = Metrics(ConnectionAdmission(max_connections=clients, max_per_account=clients)), Journal(10_000)
    engine.observers.extend((metrics.observe, journal.observe))
    for number in range(1, clients + 1):
        claim = Claim(GPU, 100 * GIB)
        engine.post(ClientRegistered(number, f"pod/{number}", f"team/pod-{number}", "python", (claim,), pid=number))
        engine.post(LockRequested(number, GPU, Memory(9 * GIB, 0, 0)))
    return engine, metrics, journal


async def scrape(address: str) -> float:
    """The longest hold, in milliseconds, while another process scrapes."""
    scraper = await asyncio.create_subprocess_exec(sys.executable, "-c", SCRAPER, address, str(SCRAPES))
    probe = Probe()
    assert await scraper.wait() == 0
    probe.stop()
    return probe.longest_ns / 1e6


async def measure(clients: int) -> list[dict[str, Any]]:
    engine, metrics, journal = crowd(clients)
    feed = Feed(engine, journal)
    web = HttpServer(
        {
            "/metrics": lambda: ("text/plain", metrics.render(engine.outline(), engine.clients())),
            "/api/v1/status": lambda: ("application/json", feed.document_pieces()),
        }
    )
    server = await web.listen("127.0.0.1:0")
    host, port = server.sockets[0].getsockname()
    found = []
    for page in ("/metrics", "/api/v1/status"):
        held = min([await scrape(f"http://{host}:{port}{page}") for _ in range(3)])
        found.append({"bench": "scrape", "page": page, "clients": clients, "longest_hold_ms": round(held, 2)})
    server.close()
    held = min([await ask_status(engine, journal) for _ in range(3)])
    row = {"bench": "scrape", "page": "nvsharectl status", "clients": clients, "longest_hold_ms": round(held, 2)}
    return [*found, row]


async def ask_status(engine: Engine, journal: Journal) -> float:
    """The longest hold, in milliseconds, while an operator's question for the status is answered in pieces."""
    control = Control(engine, journal)
    probe = Probe()
    await control.answer_to(admin.GetStatus(), Owner("operator"))
    await asyncio.sleep(0)  # The probe sees the last piece too, with the encoding.
    probe.stop()
    return probe.longest_ns / 1e6


def rows() -> list[dict[str, Any]]:
    """One row for each page and number of clients."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return [row for clients in CLIENTS for row in runner.run(measure(clients))]


if __name__ == "__main__":
    for row in rows():
        print(json.dumps(row))

"""The routes of the HTTP server: the live page and its data, metrics, health."""

import asyncio
from collections.abc import Iterable, Iterator

from nvshare.scheduler.engine import Engine
from nvshare.scheduler.http.live_feed import Feed
from nvshare.scheduler.http.page import assets
from nvshare.scheduler.http.server import HttpServer, Page
from nvshare.scheduler.observe.journal import Journal
from nvshare.scheduler.observe.log import log
from nvshare.scheduler.observe.metrics import Metrics
from nvshare.scheduler.pieces import Pieces


async def serve_routes(
    address: str,
    engine: Engine,
    journal: Journal,
    metrics: Metrics,
    pieces: Pieces,
    *,
    machine: str = "",
    hosts: Iterable[str] = (),
) -> asyncio.Server:
    """Listen at ADDRESS:PORT. `machine` is the name that the page shows, `hosts` are names of this server."""
    feed = Feed(engine, journal, machine, pieces)

    def scrape() -> Iterator[bytes]:
        yield from metrics.render(engine.outline(), engine.clients())

    pages: dict[str, Page] = {
        "/metrics": lambda: ("text/plain; version=0.0.4; charset=utf-8", scrape()),
        "/healthz": lambda: ("text/plain", [b"ok\n"]),
        "/api/v1/status": lambda: ("application/json", feed.document_pieces()),
    }
    reserved = frozenset({"/healthz", "/metrics"})
    http = HttpServer(pages | assets(), {"/api/v1/events": feed.stream}, reserved, frozenset(hosts), pieces)
    server = await http.listen(address)
    host, port = server.sockets[0].getsockname()[:2]
    log.info(f"http at {f'[{host}]' if ':' in host else host}:{port}")
    return server
